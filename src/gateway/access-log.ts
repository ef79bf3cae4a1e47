/** The access log of a bucket: a line for every request to it, refused ones too, written a moment later. */
import type { Signed } from '../auth/identity.ts';
import { recordedArn } from '../auth/principal.ts';
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
import { describeOperation, isOperation, type OperationName } from '../protocol/operations/operations.ts';
import type { Scope } from '../protocol/operations/parameters.ts';
import type { Reply } from '../protocol/reply.ts';
import { type Located, type RequestContext, unknownOperation } from '../request/request.ts';
import { askedAt, bucketNameAt, whereLocated } from './locate.ts';
import { countedBody } from './traffic.ts';

/** A request whose bucket is known. */
type LoggedRequest = RequestContext & Located;

export interface Ended {
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
  if (typeof body === 'object' && Symbol.asyncIterator in body)
    return { ...reply, body: countedBody(body, write) };
  await write(typeof body === 'string' ? new TextEncoder().encode(body).length : (body?.length ?? 0));
  return reply;
}

const reportUnlogged = (
  { telemetry }: Context,
  { requestId, bucketName = '' }: RequestContext,
  cause: unknown,
): void =>
  telemetry.log('WARN', 'a request is not in the access log', { request_id: requestId, cause }, bucketName);

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
  const { requestId, wire, query, identity, signed, payload, key, target, accessPoint, isByAcl } = request;
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
    objectSize: target?.size ?? payload?.length,
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
