/** Writes the object of a batch of access log lines, exactly once (see `metadata/background/log-batches.ts`). */

import { Refusal } from '../../base/errors.ts';
import { toUpperHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import {
  closesBatch,
  dropBatch,
  finishBatch,
  isOpenBatch,
  type LogBatch,
} from '../../metadata/background/log-batches.ts';
import { assertLeads, type Term } from '../../metadata/background/tasks.ts';
import type { AccessLogTask } from '../../metadata/records/queues.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Random } from '../../ports/random.ts';
import { drawRequestId } from '../common/ids.ts';
import { type KeptFor, openLogTarget, readLogGrants } from './access-log-lines.ts';
import {
  existsAlready,
  isKeyTooLong,
  type MayWrite,
  services,
  type Ctx as WriteCtx,
  writeAsService,
} from './service-write.ts';

export interface Ctx extends WriteCtx, Pick<Context, 'telemetry'> {
  readonly mayWrite: MayWrite;
}

export interface Delivering {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** The tasks of a leader's term; their rows carry no type of their own. */
const logTasks = { kind: 'access-log' };

export type Lines = () => Promise<readonly string[]>;

/** The bucket that the object goes to, or why it is not delivered now. */
export async function findLogTarget(
  ctx: Ctx,
  {
    target,
    account,
    region,
    bucket: name,
    key,
  }: Pick<LogBatch, 'target' | 'account' | 'region' | 'bucket' | 'key'>,
): Promise<BucketRow | KeptFor> {
  const bucket = await openLogTarget(ctx, { name: target.bucket, account, region });
  if (typeof bucket === 'string') return bucket;
  if (isKeyTooLong(key)) return 'key-too-long';
  const source = { bucket: name, account };
  return (await ctx.mayWrite({ service: services.logging, bucket, key, source })) ? bucket : 'denied';
}

/**
 * Delivers a stored batch.
 * @returns why its lines stay in the queue, or undefined when the object is written
 */
export async function deliverBatch(
  ctx: Ctx,
  batch: LogBatch,
  { lines, term, signal }: Delivering & { readonly lines: Lines },
): Promise<KeptFor | undefined> {
  const { metadata, telemetry } = ctx;
  if (!(await isOpenBatch(metadata, batch))) {
    await finishBatch(metadata, batch, term);
    return undefined;
  }
  const bucket = await findLogTarget(ctx, batch);
  const why = typeof bucket === 'string' ? bucket : await write(ctx, batch, { bucket, lines, term, signal });
  if (why === undefined) {
    await finishBatch(metadata, batch, term);
    telemetry.accessLogDelivered(batch.lines);
  } else await dropBatch(metadata, batch, term);
  return why;
}

async function write(
  ctx: Ctx,
  batch: LogBatch,
  { bucket, lines, term, signal }: Delivering & { readonly bucket: BucketRow; readonly lines: Lines },
): Promise<KeptFor | undefined> {
  const { metadata } = ctx;
  const body = new TextEncoder().encode(`${(await lines()).join('\n')}\n`);
  const grants = await readLogGrants(ctx, { source: batch, to: batch.target, target: bucket });
  try {
    await writeAsService(
      ctx,
      {
        service: services.logging,
        bucket,
        key: batch.key,
        headers: { system: { 'content-type': 'text/plain' } },
        grants,
        isNew: true,
        async then() {
          // A former leader that was paused must not write the object again after a client has deleted it.
          await assertLeads(metadata, logTasks, term);
          return [closesBatch(batch)];
        },
        requestId: drawRequestId(ctx.random),
        signal,
      },
      { source: once(body), length: body.length },
    );
  } catch (cause) {
    // The commit of an earlier attempt has applied, and its side changes only now.
    if (existsAlready(cause)) return undefined;
    if (cause instanceof Refusal && refusals.has(cause.code)) return 'denied';
    if (cause instanceof Refusal && cause.code === 'QuotaExceeded') return 'quota';
    if (cause instanceof Refusal && cause.code === 'NoSuchBucket') return 'no-bucket';
    throw cause;
  }
  return undefined;
}

/** A key that the account may not use, a public grant on a bucket that blocks them, or an ACL that the target does not take. */
const refusals: ReadonlySet<string> = new Set([
  'AccessDenied',
  'AccessControlListNotSupported',
  'KMS.NotFoundException',
]);

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

// The keys of access log objects: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ServerLogs.html#server-log-keyname-format

interface LogSource {
  readonly bucket: string;
  readonly account: string;
  readonly region: string;
}

const dayMs = 24 * 60 * 60 * 1000;
/** The first moment of the UTC day of a time. */
export const dayOf = (time: number): number => Math.floor(time / dayMs) * dayMs;

/** `YYYY-mm-DD-HH-MM-SS` in UTC. */
const momentText = (time: number): string =>
  new Date(time).toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '-');

/** @param time of the delivery; for `EventTime` any time of the events' day */
export function drawLogKey(
  { random }: { readonly random: Random },
  {
    source,
    target,
    time,
  }: { readonly source: LogSource; readonly target: AccessLogTask['target']; readonly time: number },
): string {
  const unique = toUpperHex(random.bytes(8));
  const { prefix, partitionedBy } = target;
  if (partitionedBy === undefined) return `${prefix}${momentText(time)}-${unique}`;
  const moment = momentText(partitionedBy === 'EventTime' ? dayOf(time) : time);
  const { account, region, bucket } = source;
  const day = moment.slice(0, 10).replaceAll('-', '/');
  return `${prefix}${account}/${region}/${bucket}/${day}/${moment}-${unique}`;
}
