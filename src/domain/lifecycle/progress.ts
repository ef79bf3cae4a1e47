/** The progress of the lifecycle worker in a bucket: the index of its age, the running pass, and the result of the last one. */
import type { TaskKind } from '../../metadata/background/tasks.ts';
import type { AgeKind } from '../../metadata/records/ages.ts';
import type { objects } from '../../metadata/tables.ts';
import type { SortOf } from '../../ports/metadata-store.ts';

/** What was done in a pass, by action. */
export interface Tally {
  /** Entries of the age index that were read. */
  readonly read: number;
  /** Current versions that were deleted, or got a delete marker. */
  readonly expired: number;
  readonly noncurrent: number;
  readonly markers: number;
  readonly aborted: number;
  readonly transitioned: number;
  /** Restored copies that ended. */
  readonly restored: number;
  /** Versions that Object Lock holds. */
  readonly held: number;
  /** Versions that a later pass tries again: their replication is pending, or the action failed. */
  readonly undone: number;
}
export const emptyTally: Tally = {
  read: 0,
  expired: 0,
  noncurrent: 0,
  markers: 0,
  aborted: 0,
  transitioned: 0,
  restored: 0,
  held: 0,
  undone: 0,
};

export const addTally = (sum: Tally, more: Partial<Tally>): Tally => {
  const next: { -readonly [Name in keyof Tally]: number } = { ...sum };
  for (const [name, count] of Object.entries(more) as [keyof Tally, number][]) next[name] += count;
  return next;
};

/** A position in the age index. The rows of the prefix up to `after` were processed. */
export interface Position {
  readonly kind: AgeKind;
  readonly day: number;
  readonly slot: number;
  readonly prefix?: string;
  readonly after?: { readonly key: string; readonly version: string };
}

/** How far the versions of the time before the age index are indexed. */
export type Indexing =
  | { readonly at: 'objects'; readonly after?: SortOf<typeof objects> }
  | { readonly at: 'uploads'; readonly after?: { readonly key: string; readonly uploadId: string } }
  | { readonly at: 'done' };

export interface LifecycleProgress {
  readonly bucket: string;
  /** The account that owned the bucket in its last turn; absent in progress of older releases. */
  readonly owner?: string;
  /** Of the bucket's entry in the list when the pass began; another token asks for another pass. */
  readonly token: string;
  readonly indexing: Indexing;
  /** By kind: no earlier day has entries. */
  readonly first: Readonly<Record<AgeKind, number>>;
  /** The position of a pass that runs; absent between passes. */
  readonly position?: Position;
  /** Transitions from here on are due, and are carried out after the pass; absent: none. */
  readonly moves?: Position;
  /** Of the pass that runs, or of the last one. */
  readonly tally: Tally;
  /** Actions by the id of their rule. */
  readonly byRule: Readonly<Record<string, number>>;
  readonly startedAt: number;
  /** The last request of an operator for a pass, as of the start of the pass; store time. */
  readonly runAt?: number;
  readonly finishedAt?: number;
  /** When the next pass begins; store time. */
  readonly nextAt: number;
}

/** When a pass has ended, with the transitions that it found; undefined while either runs. */
export const endOf = ({ finishedAt, moves }: LifecycleProgress): number | undefined =>
  moves === undefined ? finishedAt : undefined;

export const lifecycleTasks: TaskKind<LifecycleProgress> = { kind: 'lifecycle' };
