/**
 * Traces in the JSON form of OTLP: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Names are those of the semantic
 * conventions for HTTP, databases, RPC and messaging.
 */
import type { Attributes, SpanDocument, TraceDocument } from '../../ports/trace.ts';
import { describeCall, type Systems } from './call-attributes.ts';

const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const;
const errorStatus = 2;

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

/** Operations of the storage protocol as the SDKs of AWS name theirs; deliveries as the conventions of messaging have it. */
export function spanName({ operation, attributes }: Pick<TraceDocument, 'operation' | 'attributes'>): string {
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
