/** The task of `sluice backup`, which its process writes beside running gateways. */
import type { Context } from '../../context.ts';
import { findTask, putTask, type TaskKind } from '../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { advanceProgress, type Measure } from './progress.ts';

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

const name = 'last';

const measureBackup = ({ startedAt, finishedAt, failure, done }: BackupRun): Measure => ({
  startedAt,
  ...(finishedAt === undefined ? {} : { finishedAt }),
  ...(failure === undefined ? {} : { failure }),
  done,
});

/** A file may have grown since all were measured. */
export const leftOf = (done: Required<TaskAmount>, all: Required<TaskAmount>): Required<TaskAmount> => ({
  count: Math.max(0, all.count - done.count),
  bytes: Math.max(0, all.bytes - done.bytes),
});

export const leftToBackUp = ({ done, all }: BackupRun): TaskAmount => leftOf(done, all);

/** Of two backups at the same time, which the lease of gc rules out, one row is lost. */
export async function saveBackup({ metadata }: Pick<Context, 'metadata'>, state: BackupRun): Promise<void> {
  const found = await findTask(metadata, backups, name);
  const progress = advanceProgress(found?.progress, measureBackup(state), await metadata.now());
  await putTask(metadata, backups, { name, state, progress, expect: found?.revision ?? 'absent' });
}
