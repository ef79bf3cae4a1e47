/** Compares metadata and data in both directions, a page at a time; reports differences, and repairs them when the mode allows it. */

import type { Context } from '../../context.ts';
import {
  assertLeads,
  beginTerm,
  findSoundTask,
  findTask,
  putTask,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import { bucketSlots, everyBucket, findBucket, nextBucket } from '../../metadata/buckets/buckets.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { undefinedIfDamaged } from '../../metadata/sound-rows.ts';
import { type BucketRow, type objects, tables, type uploadIndex } from '../../metadata/tables.ts';
import { MetadataDamaged, type MetadataFault, type SortOf } from '../../ports/metadata-store.ts';
import { countStored } from '../buckets/class-stats.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { StoredWalk } from './bytes.ts';
import {
  type FsckContext,
  type FsckMode,
  type FsckReport,
  type FsckRun,
  type FsckSummary,
  nothingSeen,
  openRun,
} from './findings.ts';
import { OwnersWalk } from './owners.ts';
import { checkUploads, checkVersions } from './rows.ts';
import { checkUsage } from './usage.ts';

export type { FsckContext, FsckFinding, FsckMode, FsckReport, FsckSummary } from './findings.ts';

/** The position of a run: bucket after bucket, then the owners of all extents, then cluster after cluster. */
type Position =
  | { readonly at: 'metadata' }
  | { readonly at: 'buckets'; readonly slot: number; readonly after?: string }
  | (InBucket & { readonly at: 'versions'; readonly after?: SortOf<typeof objects> })
  | (InBucket & { readonly at: 'uploads'; readonly after?: SortOf<typeof uploadIndex> })
  | (InBucket & { readonly at: 'usage' })
  | { readonly at: 'owners'; readonly before: FsckSummary }
  | InCluster
  | { readonly at: 'done' };
interface InBucket {
  readonly slot: number;
  readonly bucket: string;
}

interface InCluster {
  readonly at: 'stored';
  readonly cluster: string;
  /** The counts when this walk began: after a kill it starts again, and must not count twice. */
  readonly before: FsckSummary;
}

/** The state from which a run resumes after a kill. */
export interface FsckState {
  readonly mode: FsckMode;
  readonly position: Position;
  readonly seen: FsckSummary;
}

/** The walk over the buckets in slots; the walks over owners and stored bytes follow it. */
export const fsckSlots = bucketSlots;
export const countSlotsSeen = ({ position }: FsckState): number =>
  'slot' in position ? position.slot : position.at === 'metadata' ? 0 : fsckSlots;

export const fromTheStart = (mode: FsckMode): FsckState => ({
  mode,
  position: { at: 'metadata' },
  seen: nothingSeen,
});

type Run = ReturnType<typeof openRun>;

const unitExtents = 1_000;
/** Before a repair the metadata is verified again, unless the last verification is younger than this (ms), */
const verifiedMs = 5_000;
/** or than this many times its duration, if that is longer. */
const verifiedTimes = 4;

/**
 * May run beside working gateways: rows that change during their comparison are compared again, and bytes of an open op are left
 * alone. The walk over owners and the walk over the bytes of a cluster start again after a kill; what they repaired stays repaired.
 */
export class Fsck {
  readonly #context: FsckContext;
  readonly #report: FsckReport;
  #state: FsckState;
  #walk: StoredWalk | undefined;
  #owners: OwnersWalk | undefined;
  #verified: { readonly at: number; readonly tookMs: number } | undefined;

  /** @param report called for each finding when it is found */
  constructor(
    context: FsckContext,
    { report, state }: { readonly report: FsckReport; readonly state: FsckState },
  ) {
    this.#context = context;
    this.#report = report;
    this.#state = state;
  }

  get state(): FsckState {
    return this.#state;
  }

  get isDone(): boolean {
    return this.#state.position.at === 'done';
  }

  /** Processes one page. */
  async step(signal: AbortSignal): Promise<void> {
    const { mode, position } = this.#state;
    const seen = this.#isAnew(position) ? position.before : this.#state.seen;
    const verify = (opened: FsckRun) => this.#verify(opened);
    const run = openRun(this.#context, { mode, signal, report: this.#report, seen, verify });
    const next = await this.#passOver(run, position);
    this.#state = { mode, position: next, seen: run.summary() };
  }

  #isAnew(position: Position): position is Extract<Position, { before: FsckSummary }> {
    return (
      (position.at === 'stored' && this.#walk?.cluster !== position.cluster) ||
      (position.at === 'owners' && this.#owners === undefined)
    );
  }

  /** Repeats the verification where the last one is too old: a run takes days, or resumes after a crash that damaged something. */
  async #verify(run: FsckRun): Promise<void> {
    const { clock } = this.#context;
    const began = clock.elapsed();
    const { at, tookMs } = this.#verified ?? { at: Number.NEGATIVE_INFINITY, tookMs: 0 };
    if (began - at < Math.max(verifiedMs, verifiedTimes * tookMs)) return;
    await verifyMetadata(run);
    this.#verified = { at: clock.elapsed(), tookMs: clock.elapsed() - began };
  }

  /** Continues after damaged metadata, which was reported already where the store verifies its own rows. */
  async #passOver(run: Run, position: Position): Promise<Position> {
    try {
      return await this.#pass(run, position);
    } catch (cause) {
      if (!(cause instanceof MetadataDamaged)) throw cause;
      await this.#findDamage(run, cause);
      return this.#behind(run, position);
    }
  }

  async #findDamage(run: Run, { message: detail, table, row }: MetadataDamaged): Promise<void> {
    if (run.summary().findings.metadata === 0) await run.find({ kind: 'metadata', detail, table, row });
  }

  #behind(run: Run, position: Position): Position {
    switch (position.at) {
      case 'metadata':
        return { at: 'buckets', slot: 0 };
      case 'buckets':
        return position.slot + 1 < bucketSlots
          ? { at: 'buckets', slot: position.slot + 1 }
          : this.#owned(run);
      case 'owners':
        return this.#cluster(run, 0);
      case 'stored':
        return this.#cluster(run, run.bytes.clusters.indexOf(position.cluster) + 1);
      case 'done':
        return position;
      default:
        return { at: 'buckets', slot: position.slot, after: position.bucket };
    }
  }

  async #pass(run: Run, position: Position): Promise<Position> {
    switch (position.at) {
      case 'metadata':
        if (run.metadata.verify === undefined) return this.#nextBucket(run, { at: 'buckets', slot: 0 });
        await this.#verify(run);
        return { at: 'buckets', slot: 0 };
      case 'buckets':
        return this.#nextBucket(run, position);
      case 'owners':
        return this.#checkOwners(run, position);
      case 'stored':
        return this.#stored(run, position);
      case 'done':
        return position;
      default: {
        const { slot, bucket } = position;
        const found = await findBucket(run.metadata, bucket);
        if (found === undefined) return { at: 'buckets', slot, after: bucket };
        return inBucket(run, found.row, position);
      }
    }
  }

  async #nextBucket(run: Run, from: Extract<Position, { at: 'buckets' }>): Promise<Position> {
    const damaged: MetadataDamaged[] = [];
    const next = await nextBucket(run.metadata, from, (each) => damaged.push(each));
    for (const each of damaged) await this.#findDamage(run, each);
    if (next === undefined) return this.#owned(run);
    const { slot, name: bucket } = next;
    if ((await findBucket(run.metadata, bucket)) === undefined) return { at: 'buckets', slot, after: bucket };
    run.count('buckets');
    return { at: 'versions', slot, bucket };
  }

  readonly #owned = (run: Run): Position => ({ at: 'owners', before: run.summary() });

  async #checkOwners(run: Run, position: Extract<Position, { at: 'owners' }>): Promise<Position> {
    const walk = this.#owners ?? new OwnersWalk(run, run.summary().named);
    // A walk that failed midway has passed rows without judging them: the next step starts again.
    this.#owners = undefined;
    if (!(await walk.check(run, unitExtents))) return this.#cluster(run, 0);
    this.#owners = walk;
    return position;
  }

  async #stored(run: Run, position: InCluster): Promise<Position> {
    const { cluster } = position;
    const walk = this.#walk?.cluster === cluster ? this.#walk : new StoredWalk(run, cluster);
    // A step that failed half-way has skipped extents: the next one starts again.
    this.#walk = undefined;
    if (await walk.check(run, unitExtents)) {
      this.#walk = walk;
      return position;
    }
    return this.#cluster(run, run.bytes.clusters.indexOf(cluster) + 1);
  }

  #cluster(run: Run, index: number): Position {
    const cluster = run.bytes.clusters[index];
    return cluster === undefined ? { at: 'done' } : { at: 'stored', cluster, before: run.summary() };
  }
}

