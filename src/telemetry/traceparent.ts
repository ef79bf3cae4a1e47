/** The header `traceparent`: https://www.w3.org/TR/trace-context/#traceparent-header. `tracestate` and baggage are not passed on. */

export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const zeros = /^0+$/;
const lengthMax = 256;

/** Undefined where the text is none: the trace then begins here. */
export function parseTraceparent(text: string | undefined): TraceParent | undefined {
  if (text === undefined || text.length > lengthMax) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = pattern.exec(text.trim()) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (zeros.test(traceId) || zeros.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const formatTraceparent = ({ traceId, spanId, isSampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;

/**
 * The span of a call that is about to be measured. Every call of a backend is recorded and measured, so the code that measures it also ends the
 * span: a second reaction to the promise of each call would cost as much as the rest of a trace. Set and taken synchronously.
 */
interface OpenSpan {
  /** By the monotonic clock. */
  startedAt: number;
  /** By the monotonic clock. */
  endedAt: number;
  error: string;
}

export const handOver: { span: OpenSpan | undefined } = { span: undefined };

/** The span of the present call, once. */
export function takeSpan(): OpenSpan | undefined {
  const { span } = handOver;
  handOver.span = undefined;
  return span;
}

export function failSpan(span: OpenSpan, endedAt: number, cause: unknown): void {
  span.endedAt = endedAt;
  span.error = cause instanceof Error ? cause.constructor.name : 'Error';
}
