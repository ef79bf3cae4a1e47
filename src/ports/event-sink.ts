/** The sinks of bucket notifications: servers that messages are delivered to. */

/** A target of `SVC_NOTIFY_TARGETS`, as its sink reads it. */
export interface SinkTarget {
  /** The last field of the ARNs that point to it. */
  readonly id: string;
  readonly type: 'webhook' | 'kafka' | 'nats' | 'amqp' | 'redis' | 'sqs' | 'mqtt' | 'postgres' | 'queue';
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

export interface SinkMessage {
  /** Equal in every delivery of the same message, so that a receiver recognizes a repetition. */
  readonly id: string;
  /** The bucket and the object: messages of one subject are delivered in order. */
  readonly subject: string;
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
}

/** An event as the public service describes it: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html */
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
  /** Of the events `Replication:*`. */
  readonly replicationEventData?: object;
}

export interface EventSink {
  /**
   * Delivers in order, and stops at the first message that fails or when the signal aborts.
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
