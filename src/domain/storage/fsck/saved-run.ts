/** The saved position of an fsck run, from which it resumes after a kill and which the operator API reports. */
import type { Context } from '../../../context.ts';
import {
  assertLeads,
  beginTerm,
  findTask,
  putTask,
  type TaskKind,
  type Term,
} from '../../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../../metadata/records/tasks.ts';
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import { countHeld } from '../../buckets/class-stats.ts';
import { advanceProgress, type Measure } from '../../tasks/progress.ts';
import type { FsckState } from './fsck.ts';

export interface SavedRun {
  readonly state: FsckState;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
}
export const fsckRuns: TaskKind<SavedRun> = { kind: 'fsck' };

/** What the amounts of a run count. */
export const comparedCounts = 'versions and extents';

/** A run reads every version, then every extent that is stored. */
const doneOf = ({ seen }: FsckState): TaskAmount => ({ count: seen.versions + seen.stored });

const measureRun = ({ state, startedAt, finishedAt }: SavedRun): Measure => ({
  startedAt,
  finishedAt,
  done: doneOf(state),
});

/** By the last count of all buckets: as many extents as versions are assumed. */
export async function leftToCompare(
  ctx: Pick<Context, 'metadata'>,
  { seen: { versions, stored } }: FsckState,
): Promise<TaskAmount | undefined> {
  const held = await countHeld(ctx);
  return held && { count: Math.max(0, held.count - versions) + Math.max(0, held.count - stored) };
}

/** What a run has compared and has left; `left` is absent where the count of all buckets cannot be read, or does not exist yet. */
export async function comparedAmounts(ctx: Pick<Context, 'metadata'>, state: FsckState) {
  const left = await leftToCompare(ctx, state).catch((cause: unknown) => {
    if (!(cause instanceof MetadataDamaged)) throw cause;
  });
  return { done: doneOf(state), ...(left === undefined ? {} : { left }) };
}

/** The background's run, and that of the command. */
export type RunName = 'worker' | 'command';

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
  const found = await findTask(metadata, fsckRuns, name);
  const expect = found?.revision ?? 'absent';
  const progress = advanceProgress(found?.progress, measureRun(state), await metadata.now());
  const outcome = await putTask(metadata, fsckRuns, { name, state, progress, expect, term });
  if (!outcome.applied && term !== undefined) await assertLeads(metadata, fsckRuns, term);
}
