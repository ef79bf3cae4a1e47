/**
 * The metadata port: partitioned records with conditional commits.
 *
 * The port promises only what every backend can keep. Every promise here is a case of the
 * contract suite (`test/contract/metadata-store.ts`), and each backend passes that suite.
 */

import { isStorageFull, isStorageReadOnly } from './chunk-store.ts';

/** How a column is stored: `json` is any JSON value, `blob` bytes, `int` a safe integer. */
export type ColumnType = 'text' | 'int' | 'bool' | 'json' | 'blob';

/** A column: how it is stored, and the type of its values, which the type of the table's rows follows from. */
export interface Column<T = unknown, Optional extends boolean = boolean> {
  readonly type: ColumnType;
  /** A row may be without it. */
  readonly isOptional: Optional;
  /** Never set: it carries the type of the values. */
  readonly value?: T;
}
type Columns = Readonly<Record<string, Column>>;

const column = <T>(type: ColumnType): Column<T, false> => ({ type, isOptional: false });

/** `text<'a' | 'b'>()` where the table holds some texts only. No store checks that. */
export const text = <T extends string = string>(): Column<T, false> => column('text');
export const int = (): Column<number, false> => column('int');
export const bool = (): Column<boolean, false> => column('bool');
export const blob = (): Column<Uint8Array, false> => column('blob');
export const json = <T>(): Column<T, false> => column('json');
export const optional = <T>({ type }: Column<T, false>): Column<T, true> => ({ type, isOptional: true });

/**
 * - `conditional`: every write states the expected revision, or that the row is absent.
 * - `plain`: the last write wins; writes are idempotent.
 * - `counter`: rows change only by `add` side changes.
 * No table takes both conditional and plain writes.
 */
export type TableKind = 'conditional' | 'plain' | 'counter';

/** A table is declared once; each backend derives its own physical layout from the declaration. */
export interface Table<Row extends object, Partition extends string, Sort extends string> {
  readonly name: string;
  readonly kind: TableKind;
  /** Whether an export of the metadata has its rows. Those of running processes and of log-ins mean nothing in another store. */
  readonly isExported: boolean;
  /** Rows are read and committed one partition at a time. */
  readonly partition: readonly Partition[];
  /** Order inside a partition: text by UTF-8 bytes, int by value; a leading `-` sorts descending. */
  readonly sort: readonly (Sort | `-${Sort}`)[];
  /** The sort column whose hash spreads a partition over shards, where the backend needs shards. */
  readonly spreadBy?: Sort;
  /** In the order of the stored values: new ones come last. */
  readonly columns: { readonly [C in keyof Row]-?: Column };
  /** Of a counter table: the `int` columns that keep the largest amount that was added, and not the sum. */
  readonly maxima?: readonly (keyof Row & string)[];
  /**
   * For a plain table: only the process that created a row writes it. A backend that keeps everything in memory keeps at least this many of
   * the latest rows; the others keep all.
   */
  readonly log?: { readonly linesInMemory: number };
}

// biome-ignore lint/suspicious/noExplicitAny: the bound of a generic, never a value.
export type AnyTable = Table<any, any, any>;
export type RowOf<T> = T extends Table<infer Row, string, string> ? Row : never;
type PartitionOf<T> = T extends Table<infer Row, infer P, string> ? Pick<Row, P & keyof Row> : never;
export type SortOf<T> = T extends Table<infer Row, string, infer S> ? Pick<Row, S & keyof Row> : never;
export type ColumnOf<T> = keyof RowOf<T> & string;
/** A row with the requested columns and those of its key. */
export type PartOf<T, C extends ColumnOf<T>> = Pick<
  RowOf<T>,
  (C | keyof PartitionOf<T> | keyof SortOf<T>) & keyof RowOf<T>
>;

