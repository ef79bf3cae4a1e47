/** The sinks of the configured targets. Each is opened with its first message, and its client is loaded only then. */

import type { EventSink, EventSinks, SinkTarget } from '../../ports/event-sink.ts';
import { explainMissing, explainNoBinding, type SinkOptions } from './sink-options.ts';

/** Opens the sink of a type. */
const kinds: Readonly<
  Record<SinkTarget['type'], (target: SinkTarget, options: SinkOptions) => Promise<EventSink>>
> = {
  webhook: async (target, options) => (await import('./webhook.ts')).openWebhook(target, options),
  nats: async (target, options) => (await import('./nats.ts')).openNats(target, options),
  redis: async (target, options) => (await import('./redis.ts')).openRedis(target, options),
  postgres: async (target, options) => (await import('./postgres.ts')).openPostgres(target, options),
  mqtt: async (target, options) => (await import('./mqtt.ts')).openMqtt(target, options),
  amqp: async (target, options) => (await import('./amqp.ts')).openAmqp(target, options),
  sqs: async (target, options) => (await import('./sqs.ts')).openSqs(target, options),
  kafka: async (target, options) => (await import('./kafka.ts')).openKafka(target, options),
  queue: async (target) => {
    throw new Error(explainNoBinding(target));
  },
};

export function openSinks(targets: readonly SinkTarget[], options: SinkOptions): EventSinks {
  const opened = new Map<string, Promise<EventSink>>();
  return {
    async open(id) {
      const target = targets.find((each) => each.id === id);
      if (target === undefined) return explainMissing(id);
      const open = kinds[target.type];
      let sink = opened.get(id);
      if (sink === undefined) {
        sink = open(target, options);
        opened.set(id, sink);
      }
      try {
        return await sink;
      } catch (cause) {
        // Open it again next time: a file may be there then.
        opened.delete(id);
        return `the sink cannot be opened: ${(cause as Error).message}`;
      }
    },
    async close() {
      const sinks = await Promise.allSettled(opened.values());
      opened.clear();
      await Promise.all(sinks.map((sink) => (sink.status === 'fulfilled' ? sink.value.close() : undefined)));
    },
  };
}
