/**
 * The port below the record layer: an ordered key-value store in this process, whose reads and transactions are
 * synchronous. lmdb and SQLite have one; TiKV does not, because there a transaction locks its keys over the network.
 */
import type { Span } from '../key-order.ts';
import type { Requested } from '../row-codec.ts';

/** Gets an entry; returns whether the scan continues. */
export type Visit = (key: Uint8Array, value: unknown) => boolean;

export interface ReadOptions {
  /** The columns that the caller needs. Absent: all. */
  readonly requested?: Requested | undefined;
  /** For an engine that verifies its data: the row before the span is known to be damaged, so it proves nothing. */
  readonly isBehindDamage?: boolean | undefined;
}

export interface OrderedStore {
  /** The value under a key. */
  get(key: Uint8Array): unknown;
  /** Like `get`, but an engine that verifies its data also verifies an absence, by the neighbours of the key. */
  find(key: Uint8Array): unknown;
  has(key: Uint8Array): boolean;
  /**
   * Visits the entries of a span in order, until a visit returns false. A visit neither reads nor writes.
   * @returns whether the span was read to its end
   */
  read(span: Span, visit: Visit, options?: ReadOptions): boolean;
  /** Makes the next read see the latest commit of any process. */
  refresh(): void;

  /** Only inside a transaction, as are all functions below. */
  put(key: Uint8Array, value: unknown): void;
  remove(key: Uint8Array): void;
  /** Removes up to `limit` entries from `low` (inclusive) up to `high` (exclusive). @returns how many were removed */
  removeRange(range: { readonly low: Uint8Array; readonly high: Uint8Array; readonly limit: number }): number;
  /** Throws where damage forbids the write; called before the first write of a commit. Absent: the engine repairs its own data. */
  assertWritable?(key: Uint8Array): void;
  assertRemovable?(key: Uint8Array): void;
}

export interface Counter {
  readonly key: Uint8Array;
  readonly stored: unknown[];
  isChanged: boolean;
}

/** The state of one transaction, which may hold several works. Its maps hold rows as they will be when it commits. */
export interface Batch {
  readonly now: number;
  readonly epochs: Map<string, readonly number[] | undefined>;
  readonly fences: Map<string, number>;
  readonly counters: Map<string, Counter>;
  /** Called when the transaction is durable. */
  readonly committed: (() => void)[];
  /** A number that no earlier write has carried: commits of one transaction differ in it too. */
  nextRevision(): number;
  /** Further revisions are later than this one. Absent where rows do not come from other stores. */
  raiseRevision?(revision: number): void;
}

export type Work<Result> = (batch: Batch) => Result;

/** The beginning of the message of a full store. An error from another process has lost its class, so it is recognized by this text. */
export const fullMessage = 'the metadata store is full';

/** How a work is treated on a full disk. */
export interface SubmitOptions {
  /** It deletes, or deletions need it: it may use the reserve. Others are refused. */
  readonly frees?: boolean;
}

/**
 * Runs a work inside a transaction that excludes the writers of all processes, so that no write comes between its checks and its writes. A
 * work checks everything before it writes anything. Resolves once the transaction is durable.
 */
export type Submit = <Result>(work: Work<Result>, options?: SubmitOptions) => Promise<Result>;

/** @param nextRevision a number that no earlier write has carried */
export const newBatch = (now: number, nextRevision: () => number): Batch => ({
  now,
  epochs: new Map(),
  fences: new Map(),
  counters: new Map(),
  committed: [],
  nextRevision,
});

/**
 * Writes the sums of a transaction's counters. Call it at the end of the transaction, and before a step of a split in it, because that
 * step changes which writes are noted.
 */
export function writeCounters(store: OrderedStore, { counters }: Batch): void {
  for (const { key, stored, isChanged } of counters.values()) if (isChanged) store.put(key, stored);
  counters.clear();
}
