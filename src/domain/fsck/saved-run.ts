/** Where a run of fsck stands, kept so that it goes on after a kill and can be asked about. */
import type { Context } from '../../context.ts';
import { findTask, putTask, type TaskKind } from '../../metadata/tasks.ts';
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

/** Of two that save at once one is not kept: it would only say where to begin again. */
export async function saveRun(
  { metadata }: Pick<Context, 'metadata'>,
  name: RunName,
  state: SavedRun,
): Promise<void> {
  const found = await findTask(metadata, runs, name);
  await putTask(metadata, runs, { name, state, expect: found?.revision ?? 'absent' });
}
