/** Which traces an operator asks for. */
import { hasStatus } from '../../base/status-filter.ts';
import type { TraceDocument, TraceFilter, TraceSummary } from '../../ports/trace.ts';

export function summarize({
  requestId,
  traceId,
  kept,
  operation,
  bucket,
  key,
  status,
  code,
  startedAt,
  durationMs,
  stage,
  process,
}: TraceDocument): TraceSummary {
  return {
    requestId,
    traceId,
    kept,
    operation,
    bucket,
    key,
    ...(status === undefined ? {} : { status }),
    ...(code === undefined ? {} : { code }),
    startedAt,
    durationMs,
    ...(stage === undefined ? {} : { stage }),
    process,
  };
}

export function matches(
  summary: TraceSummary,
  { id, operation, bucket, status, minMs = 0, running }: TraceFilter,
): boolean {
  if (id !== undefined && id !== summary.requestId && id !== summary.traceId) return false;
  if (operation !== undefined && operation !== summary.operation) return false;
  if (bucket !== undefined && bucket !== summary.bucket) return false;
  if (status !== undefined && !hasStatus(summary, status)) return false;
  if (summary.durationMs < minMs) return false;
  return running === undefined || running === (summary.kept === 'running');
}
