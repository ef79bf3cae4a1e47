/**
 * Delivers the lines of the queue `access-log` in one pass: first the batches that an earlier run left, then everything that was queued
 * before the pass began, in batches of one bucket and target. Lines that cannot be delivered stay in the queue until its retention.
 */
import type { Config } from '../../config.ts';
import { dueRowsOfHour, listDueHours } from '../../metadata/background/hourly-consumer.ts';
import type { HourlyQueue } from '../../metadata/background/hourly-queues.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import {
  batchLinesMax,
  type LogBatch,
  type LogLine,
  leftBatches,
  readBatch,
  storeBatch,
  taskOf,
} from '../../metadata/background/log-batches.ts';
import type { AccessLogTask, HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import { drawId } from '../common/ids.ts';
import {
  type Ctx as BatchCtx,
  type Delivering,
  dayOf,
  deliverBatch,
  drawLogKey,
  findLogTarget,
  type Lines,
} from './access-log-batch.ts';
import type { KeptFor } from './access-log-lines.ts';

export type Ctx = BatchCtx & { readonly config: Pick<Config, 'SVC_ACCESSLOG_OBJECT_SIZE' | 'SVC_REGION'> };

const queue: HourlyQueue = 'access-log';
/** Lines in memory, of all targets together; above this the largest batch is written early. */
const heldMax = 16 * 1024 * 1024;
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

export async function deliverLogs(ctx: Ctx, { term, signal, pause }: Delivery): Promise<void> {
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

async function deliverHour(ctx: Ctx, pass: Pass, place: QueueHour): Promise<void> {
  const { config } = ctx;
  const gathered = new Map<string, Gathering>();
  let held = 0;
  let count = 0;
  const flush = async (name: string, gathering: Gathering): Promise<void> => {
    gathered.delete(name);
    held -= memoryOf(gathering);
    if (!pass.left.has(gathering.log)) await deliverGathered(ctx, pass, { place, gathering });
  };
  for await (const row of dueRowsOfHour(ctx, place, { now: pass.now })) {
    if (++count % turnLines === 0) await pass.pause();
    pass.signal.throwIfAborted();
    const log = nameLog(taskOf(row));
    if (pass.left.has(log)) continue;
    const time = taskOf(row).time ?? row.due;
    const name = `${log} ${taskOf(row).target.partitionedBy === 'EventTime' ? dayOf(time) : ''}`;
    const gathering = gathered.get(name) ?? startGathering(row, { log, time });
    gathered.set(name, gathering);
    held += gather(gathering, row);
    if (gathering.bytes >= config.SVC_ACCESSLOG_OBJECT_SIZE || gathering.lines.length >= batchLinesMax)
      await flush(name, gathering);
    else if (held >= heldMax) {
      const [largest] = [...gathered].sort(([, a], [, b]) => memoryOf(b) - memoryOf(a));
      if (largest !== undefined) await flush(...largest);
    }
  }
  for (const [name, gathering] of [...gathered]) await flush(name, gathering);
}

const startGathering = (
  row: HourlyRow,
  { log, time }: { readonly log: string; readonly time: number },
): Gathering => ({ log, task: taskOf(row), time, lines: [], texts: [], bytes: 0 });

const memoryOf = ({ bytes, lines }: Gathering): number => bytes + lines.length * lineBytes;

/** @returns the memory that it takes, in bytes */
function gather(gathering: Gathering, row: HourlyRow): number {
  const { line } = taskOf(row);
  gathering.lines.push({ due: row.due, id: row.id });
  gathering.texts.push(line);
  gathering.bytes += line.length + 1;
  return line.length + 1 + lineBytes;
}

async function deliverGathered(
  ctx: Ctx,
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
  const kept = await whyKept(ctx, pass, batch);
  if (kept !== undefined) return keep(ctx, pass, { batch, log, ...kept });
  await storeBatch(ctx.metadata, batch, { lines, term: pass.term });
  await deliver(ctx, pass, { batch, log, lines: async () => texts });
}

/** A target whose rows cannot be read keeps the lines of its own buckets only. @returns undefined where the target takes them */
async function whyKept(
  ctx: Ctx,
  { signal }: Pass,
  batch: LogBatch,
): Promise<{ readonly why: KeptFor; readonly cause?: unknown } | undefined> {
  try {
    const found = await findLogTarget(ctx, batch);
    return typeof found === 'string' ? { why: found } : undefined;
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { why: 'error', cause };
  }
}

async function deliver(
  ctx: Ctx,
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
  { telemetry }: Ctx,
  { left }: Pass,
  {
    batch,
    log,
    why,
    cause,
  }: {
    readonly batch: LogBatch;
    readonly log: string;
    readonly why: KeptFor;
    readonly cause?: unknown;
  },
): void {
  left.add(log);
  telemetry.accessLogKept(why);
  telemetry.log('WARN', 'access log lines are kept, because their target bucket does not take them', {
    bucket: batch.bucket,
    target: batch.target.bucket,
    prefix: batch.target.prefix,
    why,
    hint: hints[why],
    ...(cause === undefined ? {} : { cause }),
  });
}

const hints: Readonly<Record<KeptFor, string>> = {
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