async function inBucket(
  run: FsckRun,
  row: BucketRow,
  position: Extract<Position, InBucket>,
): Promise<Position> {
  const { slot, bucket } = position;
  if (position.at === 'versions') {
    const after = await checkVersions(run, row, position.after);
    return after === undefined ? { at: 'uploads', slot, bucket } : { at: 'versions', slot, bucket, after };
  }
  if (position.at === 'uploads') {
    const after = await checkUploads(run, row, position.after);
    return after === undefined ? { at: 'usage', slot, bucket } : { at: 'uploads', slot, bucket, after };
  }
  await checkUsage(run, row);
  return { at: 'buckets', slot, after: bucket };
}

export interface FsckOptions {
  readonly mode?: FsckMode;
  readonly signal?: AbortSignal;
}

/** Runs fsck from start to end. */
export async function runFsck(
  context: FsckContext,
  report: FsckReport,
  { mode = { fix: false, drop: false }, signal = new AbortController().signal }: FsckOptions = {},
): Promise<FsckSummary> {
  const fsck = new Fsck(context, { report, state: fromTheStart(mode) });
  while (!fsck.isDone) await fsck.step(signal);
  return fsck.state.seen;
}

// The saved position of an fsck run, from which it resumes after a kill and which the operator API reports.

export interface SavedRun {
  readonly state: FsckState;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
}
/** A run that begins again compares what it has compared, and a repair that was made finds nothing to repair. */
export const fsckRuns: TaskKind<SavedRun> = { kind: 'fsck', restarts: ['worker'] };

