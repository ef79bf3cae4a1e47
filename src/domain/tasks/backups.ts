/** The task of `sluice backup`, which its process writes beside running gateways. */
import type { Context } from '../../context.ts';
import { findTask, putTask, type TaskKind } from '../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { advanceProgress, amountLeft, type Measure } from '../common/task-progress.ts';

export interface BackupRun {
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly failure?: string;
  /** Files of chunks, copied or there already, and their bytes. */
  readonly done: Required<TaskAmount>;
  readonly all: Required<TaskAmount>;
}

export const backups: TaskKind<BackupRun> = { kind: 'backup' };

export const name = 'last';

const measureBackup = ({ startedAt, finishedAt, failure, done }: BackupRun): Measure => ({
  startedAt,
  finishedAt,
  failure,
  done,
});

export const leftToBackUp = ({ done, all }: BackupRun): TaskAmount => amountLeft(all, done);

/** Of two backups at the same time, which the lease of gc rules out, one row is lost. */

export async function saveBackup({ metadata }: Pick<Context, 'metadata'>, state: BackupRun): Promise<void> {
  const found = await findTask(metadata, backups, name);
  const progress = advanceProgress(found?.progress, measureBackup(state), await metadata.now());
  await putTask(metadata, backups, { name, state, progress, expect: found?.revision ?? 'absent' });
}
