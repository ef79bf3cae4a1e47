/** The access log of a bucket (spec "Logging"): a line for every request to it, refused ones too, written a moment later. */
import type { Signed } from '../auth/identity.ts';
import { principalOf } from '../auth/principal.ts';
import type { Context } from '../context.ts';
import { lookUpBucket } from '../domain/buckets.ts';
import { readDocument } from '../domain/documents.ts';
import { bucketLogging, type Logging } from '../domain/families.ts';
import { queuedByHour } from '../metadata/hourly-queues.ts';
import type { AccessLogTask } from '../metadata/queue-tables.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { SideChange } from '../ports/metadata-store.ts';
import { type AccessLogEntry, accessLogLine, loggedOperation } from '../protocol/access-log.ts';
import { isOperation } from '../protocol/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { askedAt, bucketNameAt, type Place } from './locate.ts';
import { type Trace, unknownOperation } from './trace.ts';

export interface Ended {
  readonly reply: Reply;
  /** That of its refusal. */
  readonly code: string | undefined;
  /** By the clock that never jumps. */
  readonly startedAt: number;
}

/** Whether there may be a log to write to: false of nearly every request, which then costs nothing. */
export const mayBeLogged = ({ bucket, place }: Trace, code: string | undefined): boolean =>
  // A line for each refusal would fill the reserve of the disk.
  code === 'InsufficientStorage'
    ? false
    : bucket === undefined
      ? code !== undefined && code !== 'NoSuchBucket' && place !== undefined && bucketNameAt(place) !== ''
      : bucketLogging.name in bucket.documents;

/** Writes the line once the reply is on its way, and the last byte of its body with it. */
export async function logAccess(ctx: Context, trace: Trace, ended: Ended): Promise<Reply> {
  const { reply, startedAt } = ended;
  const found = await logOf(ctx, trace);
  if (found === undefined) return reply;
  const turnAroundMs = ctx.clock.elapsed() - startedAt;
  const write = async (bytesSent: number): Promise<void> => {
    const totalMs = ctx.clock.elapsed() - startedAt;
    const line = accessLogLine({
      ...entryOf(trace, found.bucket, ended),
      time: ctx.clock.now() - totalMs,
      bytesSent,
      totalMs,
      turnAroundMs,
    });
    try {
      await ctx.lateWrites.add(await rowOf(ctx, trace, { ...found, line }), line.length);
    } catch (cause) {
      ctx.telemetry.log('WARN', 'a request is not in the access log', { request_id: trace.requestId, cause });
    }
  };
  const { body } = reply;
  if (typeof body === 'object' && Symbol.asyncIterator in body)
    return { ...reply, body: counted(body, write) };
  await write(typeof body === 'string' ? new TextEncoder().encode(body).length : (body?.length ?? 0));
  return reply;
}

interface Log {
  readonly bucket: BucketRow;
  readonly to: NonNullable<Logging['LoggingEnabled']>;
}

/** A reply is not lost over a log that cannot be read. */
async function logOf(ctx: Context, { bucket, place, requestId }: Trace): Promise<Log | undefined> {
  try {
    const row = bucket ?? (place && (await lookUpBucket(ctx, bucketNameAt(place))));
    const to = row && (await readDocument(ctx, row, bucketLogging))?.LoggingEnabled;
    return row && to && { bucket: row, to };
  } catch (cause) {
    ctx.telemetry.log('WARN', 'a request is not in the access log', { request_id: requestId, cause });
    return undefined;
  }
}

function rowOf(
  ctx: Context,
  { requestId }: Trace,
  { bucket, to, line }: Log & { readonly line: string },
): Promise<SideChange> {
  const { TargetBucket, TargetPrefix, TargetObjectKeyFormat } = to;
  const by = TargetObjectKeyFormat?.PartitionedPrefix?.PartitionDateSource;
  const task: AccessLogTask = {
    bucketId: bucket.id,
    bucket: bucket.name,
    target: {
      bucket: TargetBucket,
      prefix: TargetPrefix,
      ...(by === undefined ? {} : { partitionedBy: by }),
    },
    line,
  };
  return queuedByHour(
    ctx,
    { queue: 'access-log', slotKey: bucket.id },
    { task, id: requestId, due: ctx.clock.now(), requestId },
  );
}

const signatureNames: Readonly<Record<Signed['type'], string | undefined>> = {
  'REST-HEADER': 'AuthHeader',
  'REST-QUERY-STRING': 'QueryString',
  POST: undefined,
};

type Timing = 'time' | 'bytesSent' | 'totalMs' | 'turnAroundMs';

function entryOf(trace: Trace, bucket: BucketRow, { reply, code }: Ended): Omit<AccessLogEntry, Timing> {
  const { place, call, target } = trace;
  if (place === undefined) throw new Error('a request to a bucket has no place');
  const { wire, query } = place;
  const identity = call?.identity;
  return {
    bucketOwner: bucket.owner,
    bucket: bucket.name,
    remote: wire.remote,
    requester:
      identity === undefined ? undefined : identity.root ? identity.owner : principalOf(identity).arn,
    requestId: trace.requestId,
    operation: operationOf(trace, place),
    key: call?.key ?? askedAt(place)?.key ?? '',
    method: wire.method,
    target: wire.target,
    status: reply.status,
    error: code,
    objectSize: target?.size ?? call?.payload.length,
    referer: wire.headers.get('referer'),
    userAgent: wire.headers.get('user-agent'),
    versionId: query.get('versionId'),
    signatureVersion: call?.signed && (call.signed.version === 'AWS' ? 'SigV2' : 'SigV4'),
    cipher: wire.tlsCipher,
    authType: call?.signed && signatureNames[call.signed.type],
    host: wire.headers.get('host'),
    tlsVersion: wire.tlsVersion && `TLSv${wire.tlsVersion}`,
  };
}

function operationOf({ operation, call }: Trace, place: Place): string {
  const { method } = place.wire;
  if (place.isSite) return `WEBSITE.${method}.OBJECT`;
  const name = operation === unknownOperation ? askedAt(place)?.action : operation;
  if (name !== undefined && isOperation(name)) return loggedOperation(name);
  return `REST.${method}.${call?.key ? 'OBJECT' : 'BUCKET'}`;
}

/** The same body; `over` is told once how many bytes were taken, at its end or when nobody wants more. */
function counted(
  body: AsyncIterable<Uint8Array>,
  over: (bytes: number) => Promise<void> | undefined,
): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const inner = body[Symbol.asyncIterator]();
      let bytes = 0;
      let isOver = false;
      const end = async (): Promise<void> => {
        if (isOver) return;
        isOver = true;
        await over(bytes);
      };
      return {
        async next() {
          try {
            const step = await inner.next();
            if (step.done === true) await end();
            else bytes += step.value.length;
            return step;
          } catch (cause) {
            await end();
            throw cause;
          }
        },
        async return() {
          await inner.return?.();
          await end();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
