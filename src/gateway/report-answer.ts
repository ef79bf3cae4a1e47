/** What is told of every request that was answered: figures always, a line of the log where lines that fine are wanted. */
import type { Context } from '../context.ts';
import type { Wire } from '../protocol/wire.ts';
import type { Trace } from './trace.ts';

export interface Answered {
  readonly wire: Wire;
  readonly trace: Trace;
  readonly status: number;
  /** Of a refusal. */
  readonly code: string | undefined;
  readonly durationMs: number;
}

export function reportAnswer(
  { telemetry }: Pick<Context, 'telemetry'>,
  { wire: { method, remote }, trace, status, code, durationMs }: Answered,
): void {
  const { requestId, operation, path } = trace;
  telemetry.request({ operation, method, status, code, durationMs });
  // At DEBUG: written out it costs a tenth of a small request.
  telemetry.log('DEBUG', 'request answered', {
    request_id: requestId,
    operation,
    method,
    path,
    status,
    code,
    duration_ms: durationMs,
    remote,
  });
}
