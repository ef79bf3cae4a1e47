/**
 * Delivers the lines of the queue `access-log` in one pass: first the batches that an earlier run left, then everything that was queued
 * before the pass began, in batches of one bucket and target. Lines that cannot be delivered stay in the queue until its retention, and are
 * read again when their target may take them (`refused-logs.ts`).
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
import type { Clock } from '../../ports/clock.ts';
import type { Random } from '../../ports/random.ts';
import { noLabels } from '../../ports/telemetry.ts';
import { type Group, groupUris, toGroup, toUser } from '../access/acl.ts';
import { readOwnership } from '../access/object-ownership.ts';
import { fenceWriters, lookUpBucket } from '../common/buckets.ts';
import { drawId, drawRequestId } from '../common/ids.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketLogging, type NamedGrantee } from '../configurations/families.ts';
import type { LogSample, RefusedLogs, RefusedWrite } from './refused-logs.ts';
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
    readonly config: Pick<Config, 'SVC_ACCESSLOG_OBJECT_SIZE' | 'SVC_ACCESSLOG_INTERVAL' | 'SVC_REGION'>;
    readonly mayWrite: MayWrite;
  };

const queue: HourlyQueue = 'access-log';
/** Lines in memory, of all targets together; above this the largest batches are written early. */
const bufferedMax = 16 * 1024 * 1024;
/** After so many lines the requests of this process get a turn. */
const turnLines = 500;
/** After so many targets too. */
const turnTargets = 100;

interface Delivery extends Delivering {
  /** Of the leader that delivers. */
  readonly refused: RefusedLogs;
  /** Called every few hundred lines: waits until requests have had their turn. */
  pause(): Promise<void>;
}

interface Pass extends Delivery {
  readonly now: number;
  /** Logs that are left in this pass. */
  readonly left: Set<string>;
  readonly shares: AccountShares;
  /** Whether it left lines of accounts that have had their share, beside those of logs that were refused before. */
  isCut: boolean;
}

/**
 * @returns whether the next pass begins at once: an account has had its share of this one, and has more lines. Lines of logs that were
 * refused before do not count.
 */
export async function deliverLogs(ctx: AccessLogCtx, delivery: Delivery): Promise<boolean> {
  const { metadata } = ctx;
  const { term, signal, refused } = delivery;
  const shares = new AccountShares(ctx.clock);
  const pass: Pass = { ...delivery, now: await metadata.now(), left: new Set(), shares, isCut: false };
  for (const batch of await leftBatches(metadata, term)) {
    signal.throwIfAborted();
    const log = nameLog(batch);
    const { account } = batch;
    // Its lines are in the batch, so no other one may take them.
    if (refused.isPaused(log, pass.now)) pass.left.add(log);
    else if (!leaveBehindShare(pass, log, account))
      await shares.run(account, () =>
        deliver(ctx, pass, { batch, log, lines: () => readBatch(metadata, batch) }),
      );
    if (pass.left.has(log)) refused.leave(log, batch);
  }
  await askRefused(ctx, pass);
  const places = await listDueHours(ctx, queue, pass.now);
  for (const place of places) await deliverHour(ctx, pass, place);
  refused.endPass(places);
  return pass.isCut;
}

/**
 * Asks the targets that refused a log before. The lines of those that still do are not read. An account has a share of its own for this, so
 * that its other logs are delivered; and what is not asked waits for the next pass without shortening the rest before it, because most
 * of these logs will be refused again.
 */
async function askRefused(ctx: AccessLogCtx, pass: Pass): Promise<void> {
  const shares = new AccountShares(ctx.clock);
  let count = 0;
  for (const [log, sample] of pass.refused.entries()) {
    if (++count % turnTargets === 0) await pass.pause();
    pass.signal.throwIfAborted();
    if (pass.left.has(log)) continue;
    // Those that were asked come last in the next pass.
    if (shares.hasHad(sample.account)) {
      pass.left.add(log);
      continue;
    }
    const found = await shares.run(sample.account, () => askTarget(ctx, pass, sample));
    if ('why' in found) retainLines(ctx, pass, { sample, log, ...found });
    else if (pass.refused.isPaused(log, pass.now)) pass.left.add(log);
  }
}

