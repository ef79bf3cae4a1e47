/** The state of long background work, from which it resumes after a kill and which the operator API reports. */
import { json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

/** What a task counts: rows, versions or the like, and bytes where it knows them. */
export interface TaskAmount {
  readonly count: number;
  readonly bytes?: number;
}

/** How far a task is. Stored beside its state and in the same commit, so that the two never disagree. Times are the store's, in ms. */
export interface TaskProgress {
  readonly startedAt: number;
  readonly updatedAt: number;
  readonly finishedAt?: number;
  readonly done: TaskAmount;
  /** The average of about the last minute; absent before the first measurement. */
  readonly perSecond?: TaskAmount;
  /** Where the next measurement of the rate begins. */
  readonly measured: { readonly at: number; readonly done: TaskAmount };
  readonly lastError?: { readonly at: number; readonly message: string };
  /** Why it ended without its result. */
  readonly failure?: string;
  /** Names of what it works on. */
  readonly bucket?: string;
  readonly cluster?: string;
}

export const tasks = table({
  name: 'tasks',
  kind: 'conditional',
  isExported: true,
  partition: ['kind'],
  sort: ['name'],
  columns: {
    /** The name of the worker or command that owns the task. */
    kind: text(),
    /** The subject, such as a bucket's id; '' when there is only one. */
    name: text(),
    state: json<unknown>(),
    /** Only of tasks that operators follow. */
    progress: optional(json<TaskProgress>()),
  },
});
export interface TaskRow extends RowOf<typeof tasks> {}