type ValueOf<C> = C extends Column<infer T> ? T : never;
type RequiredColumns<C extends Columns> = {
  [K in keyof C as C[K]['isOptional'] extends true ? never : K]: ValueOf<C[K]>;
};
type OptionalColumns<C extends Columns> = {
  [K in keyof C as C[K]['isOptional'] extends true ? K : never]?: ValueOf<C[K]>;
};
/** `infer` makes editors show the columns, and not this expression. */
type RowOfColumns<C extends Columns> = RequiredColumns<C> & OptionalColumns<C> extends infer Row
  ? { readonly [K in keyof Row]: Row[K] }
  : never;

/** Declares a table. The type of its rows follows from the columns: `interface BucketRow extends RowOf<typeof buckets> {}`. */
export const table = <C extends Columns, const P extends keyof C & string, const S extends keyof C & string>(
  declared: Omit<Table<C, P, S>, 'columns'> & { readonly columns: C },
  // The cast: the names of a row are those of the columns.
): Table<RowOfColumns<C>, P, S> => declared as unknown as Table<RowOfColumns<C>, P, S>;

/** Changes with every write of a row, additions to a counter included; equal revisions mean an untouched row. Opaque. */
export type Revision = string & { readonly brand: 'Revision' };

export interface Stored<Row> {
  readonly row: Row;
  readonly revision: Revision;
}

/** One partition of one table: every read, scan and commit is within one partition. */
export interface At<T> {
  readonly table: T;
  readonly in: PartitionOf<T>;
  /** How many shards the partition is spread over; backends without shards ignore it. Default 1. */
  readonly ways?: number;
  /** The partition is splitting into this many shards, twice `ways`. A row that moves is in its old or its new shard. */
  readonly splittingTo?: number;
  /**
   * The fence generation that this writer has read. Every commit is refused unless the partition has exactly this generation. A
   * partition that was never fenced has generation 0. Conditional tables only.
   */
  readonly fence?: number;
}

/**
 * A range of a partition in sort order. A partial key is a prefix of the sort columns: `from` starts at the first row that matches
 * it or sorts after it, `after` skips every row that matches it, `before` ends before the first row that matches it.
 */
export interface Range<T, C extends ColumnOf<T> = ColumnOf<T>> {
  readonly from?: Partial<SortOf<T>>;
  readonly after?: Partial<SortOf<T>>;
  readonly before?: Partial<SortOf<T>>;
  /** Scan from the end of the range to its start. */
  readonly reverse?: boolean;
  /** Read one shard only (backends that shard); the others yield every row in shard 0. */
  readonly shard?: number;
  /** The columns that the caller needs beside those of the key; other columns are absent in the result. Default: all. */
  readonly columns?: readonly C[];
}

/** A forward reader over a range, shards already merged into one order. Holds no lock. */
export interface Cursor<T, Row = RowOf<T>> {
  /** Up to `count` further rows; an empty array means that the range is exhausted. */
  next(count: number): Promise<readonly Stored<Row>[]>;
  /**
   * Skips ahead to the first row that matches `key` or sorts after it, without reading the rows in between. With `past`, also skips the
   * rows that match it. Never moves back.
   */
  seek(key: Partial<SortOf<T>>, options?: { readonly past?: boolean }): void;
}

export type Change<T> =
  | {
      readonly put: RowOf<T>;
      /** `'any'` on plain tables only; a conditional table takes `'absent'` or a revision. */
      readonly expect: 'absent' | 'any' | Revision;
      /** Store time (ms) from which no reader sees the row. */
      readonly expiresAt?: number;
    }
  | { readonly remove: SortOf<T>; readonly expect: 'any' | Revision }
  /** Writes nothing; refuses the commit unless the row is as expected. Conditional tables only. */
  | { readonly check: SortOf<T>; readonly expect: 'absent' | Revision };

/** A write that applies if and only if the commit applies, before the commit returns. */
export type SideChange =
  | { readonly at: At<AnyTable>; readonly put: object; readonly expiresAt?: number }
  | { readonly at: At<AnyTable>; readonly remove: object }
  /**
   * Adds to the `int` columns of a `counter` row, which starts at 0; exactly once per commit. `maxima` of the table
   * take the larger value.
   */
  | {
      readonly at: At<AnyTable>;
      readonly add: object;
      readonly by: { readonly [column: string]: number };
    };

