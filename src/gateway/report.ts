/** What is written about a request: its metrics and its line of the log, its trace, and its line in the access log of the bucket. */
import type { Signed } from '../auth/identity.ts';
import { recordedArn } from '../auth/principal.ts';
import { RecentRequests, type RequestEntry, RequestHistory } from '../base/recent-entries.ts';
import { describeServer } from '../base/text/server-address.ts';
import type { Context } from '../context.ts';
import { accessPointArn } from '../domain/access/access-points.ts';
import { lookUpBucket } from '../domain/common/buckets.ts';
import { readDocument } from '../domain/configurations/documents.ts';
import { bucketLogging } from '../domain/configurations/families.ts';
import {
  type AccessLogEntry,
  accessLogLine,
  type Log,
  queueLine,
} from '../domain/deliveries/access-log-lines.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { type Fields, noLabels } from '../ports/telemetry.ts';
import type { Attributes, Trace, TraceBeginning } from '../ports/trace.ts';
import {
  describeOperation,
  ignoredParameters,
  isOperation,
  type OperationName,
} from '../protocol/operations/operations.ts';
import type { Scope } from '../protocol/operations/parameters.ts';
import { isStream } from '../protocol/render.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Failure } from '../request/failure.ts';
import { type Located, type RequestContext, unknownOperation } from '../request/request.ts';
import { askedAt, bucketNameAt, whereLocated } from './locate.ts';
import { countedBody, countReceived, PacedBody } from './traffic.ts';