/** Leaves a log whose account has had its share of the pass. All of its lines stay from now on, because later ones come after them. */
function leaveBehindShare(pass: Pass, log: string, account: string): boolean {
  if (!pass.shares.hasHad(account)) return false;
  pass.left.add(log);
  pass.isCut = true;
  return true;
}

async function deliverHour(ctx: AccessLogCtx, pass: Pass, place: QueueHour): Promise<void> {
  const { now, left, refused, shares } = pass;
  const from = refused.readsFrom(place, { left, now });
  const gatherings = new LogGatherings({
    objectBytes: ctx.config.SVC_ACCESSLOG_OBJECT_SIZE,
    memoryMax: bufferedMax,
  });
  const seen = new Set<string>();
  const flush = async (closed: readonly Gathering[]): Promise<void> => {
    for (const gathering of closed) {
      const { log, task } = gathering;
      const account = accountOf(task);
      if (left.has(log) || leaveBehindShare(pass, log, account)) continue;
      await shares.run(account, () => deliverGathered(ctx, pass, { place, gathering }));
    }
  };
  let count = 0;
  for await (const row of dueRowsOfHour(ctx, place, { now, from })) {
    if (++count % turnLines === 0) await pass.pause();
    pass.signal.throwIfAborted();
    const task = accessLogTask(row);
    const log = nameLog(task);
    seen.add(log);
    if (!left.has(log) && !leaveBehindShare(pass, log, accountOf(task)))
      await flush(gatherings.add(row, log));
  }
  await flush(gatherings.closeAll());
  refused.readHour(place, { seen, left, from, now });
}

/** The first field of a line is the account that owns the bucket. */
const accountOf = ({ account, line }: AccessLogTask): string => account ?? line.slice(0, line.indexOf(' '));

async function deliverGathered(
  ctx: AccessLogCtx,
  pass: Pass,
  { place, gathering }: { readonly place: QueueHour; readonly gathering: Gathering },
): Promise<void> {
  const { log, task, lines, texts } = gathering;
  const [first] = lines;
  if (first === undefined) return;
  const { bucketId, bucket, target } = task;
  const account = accountOf(task);
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
  const found = await askTarget(ctx, pass, batch);
  if ('why' in found) return retainLines(ctx, pass, { sample: batch, log, ...found });
  const store = () => storeBatch(ctx.metadata, batch, { lines, term: pass.term });
  await deliver(ctx, pass, { batch, log, unstored: { store, bucket: found }, lines: async () => texts });
}

/** Why lines stay in the queue, and the error if there is one. */
interface Retained {
  readonly why: RetainedFor;
  readonly cause?: unknown;
}

/** A target whose rows cannot be read keeps the lines of its own buckets only. @returns the bucket where it takes them */
async function askTarget(
  ctx: AccessLogCtx,
  { signal }: Pass,
  sample: LogSample,
): Promise<BucketRow | Retained> {
  try {
    const found = await findLogTarget(ctx, sample);
    return typeof found === 'string' ? { why: found } : found;
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { why: 'error', cause };
  }
}

interface Attempt {
  readonly batch: LogBatch;
  readonly log: string;
  readonly lines: Lines;
  /** Absent for a batch that is stored already. The bucket is its target. */
  readonly unstored?: { store(): Promise<void>; readonly bucket: BucketRow };
}

async function deliver(
  ctx: AccessLogCtx,
  pass: Pass,
  { batch, log, lines, unstored }: Attempt,
): Promise<void> {
  const { refused, signal, now } = pass;
  const retain = (retained: Retained): void => {
    const write = { now, intervalMs: ctx.config.SVC_ACCESSLOG_INTERVAL };
    retainLines(ctx, pass, { sample: batch, log, write, ...retained });
  };
  try {
    await unstored?.store();
    const why = await deliverBatch(ctx, batch, { ...pass, lines, bucket: unstored?.bucket });
    if (why === undefined) refused.accept(log);
    else retain({ why });
  } catch (cause) {
    if (signal.aborted || cause instanceof LeaseLost) throw cause;
    // A batch that is stored stays: the next pass finds out whether its object was committed.
    retain({ why: 'error', cause });
  }
}

