/** The sinks of bucket notifications: servers that messages are delivered to. */

import type { OptionalPackage } from '../base/optional-packages.ts';

/** The fields of a target of `SVC_NOTIFY_TARGETS`, as its sink reads them. */
interface SinkFields {
  /** The last field of the ARNs that point to it. */
  readonly id: string;
  /** Empty where the runtime reaches the target by a binding. */
  readonly url: string;
  /** Sent as a bearer token. */
  readonly token?: string;
  /** Sent with `password` by basic authentication. */
  readonly username?: string;
  readonly password?: string;
  /** Signs each message by HMAC-SHA256. */
  readonly secret?: string;
  /** PEM files: authorities to trust instead of the public ones; this gateway's certificate and its key. */
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** The subject of NATS. */
  readonly subject?: string;
  /** The stream or list of Redis. */
  readonly key?: string;
  /** Redis: `stream` or `list`. PostgreSQL: `insert` or `upsert`. Kafka: the SASL mechanism. */
  readonly mode?: string;
  /** About how many entries a stream of Redis keeps. */
  readonly maxLength?: number;
  readonly table?: string;
  /** The topic of MQTT or Kafka. */
  readonly topic?: string;
  /** Further first brokers of Kafka: `host:port`, separated by commas. */
  readonly brokers?: string;
  /** Of AMQP; the default exchange when it is absent. */
  readonly exchange?: string;
  readonly routingKey?: string;
  /** The region in the signatures of SQS. */
  readonly region?: string;
  /** The name of the Worker's binding of a Cloudflare Queue. */
  readonly binding?: string;
}

export interface SinkTarget extends SinkFields {
  readonly type: keyof typeof kinds;
}

// The table of sinks. A kind is a row here, a file in `backends/sinks` and its line in `open-sinks.ts` beside it; its
// documents and packages are in ARCHITECTURE.md, "Adding things".

/** What is sent to a target, in traces: https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/ */
interface Messaging {
  readonly system: string;
  /** As the protocol of the target names it. */
  readonly operation: string | ((target: SinkFields) => string);
  /** Absent: the target itself. A webhook's path may contain a token. */
  readonly destination?: (target: SinkFields) => string | undefined;
}

interface SinkKind {
  /** The schemes of its URL; none where a binding reaches it. */
  readonly schemes: readonly string[];
  /** The fields that each target has, and those that it may have, beside those of all kinds. */
  readonly needs: readonly (keyof SinkFields)[];
  readonly takes: readonly (keyof SinkFields)[];
  /** The values of `mode`, the default first. */
  readonly modes?: readonly string[];
  /** The form of fields; `fault` is said of a text that has another, behind the name of its entry. */
  readonly forms?: Readonly<
    Partial<Record<keyof SinkFields, { readonly form: RegExp; readonly fault: string }>>
  >;
  /** A password may stand without a user name. */
  readonly hasPasswordAlone?: true;
  /** The client library, where it has one. */
  readonly packages?: readonly OptionalPackage[];
  readonly messaging: Messaging;
}

const password = ['username', 'password'] as const;
const tls = ['caFile', 'certFile', 'keyFile'] as const;

const kinds = {
  webhook: {
    schemes: ['http', 'https'],
    needs: [],
    takes: [...password, ...tls, 'token', 'secret'],
    messaging: { system: 'webhook', operation: 'POST' },
  },
  nats: {
    schemes: ['nats', 'tls'],
    needs: ['subject'],
    takes: [...password, ...tls, 'token'],
    packages: ['@nats-io/transport-node', '@nats-io/jetstream'],
    messaging: { system: 'nats', operation: 'publish', destination: ({ subject }) => subject },
  },
  redis: {
    schemes: ['redis', 'rediss'],
    needs: ['key'],
    takes: [...password, ...tls, 'mode', 'maxLength'],
    modes: ['stream', 'list'],
    // The default user has a password alone.
    hasPasswordAlone: true,
    packages: ['ioredis'],
    messaging: {
      system: 'redis',
      operation: ({ mode }) => (mode === 'list' ? 'RPUSH' : 'XADD'),
      destination: ({ key }) => key,
    },
  },
  postgres: {
    schemes: ['postgres', 'postgresql', 'postgres+tls'],
    needs: ['table'],
    takes: [...password, ...tls, 'mode'],
    modes: ['insert', 'upsert'],
    forms: {
      table: {
        form: /^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$/,
        fault: 'has a table that is not a name such as events or audit.events',
      },
    },
    packages: ['postgres'],
    messaging: { system: 'postgresql', operation: 'INSERT', destination: ({ table }) => table },
  },
  mqtt: {
    schemes: ['mqtt', 'mqtts'],
    needs: ['topic'],
    takes: [...password, ...tls],
    packages: ['mqtt'],
    messaging: { system: 'mqtt', operation: 'publish', destination: ({ topic }) => topic },
  },
  amqp: {
    schemes: ['amqp', 'amqps'],
    needs: ['routingKey'],
    takes: [...password, ...tls, 'exchange'],
    packages: ['rabbitmq-client'],
    messaging: {
      system: 'rabbitmq',
      operation: 'publish',
      destination: ({ exchange = '', routingKey = '' }) =>
        exchange ? `${exchange}:${routingKey}` : routingKey,
    },
  },
  sqs: {
    schemes: ['http', 'https'],
    needs: ['region', ...password],
    takes: [...tls],
    messaging: {
      system: 'aws_sqs',
      operation: 'SendMessageBatch',
      destination: ({ url }) => new URL(url).pathname.split('/').at(-1),
    },
  },
  kafka: {
    schemes: ['kafka', 'kafkas'],
    needs: ['topic'],
    takes: [...password, ...tls, 'brokers', 'mode'],
    modes: ['SCRAM-SHA-512', 'SCRAM-SHA-256', 'PLAIN'],
    forms: {
      brokers: {
        form: /^[A-Za-z0-9.-]{1,253}:\d{1,5}(,[A-Za-z0-9.-]{1,253}:\d{1,5}){0,31}$/,
        fault: 'has brokers that are not a list such as kafka-2:9092,kafka-3:9092',
      },
    },
    packages: ['@platformatic/kafka'],
    messaging: { system: 'kafka', operation: 'send', destination: ({ topic }) => topic },
  },
  queue: {
    schemes: [],
    needs: ['binding'],
    takes: [],
    forms: {
      binding: {
        form: /^[A-Za-z_$][\w$]{0,127}$/,
        fault: 'has a binding that is not a name such as EVENTS',
      },
    },
    messaging: { system: 'cloudflare_queues', operation: 'sendBatch', destination: ({ binding }) => binding },
  },
} as const satisfies Readonly<Record<string, SinkKind>>;

