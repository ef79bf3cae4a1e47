/** Sends traces to a collector, in batches. The queue is bounded: what does not fit, and what the collector does not take, is counted. */
import { describeServerOfUrl } from '../base/text/server-address.ts';
import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { type Attributes, awsApi, type SpanDocument, type TraceDocument } from '../ports/trace.ts';

/** Spans that wait: some 8 MiB of traces. */
const queuedMax = 16_384;
const batchMax = 2_048;
const everyMs = 1_000;
const pausesMs = [1_000, 2_000, 5_000, 15_000, 30_000] as const;
/** Answers to the content of a batch: it is sent in halves, so that one trace that the collector refuses costs no other. */
const contentRefused: ReadonlySet<number> = new Set([400, 413]);
/** How often a batch is halved, at most: a collector may refuse all that it gets. */
const halvingsMax = 64;
/** Answers after which the specification wants a later attempt. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

interface ExporterOptions {
  readonly poster: {
    post(body: string): Promise<{ readonly status: number; readonly retryAfter: number | undefined }>;
    close(): Promise<void>;
  };
  readonly source: Source;
  readonly telemetry: Pick<Telemetry, 'log' | 'count'>;
  readonly clock: Pick<Clock, 'sleep'>;
}

export class OtlpExporter {
  readonly #options: ExporterOptions;
  readonly #stopping = new AbortController();
  readonly #queue: TraceDocument[] = [];
  #spans = 0;
  #working: Promise<void> | undefined;

  constructor(options: ExporterOptions) {
    this.#options = options;
  }

  add(document: TraceDocument): void {
    const spans = countSpans(document);
    if (this.#spans + spans > queuedMax) {
      this.#options.telemetry.count('svc_trace_spans_total', { outcome: 'full' }, spans);
      return;
    }
    this.#queue.push(document);
    this.#spans += spans;
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#working;
    await this.#options.poster.close();
  }

  /** Waits first, so that traces gather. */
  async #work(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (this.#queue.length > 0) {
      await clock.sleep(everyMs, signal);
      const batch = this.#take();
      await this.#send(batch);
    }
  }

  #take(): readonly TraceDocument[] {
    let spans = 0;
    let count = 0;
    for (const document of this.#queue) {
      if (count > 0 && spans + countSpans(document) > batchMax) break;
      spans += countSpans(document);
      count += 1;
    }
    this.#spans -= spans;
    return this.#queue.splice(0, count);
  }

  async #send(batch: readonly TraceDocument[], halvings = { left: halvingsMax }): Promise<void> {
    const { poster, source, telemetry, clock } = this.#options;
    const { signal } = this.#stopping;
    const body = toOtlp(batch, source);
    const spans = batch.reduce((sum, document) => sum + countSpans(document), 0);
    let error = '';
    for (const pauseMs of pausesMs) {
      let waitMs: number = pauseMs;
      try {
        const { status, retryAfter } = await poster.post(body);
        if (status >= 200 && status < 300)
          return telemetry.count('svc_trace_spans_total', { outcome: 'exported' }, spans);
        if (contentRefused.has(status) && batch.length > 1 && halvings.left > 0) {
          halvings.left -= 1;
          const middle = batch.length >> 1;
          await this.#send(batch.slice(0, middle), halvings);
          return await this.#send(batch.slice(middle), halvings);
        }
        error = `the collector answered ${status}`;
        if (!passing.has(status)) break;
        waitMs = Math.min(retryAfter === undefined ? pauseMs : retryAfter * 1_000, pausesMs[4]);
      } catch (cause) {
        error = `the collector cannot be reached: ${cause instanceof Error ? cause.message : String(cause)}`;
      }
      // A process that stops tries once.
      if (signal.aborted) break;
      await clock.sleep(waitMs, signal);
    }
    telemetry.count('svc_trace_spans_total', { outcome: 'refused' }, spans);
    telemetry.log('WARN', 'spans were not exported', { error, spans });
  }
}

// Headers as OTEL_EXPORTER_OTLP_HEADERS has them: `name=value`, separated by commas or lines, with percent-encoded values.

export function readOtlpHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const item of text.split(/[,\n]/)) {
    const at = item.indexOf('=');
    if (at <= 0) continue;
    headers[item.slice(0, at).trim().toLowerCase()] = decode(item.slice(at + 1).trim());
  }
  return headers;
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

// Traces in the JSON form of OTLP: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Names are those of the semantic
// conventions for HTTP, databases, RPC and messaging.

const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const;
const errorStatus = 2;

const toAttributes = (attributes: Attributes): readonly object[] =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === 'string'
        ? // A text of a client may be cut between two halves of a character, which not every collector reads.
          { stringValue: value.toWellFormed() }
        : typeof value === 'boolean'
          ? { boolValue: value }
          : Number.isInteger(value)
            ? { intValue: String(value) }
            : { doubleValue: value },
  }));

/** Who sends the spans. */
interface Source {
  readonly resource: Attributes;
  readonly systems: Systems;
}

/** One request of OTLP. */
export function toOtlp(documents: readonly TraceDocument[], { resource, systems }: Source): string {
  const spans = documents.flatMap((document) => toSpans(document, systems));
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: toAttributes(resource) },
        scopeSpans: [{ scope: { name: 'sluice' }, spans }],
      },
    ],
  });
}

const countSpans = ({ spans }: TraceDocument): number => spans.length + 1;

