/**
 * Traces: what requests, and the background work that they cause, spend their time on. A trace is passed on explicitly: a request works
 * on a view of its context whose backend calls are recorded (docs/adr/0029-traces.md).
 */

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** What traces call the system of requests to services of AWS, and to others with their protocols. */
export const awsApi = 'aws-api';

/** What a trace is about, as far as it is known at the moment. */
export interface TraceSubject {
  readonly requestId: string;
  /** The name in logs and metrics. */
  readonly operation: string;
  readonly bucketName?: string | undefined;
  readonly key?: string | undefined;
}

/** The cause of something that another process does: of a request that is sent, or of a row that is queued. */
export interface Cause {
  /** In the form of https://www.w3.org/TR/trace-context/#traceparent-header. */
  readonly traceparent: string;
}

/** The account that a call of a backend is made for, and the span that causes it. */
export interface CallUse {
  /** Accounts share the calls that a backend carries out at a time. Calls without an account share as if they were one account. */
  readonly account?: string | undefined;
  /** Sent as the header `traceparent`, which is not signed, by backends over HTTP. Views of the context add it. */
  readonly cause?: Cause | undefined;
}

/** How a trace ended. */
export interface TraceEnd {
  /** Of the reply; absent for background work. */
  readonly status?: number;
  /** The error code, or the class of the failure. */
  readonly code?: string | undefined;
  /** By the monotonic clock; absent: now. */
  readonly at?: number;
}

/**
 * The stages of the pipeline that are spans of a request, in their order. Each begins once, and ends the one before. `gateway.ts` and
 * `gateway/serve.ts` begin them; the tracer adds `reply`. docs/operations/traces.md names them, and `test/tidy/places.test.ts` compares.
 */
export const stages = ['identify', 'select', 'bucket', 'authorize', 'body', 'handle', 'reply'] as const;
export type Stage = (typeof stages)[number];

/** Records one request, or one piece of background work. */
export interface Trace extends Cause {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** Its spans are exported. */
  readonly isSampled: boolean;
  /** Begins the next stage of the pipeline; the one before ends. */
  stage(name: Stage): void;
  /** The same ports, whose calls are recorded as spans of this trace. */
  view<C extends object>(ctx: C): C & { readonly trace: Trace };
  /** The longest calls of backends, at most `max`: `metadata.commit versions 12.5 ms`, with ` and runs` or the error behind it. */
  slowestCalls(max: number): readonly string[];
  /** The head of the reply is ready: what follows is the pace of its reader. */
  answered(end: TraceEnd): void;
  /** What is recorded later is left out. @param how where it was not `answered` */
  end(how?: TraceEnd): void;
}

export interface TraceBeginning {
  readonly subject: TraceSubject;
  /** `producer` sends messages that name its span, `consumer` takes tasks from a queue. */
  readonly kind: 'server' | 'producer' | 'consumer';
  /** Of the caller: traces of one account remove none of another. Read at the end. */
  readonly account?: string;
  /** By the monotonic clock; absent: now. */
  readonly startedAt?: number;
  /** The stage that it begins in. */
  readonly stage?: Stage;
  /** Called when the trace is kept or shown, and not for every trace. */
  describe(): Attributes;
  /** The `traceparent` that the request came with. */
  readonly parent?: string | undefined;
  /** The `traceparent` of the requests that caused it earlier. */
  readonly links?: readonly string[];
}

export interface SpanDocument {
  readonly name: string;
  /** The table or cluster of a backend call; '' for a stage. */
  readonly about: string;
  /** 16 hexadecimal digits, as those of its parent. */
  readonly id: string;
  readonly parent: string;
  /** Since the beginning of the trace. */
  readonly startMs: number;
  /** Absent while it runs. */
  readonly durationMs?: number;
  readonly error?: string;
}

/** Why a trace is kept. */
export type TraceRetention = 'failed' | 'refused' | 'slow' | 'sample' | 'running';

export interface TraceSummary {
  readonly requestId: string;
  readonly traceId: string;
  readonly kept: TraceRetention;
  readonly operation: string;
  readonly bucket: string;
  readonly key: string;
  readonly status?: number | undefined;
  readonly code?: string | undefined;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly durationMs: number;
  /** Of a running trace. */
  readonly stage?: string | undefined;
  /** `host:pid`. */
  readonly process: string;
}

export interface TraceDocument extends TraceSummary {
  readonly kind: TraceBeginning['kind'];
  /** From the head of the request to that of the reply. */
  readonly headMs?: number;
  readonly attributes: Attributes;
  readonly spanId: string;
  /** The span of the caller. */
  readonly parent?: string | undefined;
  readonly links: readonly string[];
  readonly spans: readonly SpanDocument[];
  /** Spans beyond the limit of a trace. */
  readonly leftOut: number;
}

/** Conditions that all must hold. */
export interface TraceFilter {
  /** A request id or a trace id. */
  readonly id?: string | undefined;
  readonly operation?: string | undefined;
  readonly bucket?: string | undefined;
  /** A status such as `503`, a class such as `5xx`, or an error code. */
  readonly status?: string | undefined;
  readonly minMs?: number | undefined;
  /** The duration is less than this. */
  readonly belowMs?: number | undefined;
  readonly running?: boolean | undefined;
  readonly max: number;
}

export interface Tracer {
  /** Undefined where this request is not recorded. */
  begin(beginning: TraceBeginning): Trace | undefined;
  /** What this process has, the latest first. */
  list(filter: TraceFilter): readonly TraceSummary[];
  find(id: string, max: number): readonly TraceDocument[];
}