export const sinkKinds: Readonly<Record<SinkTarget['type'], SinkKind>> = kinds;

export interface SinkMessage {
  /** Equal in every delivery of the same message, so that a receiver recognizes a repetition. */
  readonly id: string;
  /** The bucket and the object: messages of one subject are delivered in order. */
  readonly subject: string;
  /** Whose message it is. Owners share out what the sink can do at a time. */
  readonly owner: string;
  readonly body: string;
  readonly contentType: string;
  /** The span of the delivery, for sinks whose messages have headers. */
  readonly traceparent?: string | undefined;
}

export interface SinkFailure {
  /**
   * - `refused`: the sink does not take this message, and would not take it later; others may pass.
   * - `failed`: the sink does not take this message now; others may pass.
   * - `lost`: the connection ended or timed out after messages were sent. One of them may be the cause.
   * - `unavailable`: the sink takes nothing now.
   */
  readonly kind: 'refused' | 'failed' | 'lost' | 'unavailable';
  /** For operators: what happened, and what to do where that is known. */
  readonly error: string;
}

export interface Delivery {
  /** How many of the messages, from the first, the sink has acknowledged. */
  readonly delivered: number;
  /** Why the next one was not delivered; absent when all were, and when the signal aborted. */
  readonly failure?: SinkFailure;
  /** How long the messages waited for other deliveries of this sink; 0 where absent. */
  readonly waitedMs?: number;
}

/**
 * An event as the public service describes it:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 */
export interface EventRecord {
  readonly eventVersion: string;
  readonly eventSource: string;
  readonly awsRegion: string;
  /** ISO 8601. */
  readonly eventTime: string;
  /** Such as `ObjectCreated:Put`. */
  readonly eventName: string;
  readonly userIdentity: { readonly principalId: string };
  readonly requestParameters: { readonly sourceIPAddress: string };
  readonly responseElements: Readonly<Record<string, string>>;
  readonly s3: {
    readonly s3SchemaVersion: string;
    readonly configurationId: string;
    readonly bucket: {
      readonly name: string;
      readonly ownerIdentity: { readonly principalId: string };
      readonly arn: string;
    };
    readonly object: {
      /** Form-encoded, as the public service writes it. */
      readonly key: string;
      readonly size?: number;
      readonly eTag?: string;
      readonly versionId?: string;
      readonly sequencer: string;
    };
  };
  readonly glacierEventData?: {
    readonly restoreEventData: {
      /** ISO 8601. */
      readonly lifecycleRestorationExpiryTime: string;
      readonly lifecycleRestoreStorageClass: string;
    };
  };
  readonly lifecycleEventData?: {
    readonly transitionEventData: { readonly destinationStorageClass: string };
  };
  /** Absent where the event removed the retention. */
  readonly objectRetentionEventData?: { readonly mode: string; readonly retainUntilDate: string };
  /** Of the events `Replication:*`. */
  readonly replicationEventData?: object;
}

export interface EventSink {
  /**
   * Delivers messages of one owner in order, and stops at the first one that fails or when the signal aborts.
   * @throws the signal's reason, where no message was acknowledged before
   */
  deliver(messages: readonly SinkMessage[], signal: AbortSignal): Promise<Delivery>;
  close(): Promise<void>;
}

export interface EventSinks {
  /** The sink of a target; the same one in each call. An answer of type string says why there is none. */
  open(id: string): Promise<EventSink | string>;
  close(): Promise<void>;
}