function toSpans(document: TraceDocument, systems: Systems): readonly object[] {
  const startedAt = Date.parse(document.startedAt);
  /** Nanoseconds since the epoch do not fit into a number. */
  const nanos = (ms: number): string => String(BigInt(Math.round((startedAt + ms) * 1_000)) * 1_000n);
  const { traceId } = document;
  return [
    {
      traceId,
      spanId: document.spanId,
      parentSpanId: document.parent ?? '',
      name: spanName(document),
      kind: kinds[document.kind],
      startTimeUnixNano: nanos(0),
      endTimeUnixNano: nanos(document.durationMs),
      attributes: toAttributes(rootAttributes(document)),
      links: document.links.map(toLink),
      ...(isFailed(document) ? { status: { code: errorStatus, message: document.code ?? '' } } : {}),
    },
    ...document.spans.map((span) => ({
      traceId,
      spanId: span.id,
      parentSpanId: span.parent,
      name: span.name,
      kind: span.about === '' ? kinds.internal : kinds.client,
      startTimeUnixNano: nanos(span.startMs),
      endTimeUnixNano: nanos(span.startMs + (span.durationMs ?? document.durationMs - span.startMs)),
      attributes: toAttributes(spanAttributes(span, systems)),
      ...(span.error === undefined ? {} : { status: { code: errorStatus, message: span.error } }),
    })),
  ];
}

/** Operations of the storage protocol as the SDKs of AWS name theirs; deliveries as the conventions of messaging have it. */
function spanName({ operation, attributes }: Pick<TraceDocument, 'operation' | 'attributes'>): string {
  const { 'messaging.operation.name': act, 'messaging.destination.name': destination } = attributes;
  if (act !== undefined) return `${act} ${destination}`;
  return /^[A-Z]\w+$/.test(operation) ? `S3.${operation}` : operation;
}

/** By the conventions a server's span fails with a fault of the server; a refused request does not. */
const isFailed = ({ status, code }: TraceDocument): boolean =>
  status === undefined ? code !== undefined : status >= 500;

const rootAttributes = ({ attributes, status, code, requestId, headMs }: TraceDocument): Attributes => ({
  ...attributes,
  'aws.request_id': requestId,
  ...(status === undefined ? {} : { 'http.response.status_code': status }),
  ...(code === undefined ? {} : { 'error.type': code }),
  ...(headMs === undefined ? {} : { 'sluice.head_ms': headMs }),
});

const spanAttributes = (span: SpanDocument, systems: Systems): Attributes => ({
  ...(span.about === '' ? {} : describeCall(span, systems)),
  ...(span.error === undefined ? {} : { 'error.type': span.error }),
});

function toLink(traceparent: string): object {
  const [, traceId, spanId] = traceparent.split('-');
  return { traceId, spanId };
}

// The attributes of a call of a backend, by https://opentelemetry.io/docs/specs/semconv/: those of databases for metadata, and of RPC, with
// the names of AWS's SDK where the other side speaks a protocol of AWS, for bytes, keys and peers.

/** A service, by the name of the conventions where they have one: `aws-api`; otherwise a name in lower case. */
interface System {
  readonly name: string;
  /** Where it is, if that is one place. */
  readonly server?: Attributes | undefined;
}

/** What calls go to. */
export interface Systems {
  /** `db.system.name` and what else is known of the database. */
  readonly metadata: Attributes;
  readonly data: (cluster: string) => System;
  readonly keys: System;
}

/** The operations of S3 and KMS, as AWS's SDKs name them, behind the calls of our ports. */
const awsOperations: Readonly<Record<string, string>> = {
  'data.write': 'PutObject',
  'data.read': 'GetObject',
  'data.remove': 'DeleteObject',
  'data.isStored': 'HeadObject',
  'data.beginUpload': 'CreateMultipartUpload',
  'data.writePart': 'UploadPart',
  'data.completeUpload': 'CompleteMultipartUpload',
  'data.discardUpload': 'AbortMultipartUpload',
  'keys.describe': 'DescribeKey',
  'keys.generate': 'GenerateDataKey',
  'keys.wrap': 'Encrypt',
  'keys.unwrap': 'Decrypt',
  'keys.rewrap': 'ReEncrypt',
};

/** Their spans are about a cluster or the store, and not about one table. */
const tableless: ReadonlySet<string> = new Set(['begin', 'health']);

function describeCall({ name, about }: Pick<SpanDocument, 'name' | 'about'>, to: Systems): Attributes {
  const [port = '', method = ''] = name.split('.');
  if (port === 'metadata')
    return {
      ...to.metadata,
      'db.operation.name': method,
      ...(tableless.has(method) ? {} : { 'db.collection.name': about }),
    };
  // Peers speak the protocol of S3.
  if (port === 'peer')
    return { ...rpc(awsApi, 'S3'), 'http.request.method': method, ...describeServerOfUrl(about) };
  const system = port === 'data' ? to.data(about) : to.keys;
  const isAws = system.name === awsApi;
  return {
    ...rpc(system.name, isAws ? (port === 'keys' ? 'KMS' : 'S3') : port),
    'rpc.method': (isAws ? awsOperations[name] : undefined) ?? method,
    ...(port === 'data' ? { 'sluice.cluster': about } : {}),
    ...system.server,
  };
}

/** `rpc.system.name` replaces `rpc.system`, which the conventions of AWS's SDK still require. */
const rpc = (system: string, service: string): Attributes => ({
  'rpc.system': system,
  'rpc.system.name': system,
  'rpc.service': service,
});
