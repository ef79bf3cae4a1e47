/**
 * Sends messages to a topic of Kafka with `acks=all`. The object is the key, so its events are in one partition, in order. The brokers
 * that the cluster names are checked like the first one.
 */

import { loadOptional } from '../../base/optional-packages.ts';
import type { Delivery, EventSink, SinkFailure, SinkTarget } from '../../ports/event-sink.ts';
import { guardedLookup, resolveGuarded } from '../egress.ts';
import { describe, type Place, type Session, sessionSink } from './session-sink.ts';
import type { SinkOptions } from './sink-options.ts';

export async function openKafka(target: SinkTarget, options: SinkOptions): Promise<EventSink> {
  const { Producer, stringSerializers } = await loadOptional(
    ['@platformatic/kafka'],
    () => import('@platformatic/kafka'),
  );
  const { mayReach } = options;
  const topic = target.topic ?? '';
  const others = target.brokers?.split(',') ?? [];

  async function connect({ host, port, tls, timeoutMs }: Place): Promise<Session> {
    const producer = new Producer({
      clientId: 'sluice',
      bootstrapBrokers: [`${host}:${port}`, ...others],
      serializers: stringSerializers,
      // The cluster drops repetitions of a batch within a session of the producer.
      idempotent: true,
      acks: -1,
      timeout: timeoutMs,
      connectTimeout: timeoutMs,
      // With fewer, the library would try for ever and hide the cause.
      retries: 2,
      retryDelay: 100,
      autocreateTopics: false,
      ...(tls === undefined ? {} : { tls: { ...tls, lookup: guardedLookup(mayReach) }, tlsServerName: true }),
      ...(target.username === undefined ? {} : { sasl: saslOptions(target) }),
    });
    const pool = producer.connections;
    const connectTo = pool.get.bind(pool) as (broker: Broker, done: Done) => void;
    // Every connection of the library begins here, those to brokers that the cluster names too.
    const checked = (broker: Broker | undefined, done: Done): void => {
      if (broker === undefined) {
        done(new Error('the cluster has no leader for the partition'));
        return;
      }
      resolveGuarded(broker.host, mayReach).then(
        (address) => connectTo(tls === undefined ? { ...broker, host: address } : broker, done),
        done,
      );
    };
    pool.get = checked as unknown as typeof pool.get;
    return {
      async send(messages): Promise<Delivery> {
        try {
          await producer.send({
            messages: messages.map(({ id, subject, contentType, body, traceparent }) => ({
              topic,
              key: subject,
              value: body,
              headers: {
                id,
                'content-type': contentType,
                ...(traceparent === undefined ? {} : { traceparent }),
              },
            })),
          });
          return { delivered: messages.length };
        } catch (cause) {
          return { delivered: 0, failure: explain(cause, { topic, messages: messages.length }) };
        }
      },
      close: () => producer.close(true),
    };
  }

  return sessionSink(target, options, { port: 9092, tlsSchemes: ['kafkas'], connect });
}

interface Broker {
  readonly host: string;
  readonly port: number;
}
type Done = (error: Error | null, connection?: unknown) => void;

const saslOptions = ({ username = '', password = '', mode = 'SCRAM-SHA-512' }: SinkTarget) => ({
  mechanism: mode as 'SCRAM-SHA-512' | 'SCRAM-SHA-256' | 'PLAIN',
  username,
  password,
});

function explain(
  cause: unknown,
  { topic, messages }: { readonly topic: string; readonly messages: number },
): SinkFailure {
  const text = describe(cause);
  const hint = /UNKNOWN.?TOPIC|does not host this topic/i.test(text) ? `: create the topic ${topic}` : '';
  const error = `the sink answered ${text}${hint}`;
  const isRefusal =
    /larger than the max|larger than the configured segment|record has failed the validation|timestamp of the message is out/i.test(
      text,
    );
  if (!isRefusal) return { kind: 'unavailable', error };
  // The answer is about the batch: one of its messages is the cause.
  return { kind: messages > 1 ? 'lost' : 'refused', error };
}