export type Outcome<T> =
  /** Every row that this commit put carries `revision`. */
  | { readonly applied: true; readonly revision: Revision }
  | {
      readonly applied: false;
      /**
       * - `conflict`: a row was not as expected; `current` is the row of the first failing change.
       * - `fenced`: the partition has another generation, given as `fence`.
       * - `abandoned`: the op was swept or aborted; no commit can apply under it any more.
       */
      readonly because: 'conflict' | 'fenced' | 'abandoned';
      readonly current?: Stored<RowOf<T>>;
      readonly fence?: number;
    };

/** The result of a step of a split: `waiting` for readers with an older view, or the number of rows that moved. */
export type SplitStep =
  | { readonly is: 'waiting'; readonly ms: number }
  | { readonly is: 'moving' | 'done'; readonly rows: number };

/**
 * A write in progress. Its id names the bytes that it stores (`<op id>.<n>`), is never reused, and
 * sorts by time. As long as the process lives and has not ended it, it is not abandoned.
 */
export interface Op {
  readonly id: string;
}

/** An intent for the sweeper: bytes named under `prefix` may have no owner. */
export interface Abandoned {
  readonly prefix: string;
  /** The cluster of the bytes, where the backend knows it. */
  readonly cluster?: string;
}

export interface CommitOptions {
  /** Refuses the commit once the op is abandoned. Conditional tables only. */
  readonly op?: Op;
  readonly then?: readonly SideChange[];
  /** Deletions need this commit, so it may use the reserve of a full disk, as every commit that removes a row may. */
  readonly frees?: boolean;
}

/** A node as the cluster reports it; `unknown` where it does not. */
export interface NodeHealth {
  readonly name: string;
  readonly dataCenter: string;
  readonly rack: string;
  readonly releaseVersion: string;
  readonly schemaVersion: string;
  /** `UP`, or the cluster's own text for another state. */
  readonly state: string;
  /** Of its disk: what it uses, and what is free. Absent where the engine does not report it. */
  readonly usedBytes?: number;
  readonly freeBytes?: number;
  /** Why `usedBytes` is absent, where an operator can change that. */
  readonly sizeUnknown?: string;
}

export interface MetadataHealth {
  readonly nodes: readonly NodeHealth[];
  /** The number of copies of a row, where it is known. */
  readonly replicationFactor?: number;
  readonly warnings: readonly string[];
}

/** The health of a store in this process, which is its only node. */
export const localHealth = (
  name: string,
  node: Pick<NodeHealth, 'releaseVersion' | 'usedBytes'>,
): MetadataHealth => ({
  nodes: [{ name, dataCenter: 'local', rack: 'local', schemaVersion: '1', state: 'UP', ...node }],
  warnings: [],
});

/** A commit was refused because a row of it is longer than `commitLimits.rowBytes`. */
export class RowTooLong extends Error {}

/** Bounds of a commit that every backend takes. */
export const commitLimits = { changes: 64, bytes: 48 * 1024, rowBytes: 24 * 1024 } as const;

const encoder = new TextEncoder();

/**
 * The size of a row, the same on every backend: the bytes of its texts, blobs and JSON, 8 for other values. For a short text its length
 * is used, which is close enough and costs nothing.
 */
export function rowBytes(row: object): number {
  let bytes = 0;
  // `in`, because an array of the values would be made for each row of each commit.
  for (const column in row) {
    const value = (row as Readonly<Record<string, unknown>>)[column];
    if (value === undefined) continue;
    if (typeof value === 'string') bytes += textBytes(value);
    else if (value instanceof Uint8Array) bytes += value.length;
    else if (typeof value === 'object') bytes += textBytes(JSON.stringify(value));
    else bytes += 8;
  }
  return bytes;
}

const textBytes = (text: string): number => (text.length < 256 ? text.length : encoder.encode(text).length);

/** The backend could not be reached in time, or the outcome of a commit is unknown. A retry is safe. */
export class StoreUnavailable extends Error {}