// What telemetry gets of an answered request: its metrics, and at most one line of the log. Refused and failed requests have a line at
// INFO and above; repeats of one caller and code within a minute are counted. Writing a line for every request would cost a tenth of a
// small one, so answered requests have theirs at DEBUG.

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
  const { telemetry, config } = ctx;
  const { operation, incoming, startedAt, query } = request;
  const code = failure?.refusal.code;
  const durationMs = at - startedAt;
  const outcome = { at: ctx.clock.now(), status, code, durationMs, receivedBytes: countReceived(incoming) };
  countAnswer(ctx, request, outcome);
  // The polls of a console are not what its charts are about.
  if (!/^a(?:dmin|rea):/.test(operation)) {
    ctx.caches.of(RequestHistory).add(outcome.at, outcome);
    rememberRequest(ctx, request, outcome);
  }
  const slowMs = config.SVC_SLOW_MS;
  if (failure !== undefined)
    telemetry.log(
      failure.level,
      failure.message,
      { ...describe(request), ...failure.fields, status, code, duration_ms: round(durationMs) },
      ...repetition(request, failure),
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

/** Areas of probes, which answer 503 as they should, and of scrapes: they use none of the error budget, which is one of clients. */
const probeAreas: ReadonlySet<string> = new Set(['healthz', 'readyz', 'metrics']);

function countAnswer(
  { telemetry, trace }: Context,
  { operation, requestId, bucket, area }: RequestContext,
  { status, code, durationMs, receivedBytes }: Outcome,
): void {
  // One object serves as the labels of all these metrics and as the exemplar, because every request allocates it. A
  // metric reads only its labels.
  const labels = {
    operation,
    code: String(status),
    bucket: bucket?.name ?? '',
    account: bucket?.owner ?? '',
    requestId,
    traceId: trace?.traceId,
  };
  if (area === undefined || !probeAreas.has(area)) telemetry.count('svc_http_requests_total', labels);
  telemetry.count('svc_http_operations_total', labels);
  telemetry.observe('svc_http_request_duration_seconds', labels, durationMs / 1000, labels);
  telemetry.count('svc_http_received_bytes_total', noLabels, receivedBytes);
  if (code !== undefined) telemetry.count('svc_http_refusals_total', { error: code });
  if (bucket === undefined) return;
  telemetry.count('svc_bucket_requests_total', labels);
  telemetry.count('svc_bucket_received_bytes_total', labels, receivedBytes);
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
  caches.of(RecentRequests).add(entry, callersAccount(request), wire.target.length);
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
  telemetry.log('WARN', 'slow request', fields, `${operation} ${bucketName}`, callersAccount(request));
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

/**
 * Repeated refusals are counted by caller; faults of the service by operation, because they concern every caller.
 * @returns the kind of the line, and whose it is
 */
function repetition(request: RequestContext, { level, refusal }: Failure): [kind: string, account: string] {
  const { operation, identity, incoming } = request;
  if (level === 'WARN' || level === 'ERROR') return [`${refusal.code} ${operation}`, ''];
  return [`${refusal.code} ${identity?.accessKey ?? incoming.wire.remote}`, callersAccount(request)];
}

/**
 * Anonymous callers count as an account of their own for each owner of a bucket, so that readers of a busy website take the place of no
 * others. No account has an id with a space.
 */
const callersAccount = ({ identity, bucket }: RequestContext): string =>
  identity?.owner ?? `anonymous ${bucket?.owner}`;

// The trace of a request: what it is about, and when it ends.

/** Undefined where the request is not recorded. */
export const beginTrace = (ctx: Context, request: RequestContext): Trace | undefined =>
  ctx.tracer?.begin(new RequestBeginning(request));

/** A class of one field, because every request has one, and most of it is never read. */
class RequestBeginning implements TraceBeginning {
  readonly subject: RequestContext;

  constructor(request: RequestContext) {
    this.subject = request;
  }

  get kind() {
    return 'server' as const;
  }
  get account() {
    return callersAccount(this.subject);
  }
  get stage() {
    return 'identify' as const;
  }
  get startedAt() {
    return this.subject.startedAt;
  }
  get parent() {
    return this.subject.incoming.wire.headers.get('traceparent');
  }

  describe(): Attributes {
    return describeRequest(this.subject);
  }
}

/** Methods that the conventions know; others are `_OTHER`, so that their number is bounded. */
const methods: ReadonlySet<string> = new Set([
  ...['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'QUERY', 'TRACE'],
]);

/** Names of https://opentelemetry.io/docs/specs/semconv/; no query, because signatures are in it. */
function describeRequest(request: RequestContext): Attributes {
  const { requestId, path, key, bucketName, query, own, incoming, wire = incoming.wire } = request;
  const { method, secure, remote, headers } = wire;
  const scheme = secure ? 'https' : 'http';
  const isKnown = methods.has(method);
  const uploadId = query?.get('uploadId');
  const input = {
    'http.request.method': isKnown ? method : '_OTHER',
    'http.request.method_original': isKnown ? undefined : method,
    'url.path': path,
    'url.scheme': scheme,
    'client.address': remote,
    'user_agent.original': headers.get('user-agent'),
    ...describeServer(headers.get('host') ?? '', scheme),
    'aws.request_id': requestId,
    'aws.s3.bucket': bucketName,
    'aws.s3.key': key,
    'aws.s3.copy_source': own?.get('copy-source'),
    'aws.s3.upload_id': uploadId,
    // The convention has it for uploads alone.
    'aws.s3.part_number': uploadId === undefined ? undefined : readPartNumber(query?.get('partNumber')),
  };
  const isPresent = (each: [string, string | number | undefined]): each is [string, string | number] =>
    each[1] !== undefined && each[1] !== '';
  return Object.fromEntries(Object.entries(input).filter(isPresent));
}

/** Undefined for a text that is no part number: the request is refused for it. */
const readPartNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,5}$/.test(text) ? Number(text) : undefined;

/** The trace ends with the body of the reply. */
export function endTrace(
  trace: Trace,
  reply: Reply,
  { code, at }: { readonly code: string | undefined; readonly at: number },
): Reply {
  const { status, body } = reply;
  const end = { status, code, at };
  if (!isStream(body)) {
    trace.end(end);
    return reply;
  }
  trace.answered(end);
  const counted = countedBody(body, () => trace.end());
  return counted === body ? reply : { ...reply, body: counted };
}

// The access log of a bucket: a line for every request to it, refused ones too, written a moment later.

/** A request whose bucket is known. */
type LoggedRequest = RequestContext & Located;

interface Ended {
  readonly reply: Reply;
  /** The error code of a refusal. */
  readonly code: string | undefined;
}

/** Whether there may be a log to write to. False for almost every request, which then costs nothing. */
export function mayBeLogged(request: RequestContext, code: string | undefined): boolean {
  // A line for each refusal would fill the reserve of the disk.
  if (code === 'InsufficientStorage') return false;
  if (request.bucket !== undefined) return bucketLogging.name in request.bucket.documents;
  const located = code === undefined || code === 'NoSuchBucket' ? undefined : whereLocated(request);
  return located !== undefined && bucketNameAt(located) !== '';
}

/** Writes the line once the reply is on its way, and the last byte of its body with it. */
export async function logAccess(ctx: Context, request: RequestContext, ended: Ended): Promise<Reply> {
  const { reply } = ended;
  const { startedAt } = request;
  const located = whereLocated(request);
  const found = located && (await findLog(ctx, located));
  if (located === undefined || found === undefined) return reply;
  const turnAroundMs = ctx.clock.elapsed() - startedAt;
  const write = async (bytesSent: number): Promise<void> => {
    const totalMs = ctx.clock.elapsed() - startedAt;
    const time = ctx.clock.now() - totalMs;
    const line = accessLogLine({
      ...toLogEntry(located, found.bucket, ended),
      time,
      bytesSent,
      totalMs,
      turnAroundMs,
    });
    try {
      const { requestId } = located;
      const row = await queueLine(ctx, found, { line, time, id: requestId, requestId });
      await ctx.lateWrites.add(row, line.length);
    } catch (cause) {
      reportUnlogged(ctx, request, cause);
    }
  };
  const { body } = reply;
  if (isStream(body)) return { ...reply, body: countedBody(body, write) };
  await write(typeof body === 'string' ? new TextEncoder().encode(body).length : (body?.length ?? 0));
  return reply;
}

const reportUnlogged = (
  { telemetry }: Context,
  { requestId, bucketName = '', bucket }: RequestContext,
  cause: unknown,
): void => {
  const fields = { request_id: requestId, cause };
  telemetry.log('WARN', 'a request is not in the access log', fields, bucketName, bucket?.owner);
};

/** A reply is not lost over a log that cannot be read. */
async function findLog(ctx: Context, request: LoggedRequest): Promise<Log | undefined> {
  try {
    const row = request.bucket ?? (await lookUpBucket(ctx, bucketNameAt(request)));
    const to = row && (await readDocument(ctx, row, bucketLogging))?.LoggingEnabled;
    return row && to && { bucket: row, to };
  } catch (cause) {
    reportUnlogged(ctx, request, cause);
    return undefined;
  }
}

const signatureNames: Readonly<Record<Signed['type'], string | undefined>> = {
  'REST-HEADER': 'AuthHeader',
  'REST-QUERY-STRING': 'QueryString',
  POST: undefined,
};

type Timing = 'time' | 'bytesSent' | 'totalMs' | 'turnAroundMs';

function toLogEntry(
  request: LoggedRequest,
  bucket: BucketRow,
  { reply, code }: Ended,
): Omit<AccessLogEntry, Timing> {
  const { requestId, wire, query, identity, signed, key, accessPoint, isByAcl } = request;
  return {
    bucketOwner: bucket.owner,
    bucket: bucket.name,
    remote: wire.remote,
    requester: identity === undefined ? undefined : identity.root ? identity.owner : recordedArn(identity),
    requestId,
    operation: nameLoggedOperation(request),
    key: key ?? askedAt(request)?.key ?? '',
    method: wire.method,
    target: wire.target,
    status: reply.status,
    error: code,
    objectSize: findObjectSize(request),
    referer: wire.headers.get('referer'),
    userAgent: wire.headers.get('user-agent'),
    versionId: query.get('versionId'),
    signatureVersion: signed && (signed.version === 'AWS' ? 'SigV2' : 'SigV4'),
    cipher: wire.tlsCipher,
    authType: signed && signatureNames[signed.type],
    host: wire.headers.get('host'),
    tlsVersion: wire.tlsVersion && `TLSv${wire.tlsVersion}`,
    accessPoint: accessPoint && accessPointArn(accessPoint),
    isByAcl: isByAcl === true,
  };
}

/** Of the version that was written or read. A body that is no object, such as a configuration, has none. */
const findObjectSize = ({ composedSize, target, row, payload }: LoggedRequest): number | undefined =>
  composedSize ?? target?.size ?? (row?.streams ? payload?.length : undefined);

function nameLoggedOperation(request: LoggedRequest): string {
  const { operation, key, wire, isSite } = request;
  const { method } = wire;
  if (isSite) return `WEBSITE.${method}.OBJECT`;
  const name = operation === unknownOperation ? askedAt(request)?.action : operation;
  if (name !== undefined && isOperation(name)) return loggedOperation(name);
  return `REST.${method}.${key ? 'OBJECT' : 'BUCKET'}`;
}

/** Sub-resources that the log calls by another name than the URL does. */
const resources: Readonly<Record<string, string>> = {
  'list-type=2': 'BUCKET',
  delete: 'MULTI_OBJECT_DELETE',
  'legal-hold': 'OBJECT_LOCK_LEGALHOLD',
  logging: 'LOGGING_STATUS',
  'object-lock': 'OBJECT_LOCK_CONFIGURATION',
  partNumber: 'PART',
  policy: 'BUCKETPOLICY',
  retention: 'OBJECT_LOCK_RETENTION',
  uploadId: 'UPLOAD',
  versions: 'BUCKETVERSIONS',
};

/**
 * An operation as the public service names it in access logs: `REST.<method>.<resource>`.
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html
 */
export function loggedOperation(name: OperationName): string {
  const [method = '', scope = '', ...marks] = describeOperation(name).on.split(' ');
  if (method === 'OPTIONS') return 'REST.OPTIONS.PREFLIGHT';
  const named = marks.filter((mark) => mark.startsWith('?')).map((mark) => mark.slice(1));
  const mark = named.find((each) => each === 'partNumber') ?? named[0];
  const resource = mark === undefined ? scope.toUpperCase() : nameResource(mark, scope as Scope);
  return `REST.${marks.includes('+copy-source') ? 'COPY' : method}.${resource}`;
}

function nameResource(mark: string, scope: Scope): string {
  if (mark === 'tagging' && scope === 'object') return 'OBJECT_TAGGING';
  return (
    resources[mark] ??
    mark
      .replace(/[a-z](?=[A-Z])/g, '$&_')
      .replaceAll('-', '_')
      .toUpperCase()
  );
}
