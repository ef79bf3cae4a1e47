/** The stored progress of the usage rollup, and when its passes and ticks are due. */

import { LeaseLost } from '../../metadata/background/leases.ts';
import {
  assertLeads,
  beginTerm,
  everyTask,
  findSoundTask,
  findTask,
  putTasks,
  type TaskChange,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import type { MetadataStore, Revision } from '../../ports/metadata-store.ts';
import type { BucketSamples } from './samples.ts';
import { addDays, dayMs, startOfDay, toDay } from './traffic-counter.ts';

/** A position in the walk over all buckets. */
export interface BucketPosition {
  readonly slot: number;
  readonly after?: string | undefined;
}

export interface RollupProgress {
  /** The last day that is closed: it takes no more samples. */
  readonly closedThrough: string;
  /** The days that have samples and are not closed, and how many passes each has. */
  readonly days: Readonly<Record<string, number>>;
  readonly nextSampleAt: number;
  readonly nextTickAt: number;
  /** The pass that is in progress, which takes a sample of every bucket. */
  readonly pass?: BucketPosition & { readonly day: string; readonly number: number };
  /** The day that is being closed: first the buckets without a sample, then the samples of all others. */
  readonly closing?: { readonly day: string; readonly unsampled?: BucketPosition; readonly after?: string };
  /** The latest days of which nothing is known, because no worker ran: a day, or `first/last`. */
  readonly missed: readonly string[];
  /** The day on which a worker first ran; absent in rows of earlier versions. */
  readonly since?: string;
}

type RollupState = RollupProgress | BucketSamples;
/**
 * The progress, and the samples of each bucket and day that is not closed: one partition, so that a page and the
 * progress are one commit.
 */
const rollupTasks: TaskKind<RollupState> = { kind: 'usage-rollup' };
export const samplesKind: TaskKind<BucketSamples> = rollupTasks as TaskKind<BucketSamples>;
const progressName = 'progress';
export const samplesPrefix = (day: string): string => `${day} `;
export const samplesName = (day: string, bucketId: string): string => samplesPrefix(day) + bucketId;
/** The counters of a bucket without a sample, as the leader that closes the day has read them. */
export const countersName = (day: string, bucketId: string): string =>
  `${samplesName(day, bucketId)} counters`;

/** The progress as the leader holds it, with the proof that it may replace it. */
export interface Saved {
  readonly term: Term;
  readonly progress: RollupProgress;
  readonly revision: 'absent' | Revision;
}

export const findProgress = async (
  metadata: Pick<MetadataStore, 'get'>,
): Promise<RollupProgress | undefined> =>
  (await findTask(metadata, rollupTasks as TaskKind<RollupProgress>, progressName))?.state;

/** Begins the term of a leader. The first leader ever begins with the present day. @throws LeaseLost */
export async function holdProgress(metadata: MetadataStore, generation: number): Promise<Saved> {
  const term = await beginTerm(metadata, rollupTasks, generation);
  const now = await metadata.now();
  const kind = rollupTasks as TaskKind<RollupProgress>;
  const found = await findSoundTask(metadata, kind, progressName, () => rebuildProgress(metadata, now));
  const first: RollupProgress = {
    closedThrough: addDays(toDay(now), -1),
    days: {},
    nextSampleAt: now,
    nextTickAt: now,
    missed: [],
    since: toDay(now),
  };
  return { term, progress: found?.state ?? first, revision: found?.revision ?? 'absent' };
}

/**
 * The progress by the samples, where its row is damaged: samples are removed as their day is closed, so a day that has some is not closed.
 * Closing it again changes nothing that is billed (`closeBucketDay`), except for a bucket that was empty that day, where the row is damaged
 * while the day is being closed. The days on which no worker ran, and the first day of a worker, are lost.
 */
async function rebuildProgress(metadata: Pick<MetadataStore, 'scan'>, now: number): Promise<RollupProgress> {
  const days: Record<string, number> = {};
  for await (const { name, state } of everyTask(metadata, samplesKind)) {
    const [day = '', bucketId] = name.split(' ');
    if (bucketId !== undefined) days[day] = Math.max(days[day] ?? 0, state.seen);
  }
  const [first = toDay(now)] = Object.keys(days).sort();
  return { closedThrough: addDays(first, -1), days, nextSampleAt: now, nextTickAt: now, missed: [] };
}

/** Replaces the progress together with samples. @throws LeaseLost when a later leader has begun */
export async function advance(
  metadata: MetadataStore,
  { term, revision }: Saved,
  progress: RollupProgress,
  changes: readonly TaskChange<BucketSamples>[] = [],
): Promise<Saved> {
  const put: TaskChange<RollupState> = { put: { name: progressName, state: progress }, expect: revision };
  const outcome = await putTasks(metadata, rollupTasks, { changes: [put, ...changes], term });
  if (outcome.applied) return { term, progress, revision: outcome.revision };
  await assertLeads(metadata, rollupTasks, term);
  // No other process writes these rows: a commit of this leader whose outcome was unknown has applied.
  throw new LeaseLost(rollupTasks.kind, term.generation);
}

export interface Schedule {
  readonly tickMs: number;
  readonly sampleMs: number;
  /** The time of day of a tick, in ms. */
  readonly atMs: number;
}

export function toSchedule(config: {
  readonly SVC_USAGE_ROLLUP_AT: string;
  readonly SVC_USAGE_ROLLUP_INTERVAL: number;
  readonly SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: number;
}): Schedule {
  const [hours = 0, minutes = 0] = config.SVC_USAGE_ROLLUP_AT.split(':').map(Number);
  const tickMs = config.SVC_USAGE_ROLLUP_INTERVAL;
  return {
    tickMs,
    sampleMs: Math.max(1, Math.floor(tickMs / config.SVC_USAGE_ROLLUP_SAMPLES_PER_DAY)),
    atMs: (hours * 60 + minutes) * 60_000,
  };
}

/** The first time after `now` on the grid that `atMs` and `everyMs` span. */
export const nextOnGrid = (now: number, atMs: number, everyMs: number): number =>
  atMs + (Math.floor((now - atMs) / everyMs) + 1) * everyMs;

/** The day that a sample of now belongs to. Where the clock was set back into a closed day: the first open one. */
export function sampledDay(now: number, { closedThrough }: RollupProgress): string {
  const today = toDay(now);
  return today > closedThrough ? today : addDays(closedThrough, 1);
}

/** The first and the last of several days. */
export interface DaySpan {
  readonly first: string;
  readonly last: string;
}

export const countDays = ({ first, last }: DaySpan): number =>
  (startOfDay(last) - startOfDay(first)) / dayMs + 1;

/** The oldest day that has ended and can be closed, and the days before it of which nothing is known. */
export function nextToClose(
  now: number,
  { closedThrough, days }: RollupProgress,
): { readonly day: string; readonly missed?: DaySpan } | undefined {
  const yesterday = addDays(toDay(now), -1);
  const first = addDays(closedThrough, 1);
  if (first > yesterday) return undefined;
  const sampled = Object.keys(days).filter((day) => day >= first && day < yesterday);
  // The specification bills the day before the tick by the present counters, even if it has no sample.
  const day = sampled.toSorted()[0] ?? yesterday;
  return day === first ? { day } : { day, missed: { first, last: addDays(day, -1) } };
}

/** Spans of missed days that are remembered. */
const missedMax = 400;

export const addMissed = (before: readonly string[], span: DaySpan | undefined): readonly string[] =>
  span === undefined ? before : [...before, `${span.first}/${span.last}`].slice(-missedMax);

export const isMissed = ({ missed }: RollupProgress, day: string): boolean =>
  missed.some((span) => {
    const [first = '', last = first] = span.split('/');
    return day >= first && day <= last;
  });