/** The backend answers, but this process cannot use it: its schema is newer, or it refuses the login. */
export class StoreRefused extends Error {}

/**
 * Whether the store itself failed, so that other rows would fail as well. An error that is neither this nor
 * `isRowFailure` may be either.
 */
export const isStoreFailure = (cause: unknown): boolean =>
  cause instanceof StoreUnavailable ||
  cause instanceof StoreRefused ||
  isStorageFull(cause) ||
  isStorageReadOnly(cause);

/** The table and key of a damaged row, as text; `key` is the backend's own form of it. */
interface DamagedRow {
  readonly table: string;
  readonly row: string;
  readonly key: Uint8Array;
}

/** The stored data differs from what was written. None of it was returned, and a retry does not help. */
export class MetadataDamaged extends Error {
  readonly table: string;
  readonly row: string;
  readonly key: Uint8Array;

  constructor(message: string, { table, row, key, cause }: DamagedRow & { readonly cause?: unknown }) {
    super(message, cause === undefined ? undefined : { cause });
    this.table = table;
    this.row = row;
    this.key = key;
  }
}

/** Whether the store refused these rows for themselves: a retry does not help, and other rows would be stored. */
export const isRowFailure = (cause: unknown): boolean =>
  cause instanceof RowTooLong || cause instanceof MetadataDamaged;

/** A finding of a check of the whole store: a damaged row, or a range that cannot be read. */
export interface MetadataFault {
  readonly detail: string;
  readonly table?: string;
  /** The key columns of the row, as far as they can be read. */
  readonly row?: string;
  readonly columns?: Readonly<Record<string, unknown>>;
}

/** A row with the time from which no reader sees it. */
export interface CopiedRow {
  readonly row: object;
  readonly expiresAt?: number;
}

export interface RowPage {
  readonly rows: readonly CopiedRow[];
  /** Opaque; the next page begins behind it. Absent where a walk can only be begun again. */
  readonly position?: string;
}

/** The port of a metadata backend. A read sees every write acknowledged before the read began, in every process. */
export interface MetadataStore {
  /** Of a view, the store itself: what is registered for one holds for the other. */
  readonly behind?: MetadataStore;
  /** Whether a read is a network round trip, so that it pays to request rows beforehand. */
  readonly isDistant: boolean;
  get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined>;
  scan<T extends AnyTable, C extends ColumnOf<T> = ColumnOf<T>>(
    at: At<T>,
    range?: Range<T, C>,
  ): Cursor<T, PartOf<T, C>>;

