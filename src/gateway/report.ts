/**
 * What telemetry gets of an answered request: its metrics, and at most one line of the log. Refused and failed requests have a line at
 * INFO and above; repeats of one caller and code within a minute are counted. Writing a line for every request would cost a tenth of a
 * small one, so answered requests have theirs at DEBUG.
 */
import { RecentRequests, type RequestEntry } from '../base/recent-entries.ts';
import { RequestHistory } from '../base/request-history.ts';
import type { Context } from '../context.ts';
import type { Fields } from '../ports/telemetry.ts';
import { ignoredParameters } from '../protocol/operations/select.ts';
import type { Failure } from '../request/failure.ts';
import type { RequestContext } from '../request/request.ts';
import { PacedBody } from './body-pace.ts';
import { bucketNameAt, whereLocated } from './locate.ts';
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
  if (!/^a(?:dmin|rea):/.test(operation)) {
    const now = ctx.clock.now();
    ctx.caches.of(RequestHistory).add(now, { status, durationMs });
    rememberRequest(ctx, request, { at: now, status, code, durationMs, receivedBytes });
  }
  const slowMs = config.SVC_SLOW_MS;
  if (failure !== undefined)
    telemetry.log(
      failure.level,
      failure.message,
      { ...describe(request), ...failure.fields, status, code, duration_ms: round(durationMs) },
      repeatsOf(request, failure),
    );
  if (slowMs > 0 && durationMs >= slowMs) reportSlow(ctx, request, { status, durationMs });
  else if (failure === undefined && writesDebug(ctx)) {
    const ignored = query === undefined ? [] : ignoredParameters(query);
    telemetry.log('DEBUG', 'request answered', {
      ...describe(request),
      status,
      duration_ms: round(durationMs),
      ...(ignored.length === 0 ? {} : { ignored_parameters: ignored }),
    });
  }
}

/** Where that is not known, the log decides. The fields of a line that is not written would cost a request as much as its metrics. */
const writesDebug = ({ logLevel }: Pick<Context, 'logLevel'>): boolean =>
  logLevel === undefined || logLevel.get() === 'DEBUG';

type Outcome = Pick<RequestEntry, 'at' | 'status' | 'code' | 'durationMs' | 'receivedBytes'>;

/** No query and no header but the address: they have signatures, tokens and keys. */
function rememberRequest({ caches }: Context, request: RequestContext, outcome: Outcome): void {
  const { requestId, operation, incoming, wire = incoming.wire, key, identity } = request;
  const { at, status, code, durationMs, receivedBytes } = outcome;
  const entry = {
    at,
    requestId,
    operation,
    method: wire.method,
    status,
    code,
    durationMs,
    bucket: nameBucket(request),
    key: key ?? '',
    account: identity?.owner ?? '',
    remote: wire.remote,
    receivedBytes,
  };
  caches.of(RecentRequests).add(entry, wire.target.length);
}

/** Also of a request that was refused before its caller was known. */
function nameBucket(request: RequestContext): string {
  if (request.bucketName !== undefined) return request.bucketName;
  const located = whereLocated(request);
  return located === undefined ? '' : bucketNameAt(located);
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

function describe(request: RequestContext): Fields {
  const { requestId, operation, path, incoming, identity } = request;
  const { method, remote } = incoming.wire;
  const bucket = nameBucket(request);
  return {
    request_id: requestId,
    operation,
    method,
    path,
    bucket: bucket === '' ? undefined : bucket,
    remote,
    account: identity?.owner,
    access_key: identity?.accessKey,
  };
}

/** Repeated refusals are counted by caller; faults of the service by operation, because they concern every caller. */
function repeatsOf({ operation, identity, incoming }: RequestContext, { level, refusal }: Failure): string {
  const isFault = level === 'WARN' || level === 'ERROR';
  return `${refusal.code} ${isFault ? operation : (identity?.accessKey ?? incoming.wire.remote)}`;
}
