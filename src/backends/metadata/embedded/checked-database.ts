/**
 * lmdb with every value verified: rows by a checksum of key and value, the place of a row by its neighbours. lmdb itself has no
 * checksums, so a flipped bit in a page could hide rows from a look-up, or lead it to another row. A look-up that finds nothing and the
 * ends of a scan are therefore compared with the rows on either side, which must be valid themselves and in order. fsck finds the
 * damage that this cannot detect (docs/recovery.md).
 */
import type { RootDatabase } from 'lmdb';
import { MetadataDamaged, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { compareBytes, type Span } from '../key-order.ts';
import type { ReadOptions, Visit } from '../records/ordered-store.ts';
import type { PageFault } from './check-pages.ts';
import { damageFrom, isOfOtherTable, isRefusedSnapshot, misplaced } from './damage.ts';
import {
  type DamagedPages,
  type DamagedRange,
  PageDamaged,
  type ReadNotes,
  rowsPerNote,
} from './damaged-pages.ts';
import { type LatestCommit, type Openings, StaleTransaction } from './meta-page.ts';
import type { Values } from './values.ts';

export type RawDatabase = RootDatabase<unknown, Uint8Array>;

/** Each needs another process that opens the file in the moment between two transactions. */
const staleTransactionsMax = 20;

/** Snapshots that one read drops because of openings; each needs a further opening. */
const overtakenMax = 20;

/** A range of lmdb-js. */
interface RawRange {
  readonly start: Uint8Array;
  readonly end?: undefined;
  readonly exclusiveStart?: boolean;
  readonly reverse?: boolean;
  readonly limit?: number;
}

interface Closable {
  close(): void;
}

const always = (): boolean => true;

export class CheckedDatabase {
  readonly #raw: RawDatabase;
  readonly #values: Values;
  readonly #latest: LatestCommit;
  readonly #openings: Openings;
  readonly #damagedPages: DamagedPages;
  readonly #notes: ReadNotes;
  /** The snapshot was not yet compared with the openings of other processes. */
  #isUnproved = true;
  #discard = false;
  /** Reads are part of the transaction that runs. */
  #isWriting = false;
  /** How many snapshots were dropped: two reads with the same count used the same snapshot. */
  #renewals = 0;
  #first: (() => void) | undefined;
  onClose: (() => void) | undefined;
  /** Called for each refused transaction that is begun again. */
  onRefused: ((cause: unknown) => void) | undefined;

  constructor(
    raw: RawDatabase,
    {
      values,
      latest,
      openings,
      damagedPages,
      notes,
    }: {
      readonly values: Values;
      readonly latest: LatestCommit;
      readonly openings: Openings;
      readonly damagedPages: DamagedPages;
      readonly notes: ReadNotes;
    },
  ) {
    this.#damagedPages = damagedPages;
    this.#notes = notes;
    this.#raw = raw;
    this.#values = values;
    this.#latest = latest;
    this.#openings = openings;
  }

  /**
   * The value under a key. Undefined means that none was found, which is no proof of absence: see `find`.
   * @throws MetadataDamaged
   */
  get(key: Uint8Array): unknown {
    this.#damagedPages.assertReadable(key);
    try {
      return this.#renewing(this.#getRaw, key);
    } catch (cause) {
      throw this.#damage(cause, key);
    }
  }

  readonly #getRaw = (key: Uint8Array): unknown => {
    this.#values.key = key;
    return this.#raw.get(key);
  };

  /** In a transaction: whether there is a value under a key, which is not verified. @throws MetadataDamaged */
  has(key: Uint8Array): boolean {
    try {
      return this.#raw.doesExist(key);
    } catch (cause) {
      throw this.#damage(cause, key);
    }
  }

  /**
   * Reads in a new snapshot where lmdb refuses the one of this turn, and where another process opened the file meanwhile, because the
   * snapshot may begin before the latest commit then. A second refusal is the caller's.
   */
  #renewing<From, T>(read: (from: From) => T, from: From): T {
    if (this.#isWriting) return read(from);
    let result = this.#readingTwice(read, from);
    for (let attempt = 0; this.#isUnproved; attempt += 1) {
      this.#isUnproved = false;
      if (attempt === overtakenMax || !this.#openings.haveGrown()) break;
      this.#openings.await();
      this.#latest.correctAfterOpening();
      this.#damagedPages.load();
      this.#dropSnapshot();
      result = this.#readingTwice(read, from);
    }
    return result;
  }

  #readingTwice<From, T>(read: (from: From) => T, from: From): T {
    try {
      return read(from);
    } catch (cause) {
      if (!isRefusedSnapshot(cause)) throw cause;
      this.onRefused?.(cause);
      this.#dropSnapshot();
      return read(from);
    }
  }

  /** The value under a key; undefined where the rows on either side prove that there is none. @throws MetadataDamaged */
  find(key: Uint8Array): unknown {
    return this.#inOneSnapshot(this.#getProved, key);
  }

  readonly #getProved = (key: Uint8Array): unknown => {
    const value = this.get(key);
    if (value === undefined) {
      this.#assertBefore(key);
      this.#assertFrom(key, { exclusive: true });
    }
    return value;
  };

  /** Repeats a read once if its snapshot was renewed meanwhile: rows of two snapshots contradict each other without damage. */
  #inOneSnapshot<From, T>(read: (from: From) => T, from: From, mayRepeat = always): T {
    const before = this.#renewals;
    try {
      return read(from);
    } catch (cause) {
      if (!(cause instanceof MetadataDamaged) || this.#renewals === before || !mayRepeat()) throw cause;
      return read(from);
    }
  }

  /** @throws MetadataDamaged */
  put(key: Uint8Array, value: unknown): void {
    this.#values.key = key;
    try {
      void this.#raw.put(key, value);
    } catch (cause) {
      throw this.#damage(cause, key);
    }
  }

  /** @throws MetadataDamaged */
  remove(key: Uint8Array): void {
    this.#notes.note(key);
    try {
      void this.#raw.remove(key);
    } catch (cause) {
      throw this.#damage(cause, key);
    }
  }

  /**
   * Removes up to `limit` rows of a range, whose values may be damaged. All of them are looked up before the first is
   * removed: a key outside of the range or out of order belongs to another partition and was put here by a damaged
   * page, and a key that look-ups do not find could not be removed.
   * @returns how many were removed
   * @throws MetadataDamaged
   */
  removeRange({ low, high, limit }: { low: Uint8Array; high: Uint8Array; limit: number }): number {
    const keys: Uint8Array[] = [];
    const damaged = this.#damagedPages.nextFrom(low);
    this.#notes.note(low);
    try {
      for (const key of this.#raw.getKeys({ start: low, end: high, limit })) {
        const previous = keys.at(-1);
        const isAhead =
          previous === undefined ? compareBytes(key, low) < 0 : compareBytes(key, previous) <= 0;
        if (isAhead || compareBytes(key, high) >= 0 || !this.#raw.doesExist(key)) throw misplaced(key);
        this.#damagedPages.assertRemovable(key);
        keys.push(key);
        if (keys.length % rowsPerNote === 0) this.#notes.note(key);
        if (keys.length < limit && this.#isEnd(key, { high, damaged })) break;
      }
    } catch (cause) {
      throw this.#damage(cause, keys.at(-1) ?? low);
    }
    for (const key of keys) this.remove(key);
    return keys.length;
  }

  /** @throws MetadataDamaged; call it before the first write of a commit */
  assertWritable(key: Uint8Array): void {
    this.#damagedPages.assertWritable(key);
  }

  /** @throws MetadataDamaged; call it before the first write of a commit */
  assertRemovable(key: Uint8Array): void {
    this.#damagedPages.assertRemovable(key);
  }

  /**
   * Whether a forward scan up to `high` ends at the row `key`, because the next page is damaged and holds none of its rows.
   * @throws PageDamaged where it may hold some
   */
  #isEnd(
    key: Uint8Array,
    { high, damaged }: { readonly high: Uint8Array; readonly damaged: DamagedRange | undefined },
  ): boolean {
    if (damaged?.last === undefined || compareBytes(key, damaged.last) < 0) return false;
    const isOutside = damaged.low !== undefined && compareBytes(high, damaged.low) <= 0;
    if (isOutside && this.#damagedPages.isLastBefore(key, damaged)) return true;
    throw new PageDamaged(damaged, 'its rows cannot be read');
  }

  /**
   * Visits the rows of a span, each verified to be in order, until a visit returns false.
   * @returns whether the span was read to its end
   * @throws MetadataDamaged
   */
  read(span: Span, visit: Visit, options: ReadOptions = {}): boolean {
    // Another process may have named a page, and a scan must not find it before the list is read. `get` needs no such check.
    if (this.#isUnproved && !this.#isWriting && this.#openings.haveGrown()) this.#damagedPages.load();
    let hasVisited = false;
    const visitOnce: Visit = (key, value) => {
      hasVisited = true;
      return visit(key, value);
    };
    return this.#inOneSnapshot(
      (from: Span) => this.#read(from, visitOnce, options),
      span,
      () => !hasVisited,
    );
  }

  #read(
    { low, high, reverse }: Span,
    visit: Visit,
    { requested, isBehindDamage = false }: ReadOptions,
  ): boolean {
    // Give lmdb no end, so that the row after the end is verified too: its key may be a flipped one.
    const range = reverse
      ? { start: high, exclusiveStart: true, end: undefined, reverse }
      : { start: low, end: undefined };
    const damaged = this.#damagedPages.nextFrom(reverse ? high : low);
    if (reverse && !isBehindDamage) this.#assertFrom(high);
    let previous = reverse ? high : low;
    let isFirst = true;
    let isEnd = true;
    this.#values.requested = requested;
    const visitRow: Visit = (key, value) => {
      const order = compareBytes(key, previous);
      if (reverse ? order >= 0 : order < 0 || (order === 0 && !isFirst)) throw misplaced(key);
      // If a forward scan does not begin at `low` itself, make sure that no row there is hidden.
      if (isFirst && !reverse && order > 0 && !isBehindDamage) this.#assertBefore(low);
      isFirst = false;
      if (reverse ? compareBytes(key, low) < 0 : compareBytes(key, high) >= 0) return false;
      previous = key;
      this.#values.requested = undefined;
      isEnd = visit(key, value);
      this.#values.requested = requested;
      return isEnd && (reverse || !this.#isEnd(key, { high, damaged }));
    };
    try {
      this.#each(range, previous, visitRow);
    } catch (cause) {
      const isBeyond = (key: Uint8Array): boolean =>
        reverse ? compareBytes(key, low) < 0 : compareBytes(key, high) >= 0;
      if (!isOfOtherTable(cause, low) || !isBeyond(cause.key)) throw cause;
    }
    if (isEnd && isFirst && !reverse && !isBehindDamage) this.#assertBefore(low);
    return isEnd;
  }

  /** Asserts that there is no row at `key`, and that the last row before it is valid. */
  #assertBefore(key: Uint8Array): void {
    // Name `end`, because the default end of a reverse range is after our own key spaces.
    const found = this.#neighbour(key, { start: key, end: undefined, reverse: true, limit: 1 });
    if (found !== undefined && compareBytes(found, key) >= 0) throw misplaced(found);
  }

  /** Asserts that the first row from `key` on is valid, and not before it. */
  #assertFrom(key: Uint8Array, { exclusive = false } = {}): void {
    const found = this.#neighbour(key, { start: key, limit: 1 });
    if (found === undefined) return;
    const order = compareBytes(found, key);
    if (order < 0 || (exclusive && order === 0)) throw misplaced(found);
  }

  #neighbour(key: Uint8Array, range: RawRange): Uint8Array | undefined {
    this.#damagedPages.nextFrom(key);
    let neighbour: Uint8Array | undefined;
    this.#values.verifiesOnly = true;
    try {
      this.#each(range, key, (found) => {
        neighbour = found;
        return false;
      });
    } catch (cause) {
      if (!isOfOtherTable(cause, key)) throw cause;
      neighbour = cause.key;
    } finally {
      this.#values.verifiesOnly = false;
    }
    return neighbour;
  }

  /** Ends the cursor in any case: one that is left open keeps its snapshot, and its pages from being used again. */
  #each(range: RawRange, key: Uint8Array, visit: Visit): void {
    this.#values.key = key;
    // An end of undefined differs from none: see `#assertBefore`.
    const options: object = range;
    let rows: Iterator<{ key: Uint8Array; value: unknown }> | undefined;
    try {
      // The walk from a note begins at the page before its key, which is all that a single step back meets.
      const isReverse = range.reverse === true && range.limit !== 1;
      this.#notes.note(key, isReverse);
      // Only the first step can be repeated: a row must not be visited twice.
      const first = this.#renewing((from: object) => {
        rows?.return?.();
        rows = this.#raw.getRange(from)[Symbol.iterator]();
        return rows.next();
      }, options);
      let read = 0;
      for (let next = first; next.done !== true; next = (rows as NonNullable<typeof rows>).next()) {
        if (!visit(next.value.key, next.value.value)) return;
        read += 1;
        if (read % rowsPerNote === 0) this.#notes.note(next.value.key, isReverse);
      }
    } catch (cause) {
      throw this.#damage(cause, this.#values.key);
    } finally {
      this.#values.requested = undefined;
      rows?.return?.();
    }
  }

  #damage(cause: unknown, key: Uint8Array): unknown {
    const damage = damageFrom(cause, key);
    // lmdb refuses everything else in a transaction that has met a damaged page.
    if (damage !== cause) this.#discard = true;
    return damage;
  }

  /** @returns tells whether any process may have committed since the call, by one short read of the file */
  watchCommits(): () => boolean {
    const begunAt = this.#latest.noted();
    return () => this.#latest.readOnce() !== begunAt;
  }

  /** Makes the next read see the latest commit of any process. */
  refresh(): void {
    if (this.#discard) this.#dropSnapshot();
    this.#isUnproved = true;
    this.#raw.resetReadTxn();
  }

  /** `resetReadTxn` does not renew a transaction that is in use; the user of this one ends it here. */
  #dropSnapshot(): void {
    this.#discard = false;
    this.#isUnproved = true;
    this.#renewals += 1;
    const cursors = (this.#raw as unknown as { readonly db: { availableCursor: Closable | null } }).db;
    const transaction = this.#raw.useReadTransaction();
    this.#raw.resetReadTxn();
    cursors.availableCursor?.close();
    cursors.availableCursor = null;
    transaction.done();
  }

  /** Pages that the latest commit uses are not used again until it is released. */
  holdSnapshot(): () => void {
    this.refresh();
    const transaction = this.#raw.useReadTransaction();
    return () => transaction.done();
  }

  /** Names pages that lmdb must not read for every process. */
  markDamaged(faults: readonly PageFault[]): void {
    this.#damagedPages.mark(faults);
  }

  /** Copies the pages of the latest commit to a directory, as they are. */
  async copyTo(directory: string): Promise<void> {
    // Another process that has just opened the file may have reset the number of the latest commit.
    this.#openings.await();
    this.#latest.correctAfterOpening();
    await this.#raw.backup(directory, false);
  }

  isEmpty(): boolean {
    return [...this.#raw.getKeys({ limit: 1, start: Uint8Array.of(0) })].length === 0;
  }

  /** Every transaction begins with `work` until one has committed. */
  beginWith(work: () => void): void {
    this.#first = work;
  }

  async transaction(work: () => void): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#transactOnce(work);
        this.#first = undefined;
        return;
      } catch (cause) {
        if (!(cause instanceof StaleTransaction) || attempt === staleTransactionsMax) throw cause;
        this.onRefused?.(cause);
      }
    }
  }

  #transactOnce(work: () => void): Promise<void> {
    const first = this.#first;
    return this.#raw.transaction(() => {
      this.#latest.assertKnown(this.#raw.getWriteTxnId());
      this.assertInPlace();
      if (this.#openings.haveGrown()) this.#damagedPages.load();
      this.#isWriting = true;
      try {
        first?.();
        work();
      } finally {
        this.#isWriting = false;
      }
    });
  }

  /** @throws StoreUnavailable where the file was moved or replaced: a later start would not find what is committed */
  assertInPlace(): void {
    if (!this.#latest.isInPlace())
      throw new StoreUnavailable('the metadata file was moved or replaced while it is in use');
  }

  /** The number of the running transaction. */
  get transactionId(): number {
    return this.#raw.getWriteTxnId();
  }

  readerCheck(): void {
    this.#raw.readerCheck();
  }

  async close(): Promise<void> {
    this.onClose?.();
    await this.#raw.close();
    this.#latest.close();
    this.#openings.close();
    this.#notes.close();
  }
}