const toSample = ({ target, account, region, bucket, key }: LogSample): LogSample => ({
  ...{ target, account, region, bucket, key },
});

function retainLines(
  { telemetry }: AccessLogCtx,
  { left, refused }: Pass,
  {
    sample,
    log,
    write,
    why,
    cause,
  }: Retained & { readonly sample: LogSample; readonly log: string; readonly write?: RefusedWrite },
): void {
  left.add(log);
  refused.refuse(log, { sample: toSample(sample), write });
  telemetry.count('svc_access_log_kept_total', { why });
  const { bucket, account, target } = sample;
  const about = {
    bucket,
    target: target.bucket,
    prefix: target.prefix,
    why,
    hint: hints[why],
    ...(cause === undefined ? {} : { cause }),
  };
  const said = 'access log lines are kept, because their target bucket does not take them';
  telemetry.log('WARN', said, about, `${log} ${why}`, account);
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
  /** The ids of target buckets in which no commit of an earlier leader applies any more. */
  readonly fenced: Set<string>;
  readonly signal: AbortSignal;
}

/** The tasks of a leader's term; their rows carry no type of their own. */
const logTasks = { kind: 'access-log' };

type Lines = () => Promise<readonly string[]>;

/** The bucket that the object goes to, or why it is not delivered now. */
async function findLogTarget(
  ctx: AccessLogCtx,
  { target, account, region, bucket: name, key }: LogSample,
): Promise<BucketRow | RetainedFor> {
  const bucket = await openLogTarget(ctx, { name: target.bucket, account, region });
  if (typeof bucket === 'string') return bucket;
  if (isKeyTooLong(key)) return 'key-too-long';
  const source = { bucket: name, account };
  return (await ctx.mayWrite({ service: services.logging, bucket, key, source })) ? bucket : 'denied';
}

/**
 * Delivers a stored batch.
 * @param bucket its target; absent for a batch that an earlier attempt has stored
 * @returns why its lines stay in the queue, or undefined when the object is written
 */
