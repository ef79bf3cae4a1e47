/**
 * The span of a call that is about to be measured. Every call of a backend is recorded and measured, so the code that measures it also ends the
 * span: a second reaction to the promise of each call would cost as much as the rest of a trace. Set and taken synchronously.
 */
export interface OpenSpan {
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
