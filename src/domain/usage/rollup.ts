/**
 * The usage rollup (spec, "Usage rollup worker"): samples the counters of all buckets, and writes the usage of each bucket and storage
 * class once a UTC day has ended. Each step does one page and commits it together with the progress, so a kill repeats nothing.
 */

import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import { findTask, pageTasks, type TaskChange } from '../../metadata/background/tasks.ts';
import { bucketSlots, bucketsInSlot, findBucket } from '../../metadata/buckets/buckets.ts';
import { closeBucketDay, readUsage } from '../../metadata/buckets/usage.ts';
import type { DayUsageRow } from '../../metadata/records/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { passOverDamage } from '../common/damaged-buckets.ts';
import {
  addMissed,
  advance,
  type BucketPosition,
  countDays,
  countersName,
  nextOnGrid,
  nextToClose,
  type Saved,
  sampledDay,
  samplesKind,
  samplesName,
  samplesPrefix,
  toSchedule,
} from './progress.ts';
import {
  addBucketSample,
  type BucketSamples,
  closeDay,
  type DayUsage,
  flatDay,
  isEmptyDay,
} from './samples.ts';
import { addDays, startOfDay } from './traffic-counter.ts';

type Ctx = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

const notSampled = 'the usage of a bucket is not sampled';
const notRead = 'a bucket is billed for what it holds at the end of the day';
/** Buckets whose samples are one commit. */
const pageBuckets = 16;
const readsMax = 4;

/** Does one page of what is due. `busy` when there may be more. */
export async function stepRollup(
  ctx: Ctx,
  saved: Saved,
): Promise<{ readonly saved: Saved; readonly isBusy: boolean }> {
  const { progress } = saved;
  if (progress.pass !== undefined) return { saved: await samplePage(ctx, saved), isBusy: true };
  if (progress.closing !== undefined) return { saved: await closePage(ctx, saved), isBusy: true };
  const now = await ctx.metadata.now();
  const { tickMs, sampleMs, atMs } = toSchedule(ctx.config);
  // A time that is further away than the next one of the schedule is left from other settings, or from a clock that was set back.
  const nextTick = nextOnGrid(now, atMs, tickMs);
  const nextSample = nextOnGrid(now, atMs, sampleMs);
  if (now >= Math.min(progress.nextTickAt, nextTick)) return beginTick(ctx, saved, { now, nextTick });
  if (now >= Math.min(progress.nextSampleAt, nextSample)) {
    const day = sampledDay(now, progress);
    const pass = { day, number: (progress.days[day] ?? 0) + 1, slot: 0 };
    return {
      saved: await advance(ctx.metadata, saved, { ...progress, pass, nextSampleAt: nextSample }),
      isBusy: true,
    };
  }
  if (progress.nextTickAt <= nextTick && progress.nextSampleAt <= nextSample) return { saved, isBusy: false };
  const nextTickAt = Math.min(progress.nextTickAt, nextTick);
  const nextSampleAt = Math.min(progress.nextSampleAt, nextSample);
  return {
    saved: await advance(ctx.metadata, saved, { ...progress, nextTickAt, nextSampleAt }),
    isBusy: false,
  };
}

async function beginTick(
  ctx: Ctx,
  saved: Saved,
  { now, nextTick }: { readonly now: number; readonly nextTick: number },
): Promise<{ readonly saved: Saved; readonly isBusy: boolean }> {
  const { progress } = saved;
  const found = nextToClose(now, progress);
  if (found === undefined)
    return { saved: await advance(ctx.metadata, saved, { ...progress, nextTickAt: nextTick }), isBusy: true };
  const { day, missed } = found;
  if (missed !== undefined)
    ctx.telemetry.log('WARN', 'no usage is known of days on which no usage-rollup worker ran', {
      ...missed,
      days: countDays(missed),
    });
  const next = {
    ...progress,
    closing: { day, unsampled: { slot: 0 } },
    missed: addMissed(progress.missed, missed),
  };
  return { saved: await advance(ctx.metadata, saved, next), isBusy: true };
}

/** The next buckets in a walk over all, and where it continues; `next` is undefined at the end. */
async function readBuckets(
  { metadata, telemetry }: Ctx,
  { slot, after }: BucketPosition,
): Promise<{ readonly buckets: readonly BucketRow[]; readonly next: BucketPosition | undefined }> {
  const names: string[] = [];
  for await (const name of bucketsInSlot(
    metadata,
    slot,
    after === undefined ? {} : { after: { name: after } },
  )) {
    names.push(name);
    if (names.length === pageBuckets) break;
  }
  const found = await inParallel(readsMax, names, (bucket) =>
    passOverDamage({ telemetry }, { bucket, left: notSampled, run: () => findBucket(metadata, bucket) }),
  );
  const buckets = found.flatMap((each) => (each === undefined ? [] : [each.row]));
  if (names.length === pageBuckets) return { buckets, next: { slot, after: names.at(-1) } };
  return { buckets, next: slot + 1 < bucketSlots ? { slot: slot + 1 } : undefined };
}

async function samplePage(ctx: Ctx, saved: Saved): Promise<Saved> {
  const { metadata } = ctx;
  const { pass, ...progress } = saved.progress;
  if (pass === undefined) return saved;
  const { day, number } = pass;
  const { buckets, next } = await readBuckets(ctx, pass);
  const sampled = await inParallel(readsMax, buckets, (bucket) =>
    passOverDamage(ctx, {
      bucket: bucket.name,
      left: notSampled,
      run: () => sampleBucket(ctx, bucket, { day, number }),
    }),
  );
  const changes = sampled.filter((change) => change !== undefined);
  if (next !== undefined)
    return advance(metadata, saved, { ...progress, pass: { day, number, ...next } }, changes);
  return advance(metadata, saved, { ...progress, days: { ...progress.days, [day]: number } }, changes);
}

