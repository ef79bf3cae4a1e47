/**
 * Delivers the lines of the queue `access-log` in one pass: first the batches that an earlier run left, then everything that was queued
 * before the pass began, in batches of one bucket and target. Lines that cannot be delivered stay in the queue until its retention.
 */

import { Refusal } from '../../base/errors.ts';
import { toUpperHex } from '../../base/text/hex.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { dueRowsOfHour, listDueHours } from '../../metadata/background/hourly-consumer.ts';
import type { HourlyQueue } from '../../metadata/background/hourly-queues.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import {
  accessLogTask,
  batchLinesMax,
  closesBatch,
  dropBatch,
  finishBatch,
  isOpenBatch,
  type LogBatch,
  type LogLine,
  leftBatches,
  readBatch,
  storeBatch,
} from '../../metadata/background/log-batches.ts';
import { assertLeads, type Term } from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import type { AccessLogTask, HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import type { Random } from '../../ports/random.ts';
import { noLabels } from '../../ports/telemetry.ts';
import { type Group, groupUris, toGroup, toUser } from '../access/acl.ts';
import { readOwnership } from '../access/object-ownership.ts';
import { drawId, drawRequestId } from '../common/ids.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketLogging, type NamedGrantee } from '../configurations/families.ts';
import {
  existsAlready,
  isKeyTooLong,
  type MayWrite,
  type ServiceWriteCtx,
  services,
  writeAsService,
} from './service-write.ts';

export type AccessLogCtx = ServiceWriteCtx &
  Pick<Context, 'telemetry'> & {
    readonly config: Pick<Config, 'SVC_ACCESSLOG_OBJECT_SIZE' | 'SVC_REGION'>;
    readonly mayWrite: MayWrite;
  };

const queue: HourlyQueue = 'access-log';
/** Lines in memory, of all targets together; above this the largest batch is written early. */
const bufferedMax = 16 * 1024 * 1024;
/** After so many lines the requests of this process get a turn. */
const turnLines = 500;
/** Estimated memory of a line beside its text. */
const lineBytes = 200;

/** The lines that are about to become one object. */
interface Gathering {
  /** The bucket and its target: when it refuses a batch, the pass leaves its other lines too. */
  readonly log: string;
  readonly task: AccessLogTask;
  /** A time of the day that partitions by event time need. */
  readonly time: number;
  readonly lines: LogLine[];
  readonly texts: string[];
  /** Of the object. */
  bytes: number;
}

interface Delivery extends Delivering {
  /** Called every few hundred lines: waits until requests have had their turn. */
  pause(): Promise<void>;
}

interface Pass extends Delivery {
  readonly now: number;
  /** Logs that are left in this pass. */
  readonly left: Set<string>;
}

export async function deliverLogs(ctx: AccessLogCtx, { term, signal, pause }: Delivery): Promise<void> {
  const { metadata } = ctx;
  const pass: Pass = { term, signal, pause, now: await metadata.now(), left: new Set() };
  for (const batch of await leftBatches(metadata, term)) {
    signal.throwIfAborted();
    await deliver(ctx, pass, { batch, log: nameLog(batch), lines: () => readBatch(metadata, batch) });
  }
  for (const place of await listDueHours(ctx, queue, pass.now)) await deliverHour(ctx, pass, place);
}

const nameLog = ({ bucketId, target }: Pick<AccessLogTask, 'bucketId' | 'target'>): string =>
  JSON.stringify([bucketId, target.bucket, target.prefix, target.partitionedBy]);

async function deliverHour(ctx: AccessLogCtx, pass: Pass, place: QueueHour): Promise<void> {
  const { config } = ctx;
  const gathered = new Map<string, Gathering>();
  let buffered = 0;
  let count = 0;
  const flush = async (name: string, gathering: Gathering): Promise<void> => {
    gathered.delete(name);
    buffered -= gatheredBytes(gathering);
    if (!pass.left.has(gathering.log)) await deliverGathered(ctx, pass, { place, gathering });
  };
  for await (const row of dueRowsOfHour(ctx, place, { now: pass.now })) {
    if (++count % turnLines === 0) await pass.pause();
    pass.signal.throwIfAborted();
    const log = nameLog(accessLogTask(row));
    if (pass.left.has(log)) continue;
    const time = accessLogTask(row).time ?? row.due;
    const name = `${log} ${accessLogTask(row).target.partitionedBy === 'EventTime' ? startOfDay(time) : ''}`;
    const gathering = gathered.get(name) ?? startGathering(row, { log, time });
    gathered.set(name, gathering);
    buffered += gather(gathering, row);
    if (gathering.bytes >= config.SVC_ACCESSLOG_OBJECT_SIZE || gathering.lines.length >= batchLinesMax)
      await flush(name, gathering);
    else if (buffered >= bufferedMax) {
      const [largest] = [...gathered].sort(([, a], [, b]) => gatheredBytes(b) - gatheredBytes(a));
      if (largest !== undefined) await flush(...largest);
    }
  }
  for (const [name, gathering] of [...gathered]) await flush(name, gathering);
}

const startGathering = (
  row: HourlyRow,
  { log, time }: { readonly log: string; readonly time: number },
): Gathering => ({ log, task: accessLogTask(row), time, lines: [], texts: [], bytes: 0 });

const gatheredBytes = ({ bytes, lines }: Gathering): number => bytes + lines.length * lineBytes;

/** @returns the memory that it takes, in bytes */
function gather(gathering: Gathering, row: HourlyRow): number {
  const { line } = accessLogTask(row);
  gathering.lines.push({ due: row.due, id: row.id });
  gathering.texts.push(line);
  gathering.bytes += line.length + 1;
  return line.length + 1 + lineBytes;
}

async function deliverGathered(
  ctx: AccessLogCtx,
  pass: Pass,
  { place, gathering }: { readonly place: QueueHour; readonly gathering: Gathering },
): Promise<void> {
  const { log, task, lines, texts } = gathering;
  const [first] = lines;
  if (first === undefined) return;
  const { bucketId, bucket, target } = task;
  // The first field of a line is the account that owns the bucket.
  const account = task.account ?? task.line.slice(0, task.line.indexOf(' '));
  const region = task.region ?? ctx.config.SVC_REGION;
  const time = target.partitionedBy === 'EventTime' ? gathering.time : ctx.clock.now();
  const key = drawLogKey(ctx, { source: { bucket, account, region }, target, time });
  const batch: LogBatch = {
    id: drawId(ctx.random),
    slot: place.slot,
    hour: place.hour,
    bucketId,
    bucket,
    account,
    region,
    target,
    key,
    first,
    lines: lines.length,
  };
  // Looked up before anything is stored, because a target that refuses is asked again in each pass.
  const retained = await whyRetained(ctx, pass, batch);
  if (retained !== undefined) return keep(ctx, pass, { batch, log, ...retained });
  await storeBatch(ctx.metadata, batch, { lines, term: pass.term });
  await deliver(ctx, pass, { batch, log, lines: async () => texts });
}

/** A target whose rows cannot be read keeps the lines of its own buckets only. @returns undefined where the target takes them */
async function whyRetained(
  ctx: AccessLogCtx,
  { signal }: Pass,
  batch: LogBatch,
): Promise<{ readonly why: RetainedFor; readonly cause?: unknown } | undefined> {
  try {
    const found = await findLogTarget(ctx, batch);
    return typeof found === 'string' ? { why: found } : undefined;
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { why: 'error', cause };
  }
}

async function deliver(
  ctx: AccessLogCtx,
  pass: Pass,
  { batch, log, lines }: { readonly batch: LogBatch; readonly log: string; readonly lines: Lines },
): Promise<void> {
  try {
    const why = await deliverBatch(ctx, batch, { ...pass, lines });
    if (why !== undefined) keep(ctx, pass, { batch, log, why });
  } catch (cause) {
    if (pass.signal.aborted || cause instanceof LeaseLost) throw cause;
    // The batch stays: the next pass finds out whether its object was committed.
    keep(ctx, pass, { batch, log, why: 'error', cause });
  }
}

function keep(
  { telemetry }: AccessLogCtx,
  { left }: Pass,
  {
    batch,
    log,
    why,
    cause,
  }: {
    readonly batch: LogBatch;
    readonly log: string;
    readonly why: RetainedFor;
    readonly cause?: unknown;
  },
): void {
  left.add(log);
  telemetry.count('svc_access_log_kept_total', { why });
  telemetry.log('WARN', 'access log lines are kept, because their target bucket does not take them', {
    bucket: batch.bucket,
    target: batch.target.bucket,
    prefix: batch.target.prefix,
    why,
    hint: hints[why],
    ...(cause === undefined ? {} : { cause }),
  });
}

const hints: Readonly<Record<RetainedFor, string>> = {
  'no-bucket': 'create the target bucket, or change the logging configuration',
  'other-owner':
    'the target must belong to the account of the logged bucket: change the logging configuration',
  'other-region': 'the target must be in the region of the logged bucket: change the logging configuration',
  'object-lock': 'a bucket with Object Lock takes no access logs: change the logging configuration',
  quota: 'make room in the target bucket, or raise its quota or that of its account',
  'key-too-long': 'choose a shorter TargetPrefix in the logging configuration',
  denied:
    'the policy of the target must allow s3:PutObject to the service logging.s3.amazonaws.com, or its ACL WRITE to the group LogDelivery; a KMS key of its default encryption must name its account',
  error: 'the next pass tries again',
};

interface Delivering {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** The tasks of a leader's term; their rows carry no type of their own. */
const logTasks = { kind: 'access-log' };

type Lines = () => Promise<readonly string[]>;

/** The bucket that the object goes to, or why it is not delivered now. */
async function findLogTarget(
  ctx: AccessLogCtx,
  {
    target,
    account,
    region,
    bucket: name,
    key,
  }: Pick<LogBatch, 'target' | 'account' | 'region' | 'bucket' | 'key'>,
): Promise<BucketRow | RetainedFor> {
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
async function deliverBatch(
  ctx: AccessLogCtx,
  batch: LogBatch,
  { lines, term, signal }: Delivering & { readonly lines: Lines },
): Promise<RetainedFor | undefined> {
  const { metadata, telemetry } = ctx;
  if (!(await isOpenBatch(metadata, batch))) {
    await finishBatch(metadata, batch, term);
    return undefined;
  }
  const bucket = await findLogTarget(ctx, batch);
  const why = typeof bucket === 'string' ? bucket : await write(ctx, batch, { bucket, lines, term, signal });
  if (why === undefined) {
    await finishBatch(metadata, batch, term);
    telemetry.count('svc_access_log_objects_total', noLabels);
    telemetry.count('svc_access_log_lines_total', noLabels, batch.lines);
  } else await dropBatch(metadata, batch, term);
  return why;
}

async function write(
  ctx: AccessLogCtx,
  batch: LogBatch,
  { bucket, lines, term, signal }: Delivering & { readonly bucket: BucketRow; readonly lines: Lines },
): Promise<RetainedFor | undefined> {
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
const startOfDay = (time: number): number => Math.floor(time / dayMs) * dayMs;

/** `YYYY-mm-DD-HH-MM-SS` in UTC. */
const momentText = (time: number): string =>
  new Date(time).toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '-');

/** @param time of the delivery; for `EventTime` any time of the events' day */
function drawLogKey(
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
  const moment = momentText(partitionedBy === 'EventTime' ? startOfDay(time) : time);
  const { account, region, bucket } = source;
  const day = moment.slice(0, 10).replaceAll('-', '/');
  return `${prefix}${account}/${region}/${bucket}/${day}/${moment}-${unique}`;
}

// The bucket that takes an access log, as it is when the log is delivered.

type LogTargetCtx = Pick<Context, 'metadata' | 'caches'>;

/** Why lines are not delivered now. They stay in the queue until its retention. */
type RetainedFor =
  /** The target bucket does not exist. */
  | 'no-bucket'
  /** The target belongs to another account than the logged bucket: it was deleted and made again by another owner. */
  | 'other-owner'
  | 'other-region'
  /** Log delivery cannot write locked objects (public API). */
  | 'object-lock'
  /** The prefix and the rest of the key are longer than keys may be. */
  | 'key-too-long'
  | 'quota'
  /** Neither the policy nor the ACL of the target lets log delivery write, or the account may not use the target's KMS key. */
  | 'denied'
  /** Any other failure, such as a storage that does not answer. */
  | 'error';

async function openLogTarget(
  ctx: LogTargetCtx,
  { name, account, region }: { readonly name: string; readonly account: string; readonly region: string },
): Promise<BucketRow | RetainedFor> {
  const row = (await findBucket(ctx.metadata, name))?.row;
  if (row === undefined) return 'no-bucket';
  if (row.owner !== account) return 'other-owner';
  if (row.region !== region) return 'other-region';
  if (row.objectLock) return 'object-lock';
  return row;
}

/** The grants on a log object: those of the logged bucket's present configuration, while it names the same target. */
async function readLogGrants(
  ctx: LogTargetCtx,
  {
    source,
    to,
    target,
  }: {
    readonly source: { readonly bucketId: string; readonly bucket: string };
    readonly to: AccessLogTask['target'];
    readonly target: BucketRow;
  },
): Promise<readonly Grant[]> {
  const bucket = (await findBucket(ctx.metadata, source.bucket))?.row;
  if (bucket === undefined || bucket.id !== source.bucketId) return [];
  const logging = (await readDocument(ctx, bucket, bucketLogging))?.LoggingEnabled;
  const { TargetGrants = [] } = logging ?? {};
  if (logging?.TargetBucket !== to.bucket || logging.TargetPrefix !== to.prefix) return [];
  if (TargetGrants.length === 0 || (await readOwnership(ctx, target)) === 'BucketOwnerEnforced') return [];
  return TargetGrants.flatMap(({ Grantee, Permission }) => grantTo(Grantee, Permission));
}

/** Grantees with an e-mail address were resolved when the configuration was stored. */
function grantTo({ ID, URI }: NamedGrantee, permission: Grant['permission']): readonly Grant[] {
  if (ID !== undefined) return [toUser(ID, permission)];
  const group = (Object.keys(groupUris) as Group[]).find((each) => groupUris[each] === URI);
  return group === undefined ? [] : [toGroup(group, permission)];
}