  /**
   * Registers the intent to store bytes and commit them, durably, before the first byte is stored.
   * @param intent the cluster that the bytes go to
   */
  begin(intent: { readonly cluster: string }): Promise<Op>;
  /** Applies all changes or none, inside one partition (of a spread partition: for one spread value). Durable on return. */
  commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options?: CommitOptions,
  ): Promise<Outcome<T>>;
  /** Ends an op. Call it when all bytes of the op are owned by a row or queued for deletion. Idempotent. */
  end(op: Op): Promise<void>;
  /**
   * After it returns, no commit under this op can apply any more; commits that applied before stay. The intent remains until `end`, so
   * that it is found if the process dies, or cannot reach the store, before it has queued the bytes. Where this call fails, the op
   * may be left to the sweeper.
   */
  abort(opId: string): Promise<void>;
  /**
   * Whether a commit under this op may still apply. `false` is final: a reader that looks for an owner of the op's bytes afterwards gets
   * the final answer. It may return `true` for an ended op for a while; never `false` for one that can still commit.
   */
  isOpen(opId: string): Promise<boolean>;
  /** Takes the intents of dead processes. After it returns, no commit can apply under any of them. */
  abandoned(): Promise<readonly Abandoned[]>;
  /**
   * Settles an abandoned intent. Call it when its bytes are owned or queued. A day later `abandoned` returns the intent once more,
   * because its process may have been paused only and may have stored further bytes; settling it again removes it.
   */
  settle(intent: Abandoned): Promise<void>;

  /**
   * Whether a commit that has applied may still have to add to a partition of a counter table, because its process died, or has not
   * finished, between the commit and its side changes. `false`: every read from now on sees every addition of the commits that had applied
   * when the call began. It may return `true` for a while where none is missing.
   */
  hasPendingAdditions<T extends AnyTable>(at: At<T>): Promise<boolean>;

  /**
   * Whether a commit that has applied may still have to put a row into a plain table, because its process died, or has not finished,
   * between the commit and its side changes. `false`: every read from now on sees every row that such a commit puts. It may return
   * `true` for a while where none is missing. Absent when a commit and its side changes are one transaction.
   */
  readonly hasPendingPuts?: ((table: AnyTable) => Promise<boolean>) | undefined;

  /** Applies side changes alone, atomically per partition at least. For plain and counter tables. */
  apply(changes: readonly SideChange[]): Promise<void>;
  /** Read, change, write without a lost update; the row carries no other condition. */
  update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>>;
  /**
   * Writes a row of a conditional table in place of one whose read throws `MetadataDamaged`. False, and nothing is
   * written, where the row can be read or is absent. Absent where an engine verifies and repairs its own data.
   * @param expiresAt store time from which the row is absent; one that has passed removes the row
   */
  readonly replaceDamaged?:
    | (<T extends AnyTable>(at: At<T>, row: RowOf<T>, expiresAt?: number) => Promise<boolean>)
    | undefined;
  /** Deletes a finished range of a plain table as one deletion. */
  clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void>;

  /** The generation of a partition (of its lowest shard, where it spreads). */
  fence<T extends AnyTable>(at: At<T>): Promise<number>;
  /** Raises a partition, on every shard, to at least `generation`; never lowers it. */
  raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void>;

  /**
   * Moves some of the rows that leave a shard of `at.ways` for the one of `at.splittingTo` that it splits into. Undefined when a
   * partition is one ordered range, so that `ways` has no meaning.
   *
   * Before the first step, fence all writers that do not state the split. Writers that do, and all readers, are not affected: no row is
   * missing, none appears twice, and no removed row returns. When every shard is done, `splittingTo` is the new value of `ways`. A step
   * is idempotent, also after a crash.
   */
  readonly split: (<T extends AnyTable>(at: At<T>, shard: number) => Promise<SplitStep>) | undefined;

  /**
   * Reads everything in the store and reports damage, a page at a time; the tables say how keys are decoded. Absent when an engine
   * verifies its own data.
   */
  readonly verify?: ((tables: readonly AnyTable[]) => AsyncIterable<readonly MetadataFault[]>) | undefined;

  /**
   * Writes all rows of one moment to an empty directory, while others read and write: every commit that was acknowledged before the call
   * is in it. Absent where the store is not a file of this machine.
   */
  readonly copyTo?: (directory: string) => Promise<void>;

  /**
   * Every row of a table in pages, for a copy while no gateway runs; a counter row is its sum. It begins behind `position`, the one of an
   * earlier page.
   */
  readonly everyRow?: (table: AnyTable, position?: string) => AsyncIterable<RowPage>;

  /**
   * Begins to watch for commits of all processes. The returned function costs microseconds and tells whether a read
   * that begins now may find other rows than one that began with the call did; rows that have expired meanwhile do not
   * count. Absent where that needs a round trip.
   */
  readonly watchCommits?: (() => () => boolean) | undefined;

  /** The store's clock in ms since the epoch, which decides expiry and leases. */
  now(): Promise<number>;
  health(): Promise<MetadataHealth>;
  close(): Promise<void>;
}

// Rows that may be written after the request is answered, as a port: collected in the process and written in batches.

export interface LateWrites {
  /**
   * Takes a row, which is written within about a second. Rows that still wait are lost when the process dies.
   * @param bytes the approximate memory of the row
   * @returns resolves when the buffer has room for the next row
   */
  add(change: SideChange, bytes: number): Promise<void>;
  /** Resolves once everything that was taken is written. */
  flush(): Promise<void>;
}
