/**
 * What telemetry gets of an answered request: its metrics, and at most one line of the log. Refused and failed requests have a line at
 * INFO and above; repeats of one caller and code within a minute are counted. Writing a line for every request would cost a tenth of a
 * small one, so answered requests have theirs at DEBUG.
 */
import { RequestHistory } from '../../base/request-history.ts';
import type { Context } from '../../context.ts';
import type { Failure } from '../../handlers/common/failure.ts';
import type { Fields } from '../../ports/telemetry.ts';
import { ignoredParameters } from '../../protocol/operations/select.ts';
import { PacedBody } from '../body-pace.ts';
import type { RequestContext } from '../request.ts';
import { receivedBytesOf } from './traffic.ts';

/** Backend calls that the line of a slow request shows. */
const callsMax = 5;
const round = (ms: number): number => Math.round(ms * 10) / 10;

interface Answered {
  readonly status: number;
  readonly failure: Failure | undefined;
  /** By the monotonic clock. */
  readonly at: number;
}

export function reportAnswer(ctx: Context, request: RequestContext, { status, failure, at }: Answered): void {
  const { telemetry, config, trace } = ctx;
  const { operation, incoming, startedAt, requestId, bucket, query } = request;
  const code = failure?.refusal.code;
  const durationMs = at - startedAt;
  const receivedBytes = receivedBytesOf(incoming);
  const { method } = incoming.wire;
  telemetry.request({
    operation,
    method,
    status,
    code,
    durationMs,
    requestId,
    traceId: trace?.traceId,
    receivedBytes,
    bucket,
  });
  // The polls of a console are not what its charts are about.
  if (!/^a(?:dmin|rea):/.test(operation))
    ctx.caches.of(RequestHistory).add(ctx.clock.now(), { status, durationMs });
  const slowMs = config.SVC_SLOW_MS;
  const line = (more: Fields): Fields => ({ ...describe(request), ...more });
  if (failure !== undefined)
    telemetry.log(
      failure.level,
      failure.message,
      line({ ...failure.fields, status, code, duration_ms: round(durationMs) }),
      repeatsOf(request, failure),
    );
  if (slowMs > 0 && durationMs >= slowMs) reportSlow(ctx, request, { status, durationMs });
  else if (failure === undefined) {
    const ignored = query === undefined ? [] : ignoredParameters(query);
    telemetry.log(
      'DEBUG',
      'request answered',
      line({
        status,
        duration_ms: round(durationMs),
        ...(ignored.length === 0 ? {} : { ignored_parameters: ignored }),
      }),
    );
  }
}

/** Reports a request that was slow without the time in which the gateway waited for the client. */
function reportSlow(
  { telemetry, config, trace }: Context,
  request: RequestContext,
  { status, durationMs }: { readonly status: number; readonly durationMs: number },
): void {
  const { incoming, operation, bucketName = '' } = request;
  const clientMs = incoming.body instanceof PacedBody ? incoming.body.clientMs : 0;
  if (durationMs - clientMs < config.SVC_SLOW_MS) return;
  const fields = {
    ...describe(request),
    status,
    duration_ms: round(durationMs),
    client_ms: round(clientMs),
    slowest: trace?.slowestCalls(callsMax),
  };
  telemetry.log('WARN', 'slow request', fields, `${operation} ${bucketName}`);
}

function describe({ requestId, operation, path, incoming, identity }: RequestContext): Fields {
  const { method, remote } = incoming.wire;
  const accessKey = identity?.accessKey;
  return { request_id: requestId, operation, method, path, remote, access_key: accessKey };
}

/** Repeated refusals are counted by caller; faults of the service by operation, because they concern every caller. */
function repeatsOf({ operation, identity, incoming }: RequestContext, { level, refusal }: Failure): string {
  const isFault = level === 'WARN' || level === 'ERROR';
  return `${refusal.code} ${isFault ? operation : (identity?.accessKey ?? incoming.wire.remote)}`;
}
