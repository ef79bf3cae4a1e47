/** What a delivery to a target is, by https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/. */
import { describeServerOfUrl } from '../../../base/text/server-address.ts';
import type { SinkTarget } from '../../../ports/event-sink.ts';
import type { Attributes } from '../../../ports/trace.ts';

interface Messaging {
  readonly system: string;
  /** As the protocol of the target names it. */
  readonly operation: string | ((target: SinkTarget) => string);
  /** Absent: the target itself. A webhook's path may contain a token. */
  readonly destination?: (target: SinkTarget) => string | undefined;
}

const systems: Readonly<Record<SinkTarget['type'], Messaging>> = {
  webhook: { system: 'webhook', operation: 'POST' },
  kafka: { system: 'kafka', operation: 'send', destination: ({ topic }) => topic },
  nats: { system: 'nats', operation: 'publish', destination: ({ subject }) => subject },
  amqp: {
    system: 'rabbitmq',
    operation: 'publish',
    destination: ({ exchange = '', routingKey = '' }) =>
      exchange ? `${exchange}:${routingKey}` : routingKey,
  },
  redis: {
    system: 'redis',
    operation: ({ mode }) => (mode === 'list' ? 'RPUSH' : 'XADD'),
    destination: ({ key }) => key,
  },
  sqs: {
    system: 'aws_sqs',
    operation: 'SendMessageBatch',
    destination: ({ url }) => new URL(url).pathname.split('/').at(-1),
  },
  mqtt: { system: 'mqtt', operation: 'publish', destination: ({ topic }) => topic },
  postgres: { system: 'postgresql', operation: 'INSERT', destination: ({ table }) => table },
};

/** @param id of a target that the settings may no longer have */
export function describeDelivery(targets: readonly SinkTarget[], id: string, messages: number): Attributes {
  const target = targets.find((each) => each.id === id);
  if (target === undefined) return { 'messaging.destination.name': id };
  const { system, operation, destination } = systems[target.type];
  const { routingKey } = target;
  return {
    'messaging.system': system,
    'messaging.operation.type': 'send',
    'messaging.operation.name': typeof operation === 'string' ? operation : operation(target),
    'messaging.destination.name': destination?.(target) || id,
    'messaging.batch.message_count': messages,
    ...(routingKey === undefined ? {} : { 'messaging.rabbitmq.destination.routing_key': routingKey }),
    ...describeServerOfUrl(target.url),
  };
}