/** @throws MetadataDamaged where the samples before cannot be read, and so not be added to */
async function sampleBucket(
  ctx: Ctx,
  { id, name: bucket, owner }: BucketRow,
  { day, number }: { readonly day: string; readonly number: number },
): Promise<TaskChange<BucketSamples>> {
  const { metadata } = ctx;
  const name = samplesName(day, id);
  const before = await findTask(metadata, samplesKind, name);
  const run = () => readUsage(metadata, id);
  const counted = await passOverDamage(ctx, { bucket, left: notSampled, run });
  // A bucket that exists is not billed as one that held nothing, where its counters cannot be read.
  const sampled =
    counted === undefined
      ? { first: number, count: 0, classes: {}, ...before?.state }
      : addBucketSample(before?.state, { pass: number, counted });
  const state = { ...sampled, bucketId: id, bucket, owner, seen: number };
  return { put: { name, state }, expect: before?.revision ?? 'absent' };
}

async function closePage(ctx: Ctx, saved: Saved): Promise<Saved> {
  const { closing } = saved.progress;
  if (closing === undefined) return saved;
  const { day, unsampled } = closing;
  return unsampled === undefined
    ? closeSampled(ctx, saved, day)
    : closeUnsampled(ctx, saved, { day, at: unsampled });
}

/**
 * The specification: a bucket without a sample is billed for what it holds at the tick. So is one whose samples cannot be read.
 * Its counters are stored together with the progress. So each leader that closes the day computes the same rows, and one that
 * was paused beyond its lease stores none of its own.
 */
async function closeUnsampled(
  ctx: Ctx,
  saved: Saved,
  { day, at }: { readonly day: string; readonly at: BucketPosition },
): Promise<Saved> {
  const end = startOfDay(addDays(day, 1));
  const { buckets, next } = await readBuckets(ctx, at);
  const passes = saved.progress.days[day] ?? 0;
  const counted = await inParallel(readsMax, buckets, async (bucket) =>
    bucket.created >= end ? undefined : countUnsampled(ctx, bucket, { day, passes }),
  );
  const closing = next === undefined ? { day } : { day, unsampled: next };
  const changes = counted.filter((change) => change !== undefined);
  return advance(ctx.metadata, saved, { ...saved.progress, closing }, changes);
}

/** The counters of a bucket that has no samples of the day; undefined for one that has some, or holds nothing. */
async function countUnsampled(
  ctx: Ctx,
  { id: bucketId, name: bucket, owner }: BucketRow,
  { day, passes }: { readonly day: string; readonly passes: number },
): Promise<TaskChange<BucketSamples> | undefined> {
  const { metadata } = ctx;
  const samples = await passOverDamage(ctx, {
    bucket,
    left: notRead,
    run: () => findTask(metadata, samplesKind, samplesName(day, bucketId)),
  });
  if (samples !== undefined) return undefined;
  const left = 'the usage of a bucket without a sample is not billed';
  const name = countersName(day, bucketId);
  const run = async () =>
    (await findTask(metadata, samplesKind, name)) === undefined ? readUsage(metadata, bucketId) : undefined;
  const counted = await passOverDamage(ctx, { bucket, left, run });
  if (counted === undefined || counted.size === 0) return undefined;
  const sample = addBucketSample(undefined, { pass: 1, counted });
  const state = { ...sample, bucketId, bucket, owner, seen: passes, isUnsampled: true } as const;
  return { put: { name, state }, expect: 'absent' };
}

async function closeSampled({ metadata }: Ctx, saved: Saved, day: string): Promise<Saved> {
  const { closing: _, ...progress } = saved.progress;
  const passes = progress.days[day] ?? 0;
  const computedAt = await metadata.now();
  const page = await pageTasks(metadata, samplesKind, { prefix: samplesPrefix(day), limit: pageBuckets });
  await inParallel(readsMax, page, async ({ state }) => {
    const absence = { before: (state.first ?? 1) - 1, after: passes - state.seen };
    const days = Object.entries(state.classes).map(([storageClass, samples]) => ({
      storageClass,
      usage:
        state.isUnsampled === true
          ? flatDay({ bytes: samples.lastBytes, objects: samples.objects }, 0)
          : closeDay(samples, absence),
    }));
    await closeBucketDay(metadata, state.bucketId, toRows(state, { day, days, computedAt }));
  });
  const removals = page.map(({ name, revision }) => ({ remove: { name }, expect: revision }));
  if (page.length === pageBuckets) return advance(metadata, saved, saved.progress, removals);
  const { [day]: __, ...days } = progress.days;
  return advance(metadata, saved, { ...progress, days, closedThrough: day }, removals);
}

function toRows(
  { bucketId, bucket, owner }: Pick<BucketSamples, 'bucketId' | 'bucket' | 'owner'>,
  {
    day,
    days,
    computedAt,
  }: {
    readonly day: string;
    readonly days: readonly { readonly storageClass: string; readonly usage: DayUsage }[];
    readonly computedAt: number;
  },
): readonly DayUsageRow[] {
  return days
    .filter(({ usage }) => !isEmptyDay(usage))
    .map(({ storageClass, usage }) => ({ bucketId, bucket, owner, day, storageClass, ...usage, computedAt }));
}
