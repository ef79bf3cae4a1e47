/** The saved position and findings of the scrub, from which it resumes after a kill and which the operator API reports. */
import type { Context } from '../../context.ts';
import {
  assertLeads,
  beginTerm,
  everyTask,
  findSoundTask,
  findTask,
  putTasks,
  type Task,
  type TaskChange,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import type { objects, uploadIndex } from '../../metadata/tables.ts';
import type { SortOf } from '../../ports/metadata-store.ts';
import { countStored } from '../buckets/class-stats.ts';
import { advanceProgress, amountLeft, type Measure } from '../common/task-progress.ts';

type Ctx = Pick<Context, 'metadata'>;

/** One partition, so that a pass and its findings are saved in one commit. */
const kind = 'scrub';
export const runName = 'run';
/** A pass that begins again reads contents once more, and lists none twice: a listed one has a row by its name. */
export const scrubRuns: TaskKind<ScrubRun> = { kind, restarts: [runName] };
const contents: TaskKind<ScrubRun | DamagedContent> = { kind };

const prefix = 'damaged/';

/** Damaged versions and parts that are listed by name; more are only counted. */
export const listedMax = 1_000;
/** Rows that leave the list in one commit. */
const removedAtOnce = 32;

/** After it returns, no earlier leader can save anything. @throws LeaseLost */
export const beginScrubbing = ({ metadata }: Ctx, generation: number): Promise<Term> =>
  beginTerm(metadata, scrubRuns, generation);

export const savedScrub = ({ metadata }: Ctx): Promise<Task<ScrubRun> | undefined> =>
  findTask(metadata, scrubRuns, runName);

export const nextRun = (former: ScrubRun | undefined, now: number): ScrubRun => ({
  firstAt: former?.firstAt ?? now,
  ...(former?.completeFrom === undefined ? {} : { completeFrom: former.completeFrom }),
  lastDamaged: former?.seen.damaged ?? 0,
  listed: former?.listed ?? 0,
  startedAt: now,
  position: { at: 'buckets', slot: 0 },
  seen: nothingRead,
});

const scrubbedAmount = ({ versions, parts, bytes }: ScrubRun['seen']) => ({ count: versions + parts, bytes });

const measureScrub = ({ startedAt, finishedAt, seen }: ScrubRun): Measure => ({
  startedAt,
  finishedAt,
  done: scrubbedAmount(seen),
});

/** By the last count of all buckets. */
export async function leftToScrub(
  ctx: Ctx,
  { state: { seen } }: Pick<Task<ScrubRun>, 'state'>,
): Promise<TaskAmount | undefined> {
  const stored = await countStored(ctx);
  return stored && amountLeft(stored, scrubbedAmount(seen));
}

interface SavedStep {
  readonly run: ScrubRun;
  readonly damaged?: ReadonlyMap<string, DamagedContent>;
  /** The task that the step began with. */
  readonly former: Task<ScrubRun> | undefined;
  readonly term?: Term;
}

/**
 * @returns the contents that were not listed before; undefined when another pass began meanwhile, and nothing is saved
 * @throws LeaseLost when a later leader has begun
 */
export async function saveStep(
  { metadata }: Ctx,
  { run, damaged = new Map(), former, term }: SavedStep,
): Promise<readonly DamagedContent[] | undefined> {
  const changes: TaskChange<ScrubRun | DamagedContent>[] = [];
  const added: DamagedContent[] = [];
  for (const [name, found] of damaged) {
    const known = await findSoundTask(metadata, contents, prefix + name);
    if (known === undefined && run.listed + added.length >= listedMax) continue;
    const { foundAt } = (known?.state ?? found) as DamagedContent;
    if (known === undefined) added.push(found);
    const put = { name: prefix + name, state: { ...found, foundAt } };
    changes.push({ put, expect: known?.revision ?? 'absent' });
  }
  const state = { ...run, listed: run.listed + added.length };
  const progress = advanceProgress(former?.progress, measureScrub(state), await metadata.now());
  changes.push({ put: { name: runName, state, progress }, expect: former?.revision ?? 'absent' });
  const outcome = await putTasks(metadata, contents, { changes, term });
  if (outcome.applied) return added;
  if (term !== undefined) await assertLeads(metadata, scrubRuns, term);
  return undefined;
}

/** The contents that are known to be damaged. */
export async function* damagedContents({ metadata }: Ctx): AsyncGenerator<Task<DamagedContent>> {
  for await (const { name, state, revision } of everyTask(metadata, contents))
    if (name.startsWith(prefix)) yield { name, state: state as DamagedContent, revision };
}

/** After a complete pass, removes the contents from the list that the pass did not find damaged. @returns the number that is left */
export async function forgetSound({ metadata }: Ctx, { startedAt }: ScrubRun, term: Term): Promise<number> {
  let left = 0;
  let gone: TaskChange<DamagedContent>[] = [];
  const remove = async (): Promise<void> => {
    if (gone.length === 0) return;
    const outcome = await putTasks(metadata, contents, { changes: gone, term });
    if (!outcome.applied) await assertLeads(metadata, scrubRuns, term);
    gone = [];
  };
  for await (const { name, state, revision } of damagedContents({ metadata })) {
    if (state.pass >= startedAt) left += 1;
    else gone.push({ remove: { name }, expect: revision });
    if (gone.length === removedAtOnce) await remove();
  }
  await remove();
  return left;
}

// The state of the scrub: its position, its counts, and the damaged contents.

type VersionPlace = SortOf<typeof objects>;
type UploadPlace = SortOf<typeof uploadIndex>;

interface InBucket {
  readonly slot: number;
  readonly bucket: string;
}

/** The position in the stored bytes of one version or part. */
export interface Within {
  readonly read: number;
  /** Chunks of it that were found damaged in this pass. */
  readonly damagedChunks: number;
}

/** If the version at the place is no longer `version`, a client has written another one since the scrub began to read it. */
interface WithinVersion extends Within {
  readonly place: VersionPlace;
  readonly version: string;
}

export interface WithinUpload extends Within {
  readonly place: UploadPlace;
  readonly part: number;
}

/**
 * Uploads of a bucket come before its versions: the parts of an upload that is completed meanwhile were read already, or are read
 * with its version. A version that becomes the head again before the cursor is read by the next pass.
 */
export type ScrubPosition =
  | { readonly at: 'buckets'; readonly slot: number; readonly after?: string }
  | (InBucket & { readonly at: 'uploads'; readonly after?: UploadPlace; readonly within?: WithinUpload })
  | (InBucket & { readonly at: 'versions'; readonly after?: VersionPlace; readonly within?: WithinVersion })
  | { readonly at: 'done' };

const counters = ['versions', 'parts', 'chunks', 'bytes', 'damaged', 'unread'] as const;

/**
 * `versions` and `parts` of open uploads that were visited; `chunks` that were read to their end, and `bytes`; `damaged`
 * versions and parts have a chunk that is damaged or missing; `unread` ones, or rows and buckets, could not be read now.
 */
export type ScrubCounts = Readonly<Record<(typeof counters)[number], number>>;

const nothingRead = Object.fromEntries(counters.map((name) => [name, 0])) as ScrubCounts;

/** Times are the store's, in ms. */
export interface ScrubRun {
  /** When a scrub first ran on this installation. */
  readonly firstAt: number;
  /** When the last pass began that read everything. */
  readonly completeFrom?: number;
  /** Damaged versions and parts of the last pass that ended. */
  readonly lastDamaged: number;
  /** Rows in the list of damaged ones. */
  readonly listed: number;
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly position: ScrubPosition;
  readonly seen: ScrubCounts;
}

/** A version, or a part of an open upload, with a chunk whose read failed or returned other bytes than were stored. */
export interface DamagedContent {
  readonly kind: 'damaged' | 'missing';
  /** The error of the first such chunk. */
  readonly detail: string;
  readonly cluster: string;
  readonly extent: string;
  readonly bucket: string;
  readonly bucketId: string;
  readonly key: string;
  readonly version?: string;
  readonly uploadId?: string;
  readonly part?: number;
  /** How many such chunks the latest pass found in it. */
  readonly chunks: number;
  readonly foundAt: number;
  /** When the pass began that found it last. */
  readonly pass: number;
}

/** Damaged versions and parts known now: those of the last pass, until this pass has found more. */
export const knownDamaged = ({ finishedAt, seen, lastDamaged }: ScrubRun): number =>
  finishedAt === undefined ? Math.max(seen.damaged, lastDamaged) : seen.damaged;

/**
 * How long ago the last complete pass began: every byte that was stored before that time has been read since. Before the first complete
 * pass, how long ago the first pass began.
 */
export const oldestUncheckedMs = ({ completeFrom, firstAt }: ScrubRun, now: number): number =>
  Math.max(0, now - (completeFrom ?? firstAt));
