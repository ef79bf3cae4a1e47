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
import type { FsckState } from './fsck.ts';

export interface SavedRun {
  readonly state: FsckState;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
}
const runs: TaskKind<SavedRun> = { kind: 'fsck' };

/** The background's run, and that of the command. */
export type RunName = 'worker' | 'command';

export const savedRun = async (
  { metadata }: Pick<Context, 'metadata'>,
  name: RunName,
): Promise<SavedRun | undefined> => (await findTask(metadata, runs, name))?.state;

/** After it returns, no earlier leader of the worker can save its run. @throws LeaseLost */
export const beginComparing = ({ metadata }: Pick<Context, 'metadata'>, generation: number): Promise<Term> =>
  beginTerm(metadata, runs, generation);

/**
 * Of two concurrent saves one is lost, which costs repeated work only.
 * @throws LeaseLost when a later leader of the worker has begun, because its run is ahead of this one
 */
export async function saveRun(
  { metadata }: Pick<Context, 'metadata'>,
  name: RunName,
  { term, ...state }: SavedRun & { readonly term?: Term | undefined },
): Promise<void> {
  const found = await findTask(metadata, runs, name);
  const expect = found?.revision ?? 'absent';
  const outcome = await putTask(metadata, runs, { name, state, expect, term });
  if (!outcome.applied && term !== undefined) await assertLeads(metadata, runs, term);
}
