/** An upstream's error answer, or the lack of any answer. */
export class UpstreamError extends Error {
  /** 0 where there was no answer. */
  readonly status: number;
  readonly code: string;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    about: {
      readonly status?: number;
      readonly code?: string;
      readonly retryAfterMs?: number | undefined;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, about.cause === undefined ? undefined : { cause: about.cause });
    this.status = about.status ?? 0;
    this.code = about.code ?? '';
    this.retryAfterMs = about.retryAfterMs;
  }
}

/** Temporary error codes of S3 services, whatever their status. */
const passing: ReadonlySet<string> = new Set([
  'SlowDown',
  'InternalError',
  'ServiceUnavailable',
  'RequestTimeout',
  'OperationAborted',
  'ConditionalRequestConflict',
]);

/** Whether a retry of the same request may succeed. */
export const isPassing = ({ status, code }: UpstreamError): boolean =>
  status === 0 || status === 429 || (status >= 500 && status !== 501) || passing.has(code);

export const isGone = (cause: unknown, ...codes: readonly string[]): boolean =>
  cause instanceof UpstreamError &&
  cause.status === 404 &&
  (codes.includes(cause.code) || cause.code === '' || cause.code === 'NotFound');
