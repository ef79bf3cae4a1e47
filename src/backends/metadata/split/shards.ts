/** The port of a sharded store for splitting, one shard at a time. Each call is atomic and idempotent. */
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import type { Columns } from '../rows/order.ts';
import type { Span } from '../rows/span.ts';
import type { Arrivals, Layout, Progress } from './state.ts';

/** The notes of a shard beside its rows; no scan returns them. */
export interface NoteValues {
  readonly layout: Layout;
  readonly progress: Progress;
  readonly arrivals: Arrivals;
}
export type NoteName = keyof NoteValues;

export interface Note<Value> {
  readonly value: Value;
  readonly revision: string;
}

export interface Place {
  readonly at: At<AnyTable>;
  readonly shard: number;
}

/** A row on its way, as the store keeps it. */
export interface MovingRow {
  /** Its sort columns. */
  readonly key: Columns;
  readonly bytes: number;
}

export interface Shards<Row extends MovingRow> {
  note<N extends NoteName>(place: Place, name: N): Promise<Note<NoteValues[N]> | undefined>;
  /** Undefined where the note was not as expected. */
  setNote<N extends NoteName>(
    place: Place,
    name: N,
    change: { readonly value: NoteValues[N]; readonly expect: string | undefined },
  ): Promise<Note<NoteValues[N]> | undefined>;
  rows(place: Place, span: Span, count: number): Promise<readonly Row[]>;
  /**
   * Puts the rows that do not exist yet, in one commit.
   * @returns false where the note of arrivals has changed: then none was put
   */
  take(place: Place, rows: readonly Row[], arrivals: string): Promise<boolean>;
  /** Removes the rows at the revisions that were read; rows that are gone or have changed are not touched. */
  drop(place: Place, rows: readonly Row[]): Promise<void>;
}
