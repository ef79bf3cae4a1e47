/**
 * Traces in the JSON form of OTLP: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Names are those of the semantic
 * conventions for HTTP, databases and RPC.
 */
import type { Attributes, SpanDocument, TraceDocument } from '../../ports/trace.ts';

const kinds = { internal: 1, server: 2, client: 3, consumer: 5 } as const;
const errorStatus = 2;
/** The system of requests to services of AWS and others with their protocols. */
const awsApi = 'aws-api';

const toAttributes = (attributes: Attributes): readonly object[] =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === 'string'
        ? { stringValue: value }
        : typeof value === 'boolean'
          ? { boolValue: value }
          : Number.isInteger(value)
            ? { intValue: String(value) }
            : { doubleValue: value },
  }));

/** What calls go to, as the conventions name it: `cassandra`, `aws-api`; a name in lower case where they have none. */
export interface Systems {
  readonly metadata: string;
  readonly data: string;
  readonly keys: string;
}

/** Who sends the spans. */
export interface Source {
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

export const countSpans = ({ spans }: TraceDocument): number => spans.length + 1;

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

/** Operations of the storage protocol as the SDKs of AWS name theirs. */
export const spanName = ({ operation }: Pick<TraceDocument, 'operation'>): string =>
  /^[A-Z]\w+$/.test(operation) ? `S3.${operation}` : operation;

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

function spanAttributes({ name, about, error }: SpanDocument, systems: Systems): Attributes {
  const failure: Attributes = error === undefined ? {} : { 'error.type': error };
  const [port = '', method = ''] = name.split('.');
  if (about === '') return failure;
  if (port === 'metadata')
    return {
      'db.operation.name': method,
      'db.collection.name': about,
      'db.system.name': systems.metadata,
      ...failure,
    };
  // Peers speak the protocol of S3.
  const system = port === 'data' ? systems.data : port === 'keys' ? systems.keys : awsApi;
  const service = system !== awsApi ? port : port === 'keys' ? 'KMS' : 'S3';
  return {
    'rpc.system': system,
    'rpc.service': service,
    'rpc.method': method,
    'server.address': about,
    ...failure,
  };
}

function toLink(traceparent: string): object {
  const [, traceId, spanId] = traceparent.split('-');
  return { traceId, spanId };
}