async function deliverBatch(
  ctx: AccessLogCtx,
  batch: LogBatch,
  {
    lines,
    bucket: known,
    ...delivering
  }: Delivering & { readonly lines: Lines; readonly bucket: BucketRow | undefined },
): Promise<RetainedFor | undefined> {
  const { metadata, telemetry } = ctx;
  const { term, fenced } = delivering;
  if (known === undefined) {
    // Whether an earlier leader has committed the object is certain only once its commit can no longer apply.
    const found = await lookUpBucket(ctx, batch.target.bucket);
    if (found !== undefined && !fenced.has(found.id)) fenced.add((await fenceWriters(ctx, found)).id);
  }
  if (!(await isOpenBatch(metadata, batch))) {
    await finishBatch(metadata, batch, term);
    return undefined;
  }
  const bucket = known ?? (await findLogTarget(ctx, batch));
  const why = typeof bucket === 'string' ? bucket : await write(ctx, batch, { bucket, lines, ...delivering });
  if (why === undefined) {
    await finishBatch(metadata, batch, term);
    telemetry.count('svc_access_log_objects_total', noLabels);
    telemetry.count('svc_access_log_lines_total', noLabels, batch.lines);
    // The lines of an earlier attempt stay under its key, because the side changes of its commit may come late.
  } else if (known !== undefined) await dropBatch(metadata, batch, term);
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

// Lines that are about to become objects, gathered by log in bounded memory.

/** Estimated memory of a line beside its text, and of a gathering beside its name. */
const lineBytes = 200;
const gatheringBytes = 500;

/** The bucket and its target: when it refuses a batch, the pass leaves its other lines too. */
export const nameLog = ({ bucketId, target }: Pick<AccessLogTask, 'bucketId' | 'target'>): string =>
  JSON.stringify([bucketId, target.bucket, target.prefix, target.partitionedBy]);

/** The lines that are about to become one object. */
interface Gathering {
  readonly log: string;
  readonly task: AccessLogTask;
  /** A time of the day that partitions by event time need. */
  readonly time: number;
  readonly lines: LogLine[];
  readonly texts: string[];
  /** Of the object. */
  bytes: number;
}

const memoryOf = (name: string, { bytes, lines }: Gathering): number =>
  bytes + lines.length * lineBytes + name.length * 2 + gatheringBytes;

export class LogGatherings {
  readonly #objectBytes: number;
  readonly #memoryMax: number;
  readonly #gathered = new Map<string, Gathering>();
  #memory = 0;

  /** @param memoryMax of all lines together; above it the largest gatherings are closed early */
  constructor({ objectBytes, memoryMax }: { readonly objectBytes: number; readonly memoryMax: number }) {
    this.#objectBytes = objectBytes;
    this.#memoryMax = memoryMax;
  }

  /** @returns the gatherings that are to be delivered now */
  add(row: HourlyRow, log: string): readonly Gathering[] {
    const task = accessLogTask(row);
    const time = task.time ?? row.due;
    const name = `${log} ${task.target.partitionedBy === 'EventTime' ? startOfDay(time) : ''}`;
    let gathering = this.#gathered.get(name);
    if (gathering === undefined) {
      gathering = { log, task, time, lines: [], texts: [], bytes: 0 };
      this.#gathered.set(name, gathering);
      this.#memory += memoryOf(name, gathering);
    }
    gathering.lines.push({ due: row.due, id: row.id });
    gathering.texts.push(task.line);
    gathering.bytes += task.line.length + 1;
    this.#memory += task.line.length + 1 + lineBytes;
    if (gathering.bytes >= this.#objectBytes || gathering.lines.length >= batchLinesMax)
      return [this.#close(name, gathering)];
    return this.#memory < this.#memoryMax ? [] : this.#closeLargest();
  }

  /** Closes the largest until a quarter of the memory is free, so that the gatherings are sorted once in many rows. */
  #closeLargest(): readonly Gathering[] {
    const closed: Gathering[] = [];
    const sorted = [...this.#gathered].sort(([, a], [, b]) => b.bytes - a.bytes);
    for (const [name, gathering] of sorted) {
      if (this.#memory <= this.#memoryMax * 0.75) break;
      closed.push(this.#close(name, gathering));
    }
    return closed;
  }

  #close(name: string, gathering: Gathering): Gathering {
    this.#gathered.delete(name);
    this.#memory -= memoryOf(name, gathering);
    return gathering;
  }

  /** All that are left, at the end of an hour. */
  closeAll(): readonly Gathering[] {
    return [...this.#gathered].map(([name, gathering]) => this.#close(name, gathering));
  }
}

const dayMs = 24 * 60 * 60 * 1000;
/** The first moment of the UTC day of a time. */
const startOfDay = (time: number): number => Math.floor(time / dayMs) * dayMs;

/** An account gets as much of a pass in any case. */
const shareMs = 5_000;

/**
 * How long a pass may work for one account, so that others do not wait for all that it has to deliver. An account gets
 * some seconds; in a long pass as much time as the pass has taken for what is no account's, such as reading. So at
 * least half of a long pass is delivery, although the next pass reads again what was left.
 */
class AccountShares {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #beganAt: number;
  readonly #spentMs = new Map<string, number>();
  #allSpentMs = 0;

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
    this.#beganAt = clock.elapsed();
  }

  async run<T>(account: string, work: () => Promise<T>): Promise<T> {
    const beganAt = this.#clock.elapsed();
    try {
      return await work();
    } finally {
      const ms = this.#clock.elapsed() - beganAt;
      this.#allSpentMs += ms;
      this.#spentMs.set(account, (this.#spentMs.get(account) ?? 0) + ms);
    }
  }

  /** Whether no more is to be done for the account. */
  hasHad(account: string): boolean {
    const spentMs = this.#spentMs.get(account) ?? 0;
    return spentMs >= shareMs && spentMs >= this.#clock.elapsed() - this.#beganAt - this.#allSpentMs;
  }
}
