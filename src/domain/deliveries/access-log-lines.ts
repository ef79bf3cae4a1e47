/**
 * The lines of access logs, as the public service writes them:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html
 */
import { maskParameters } from '../../base/text/mask-secrets.ts';
import type { Context } from '../../context.ts';
import { queuedByHour } from '../../metadata/background/hourly-queues.ts';
import type { AccessLogTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { drawId, formatVersionId } from '../common/ids.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketLogging, type Logging } from '../configurations/families.ts';

/** Unknown and absent values are written as `-`. */
export interface AccessLogEntry extends LoggedAction, RequestFields {}

/** An action of the service itself has these alone. */
interface LoggedAction {
  readonly bucketOwner: string;
  readonly bucket: string;
  /** ms since the epoch. */
  readonly time: number;
  readonly requester: string | undefined;
  readonly requestId: string;
  /** Such as `REST.GET.OBJECT`. */
  readonly operation: string;
  readonly key: string;
  readonly objectSize: number | undefined;
  readonly versionId: string | undefined;
}

interface RequestFields {
  readonly remote: string;
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly error: string | undefined;
  readonly bytesSent: number;
  readonly totalMs: number;
  readonly turnAroundMs: number;
  readonly referer: string | undefined;
  readonly userAgent: string | undefined;
  readonly signatureVersion: string | undefined;
  readonly cipher: string | undefined;
  readonly authType: string | undefined;
  readonly host: string | undefined;
  readonly tlsVersion: string | undefined;
  /** The ARN. */
  readonly accessPoint: string | undefined;
  /** The request would have been refused without an ACL. */
  readonly isByAcl: boolean;
}

/**
 * Bytes of a text of a client in a line. With the key, which has up to 3,072, a line takes less than 16 KiB, so it fits
 * into its row, and no request loses its line for a text that is too long.
 */
const textBytesMax = 2_048;
/** Of shorter texts, such as names. */
const nameBytesMax = 1_024;
/** A key has up to 1,024 bytes, each of which may be encoded as three. */
const keyBytesMax = 3_072;

const encoder = new TextEncoder();
const cutBuffer = new Uint8Array(keyBytesMax);

/** Cuts a text that is escaped already, because escaping makes a text longer. No part of an escape is left at the end. */
function cut(escaped: string, bytesMax: number): string {
  const { read } = encoder.encodeInto(escaped, cutBuffer.subarray(0, bytesMax));
  return read === escaped.length ? escaped : escaped.slice(0, read).replace(/%[0-9A-F]?$/, '');
}

/** Escapes a client's text, so that it cannot end its field or its line. Characters that are cut in any case are not escaped first. */
const escapeField = (
  raw: string,
  { special, bytesMax }: { readonly special: RegExp; readonly bytesMax: number },
): string =>
  cut(
    raw
      .slice(0, bytesMax)
      .toWellFormed()
      .replace(special, (char) => encodeURIComponent(char)),
    bytesMax,
  );
const quoted = (raw: string | undefined): string =>
  `"${raw ? escapeField(raw, { special: /["\\\p{Cc}]/gu, bytesMax: textBytesMax }) : '-'}"`;
const bare = (raw: string | undefined): string =>
  raw ? escapeField(raw, { special: /["\\\p{Cc} ]/gu, bytesMax: nameBytesMax }) : '-';
const figure = (value: number | undefined): string => (value ? String(Math.round(value)) : '-');

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `[06/Feb/2026:00:00:38 +0000]` */
function moment(time: number): string {
  const [, year, month = '', day, clock] =
    /^(\d+)-(\d\d)-(\d\d)T([\d:]+)/.exec(new Date(time).toISOString()) ?? [];
  return `[${day}/${months[Number(month) - 1]}/${year}:${clock} +0000]`;
}

const encodedKey = (key: string): string =>
  key === ''
    ? '-'
    : cut(encodeURIComponent(key.slice(0, keyBytesMax).toWellFormed()).replaceAll('%2F', '/'), keyBytesMax);

export function accessLogLine(entry: LoggedAction & Partial<AccessLogEntry>): string {
  const { method, target, totalMs } = entry;
  return [
    bare(entry.bucketOwner),
    bare(entry.bucket),
    moment(entry.time),
    bare(entry.remote),
    bare(entry.requester),
    entry.requestId,
    entry.operation,
    encodedKey(entry.key),
    quoted(target && `${method} ${maskParameters(target, '-')} HTTP/1.1`),
    entry.status ?? '-',
    bare(entry.error),
    figure(entry.bytesSent),
    figure(entry.objectSize),
    totalMs === undefined ? '-' : Math.round(totalMs),
    figure(entry.turnAroundMs),
    quoted(entry.referer && maskParameters(entry.referer, '-')),
    quoted(entry.userAgent),
    bare(entry.versionId),
    entry.requestId,
    bare(entry.signatureVersion),
    bare(entry.cipher),
    bare(entry.authType),
    bare(entry.host),
    bare(entry.tlsVersion),
    bare(entry.accessPoint),
    entry.isByAcl === true ? 'Yes' : '-',
  ].join(' ');
}

// Queues a line for the log of a bucket.

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

export interface Log {
  readonly bucket: BucketRow;
  readonly to: NonNullable<Logging['LoggingEnabled']>;
}

interface Line {
  readonly line: string;
  /** When what the line is about began (ms since the epoch). */
  readonly time: number;
  /** Unique in the queue. */
  readonly id: string;
  readonly requestId: string;
}

export function queueLine(
  ctx: Pick<Ctx, 'caches' | 'metadata' | 'clock'>,
  { bucket, to }: Log,
  { line, time, id, requestId }: Line,
): Promise<SideChange> {
  const { TargetBucket, TargetPrefix, TargetObjectKeyFormat } = to;
  const by = TargetObjectKeyFormat?.PartitionedPrefix?.PartitionDateSource;
  const task: AccessLogTask = {
    bucketId: bucket.id,
    bucket: bucket.name,
    account: bucket.owner,
    region: bucket.region,
    time: Math.round(time),
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
    { task, id, due: ctx.clock.now(), requestId },
  );
}

/** An action of the service itself: no request, so no client, status or time that it took. */
interface ServiceAction {
  /** Such as `S3.EXPIRE.OBJECT`. */
  readonly operation: string;
  readonly key: string;
  /** The version that the action made, changed or removed. */
  readonly version: ObjectRow | undefined;
  readonly requestId: string;
}

/** The line of an action, for its commit. Costs nothing where the bucket has no log. */
export async function lineOfAction(
  ctx: Ctx,
  bucket: BucketRow,
  { operation, key, version, requestId }: ServiceAction,
): Promise<readonly SideChange[]> {
  if (!(bucketLogging.name in bucket.documents)) return [];
  const to = (await readDocument(ctx, bucket, bucketLogging))?.LoggingEnabled;
  if (to === undefined) return [];
  const time = ctx.clock.now();
  const line = accessLogLine({
    bucketOwner: bucket.owner,
    bucket: bucket.name,
    time,
    requester: 'AmazonS3',
    requestId,
    operation,
    key,
    objectSize: version?.size,
    versionId: version === undefined || bucket.versioning === '' ? undefined : formatVersionId(version),
  });
  return [await queueLine(ctx, { bucket, to }, { line, time, id: drawId(ctx.random), requestId })];
}