/** What the amounts of a run count. */
export const comparedCounts = 'versions and extents';

/** A run reads every version, then every extent that is stored. */
const examinedAmount = ({ seen }: FsckState): TaskAmount => ({ count: seen.versions + seen.stored });

const measureRun = ({ state, startedAt, finishedAt }: SavedRun): Measure => ({
  startedAt,
  finishedAt,
  done: examinedAmount(state),
});

/** By the last count of all buckets: as many extents as versions are assumed. */
export async function leftToCompare(
  ctx: Pick<Context, 'metadata'>,
  { seen: { versions, stored } }: FsckState,
): Promise<TaskAmount | undefined> {
  const reserved = await countStored(ctx);
  return reserved && { count: Math.max(0, reserved.count - versions) + Math.max(0, reserved.count - stored) };
}

/** What a run has compared and has left; `left` is absent where the count of all buckets cannot be read, or does not exist yet. */
export async function comparedAmounts(ctx: Pick<Context, 'metadata'>, state: FsckState) {
  const left = await leftToCompare(ctx, state).catch(undefinedIfDamaged);
  return { done: examinedAmount(state), ...(left === undefined ? {} : { left }) };
}

/** The background's run, and that of the command. */
type RunName = 'worker' | 'command';

export const savedRun = async (
  { metadata }: Pick<Context, 'metadata'>,
  name: RunName,
): Promise<SavedRun | undefined> => (await findTask(metadata, fsckRuns, name))?.state;

/** After it returns, no earlier leader of the worker can save its run. @throws LeaseLost */
export const beginComparing = ({ metadata }: Pick<Context, 'metadata'>, generation: number): Promise<Term> =>
  beginTerm(metadata, fsckRuns, generation);

/**
 * Of two concurrent saves one is lost, which costs repeated work only.
 * @throws LeaseLost when a later leader of the worker has begun, because its run is ahead of this one
 */
export async function saveRun(
  { metadata }: Pick<Context, 'metadata'>,
  name: RunName,
  { term, ...state }: SavedRun & { readonly term?: Term | undefined },
): Promise<void> {
  const found = await findSoundTask(metadata, fsckRuns, name);
  const expect = found?.revision ?? 'absent';
  const progress = advanceProgress(found?.progress, measureRun(state), await metadata.now());
  const outcome = await putTask(metadata, fsckRuns, { name, state, progress, expect, term });
  if (!outcome.applied && term !== undefined) await assertLeads(metadata, fsckRuns, term);
}

// fsck on the metadata itself: reads every row and compares it with its checksum, before the other checks use the rows.

/** The largest number of reported faults. An overwritten file may have one for each row. */
const reportedMax = 10_000;

async function verifyMetadata(run: FsckRun): Promise<void> {
  const faults: MetadataFault[] = [];
  for await (const found of run.metadata.verify?.(Object.values(tables)) ?? []) {
    run.signal.throwIfAborted();
    faults.push(...found.slice(0, reportedMax - faults.length));
  }
  if (faults.length === 0) return;
  const names = await bucketNames(run);
  for (const { detail, table, row, columns } of faults) {
    const bucket = names.get(String(columns?.['bucketId'] ?? ''));
    const key = columns?.['key'];
    await run.find({
      kind: 'metadata',
      detail,
      ...(table === undefined ? {} : { table }),
      ...(row === undefined ? {} : { row }),
      ...(bucket === undefined ? {} : { bucket }),
      ...(typeof key === 'string' ? { key } : {}),
    });
  }
}

/** The names of the buckets by their ids, as far as their own rows can be read. */
async function bucketNames({ metadata }: FsckRun): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  try {
    for await (const name of everyBucket(metadata)) {
      const found = await findBucket(metadata, name).catch(undefinedIfDamaged);
      if (found !== undefined) names.set(found.row.id, name);
    }
  } catch (cause) {
    undefinedIfDamaged(cause);
  }
  return names;
}
