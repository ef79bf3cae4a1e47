/** A scan of the embedded backend: each page is read from a fresh snapshot, so that no snapshot stays open. */
import type { Clock } from '../../../ports/clock.ts';
import {
  type AnyTable,
  type At,
  type Cursor,
  MetadataDamaged,
  type Range,
  type RowOf,
  type SortOf,
  type Stored,
} from '../../../ports/metadata-store.ts';
import { decodeText } from '../rows/node-text.ts';
import type { Columns } from '../rows/order.ts';
import type { Projection } from '../rows/row-codec.ts';
import { compareBytes, computeSpan, passed, type Span, skipTo } from '../rows/span.ts';
import { PageDamaged, passedPage } from './file/damaged-pages.ts';
import type { Database } from './file/environment.ts';
import type { LoopTurn } from './loop-turn.ts';
import { type Codec, isAlive, type StoredRow } from './rows/codec.ts';

interface Scanned<T> {
  readonly database: Database;
  readonly clock: Clock;
  readonly codec: Codec;
  readonly at: At<T>;
  readonly turn: LoopTurn;
}

export class EmbeddedCursor<T extends AnyTable> implements Cursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #partitionBytes: number;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;
  readonly #projection: Projection;
  #span: Span;
  /** Read ahead of a damaged row, and handed out after the error. */
  #held: Stored<RowOf<T>>[] = [];
  #isBehindDamage = false;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    const { codec, at } = scanned;
    this.#scanned = scanned;
    this.#partitionBytes = codec.order.partitionKey(at.in as Columns).length;
    this.#isEmpty = (range.shard ?? 0) !== 0;
    this.#projection = codec.projection(range.columns);
    this.#span = computeSpan(codec.order, at.in as Columns, range);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { database, clock, codec, at, turn } = this.#scanned;
    if (turn.isOver()) await turn.next();
    const partition = at.in as Columns;
    const { columns, wanted } = this.#projection;
    const rows = this.#held.splice(0);
    if (rows.length > 0) return rows;
    if (this.#isEmpty || count <= 0 || compareBytes(this.#span.low, this.#span.high) >= 0) return rows;
    const now = clock.now();
    database.refresh();
    const visit = (key: Uint8Array, value: unknown): boolean => {
      const stored = value as StoredRow;
      if (!isAlive(stored, now)) return true;
      const row = codec.order.sortOf(key, this.#partitionBytes, decodeText);
      rows.push(codec.complete(row, { stored, partition, columns }));
      if (rows.length < count) return true;
      this.#span = passed(this.#span, key);
      return false;
    };
    try {
      const isEnd = database.read(this.#span, visit, { wanted, isBehindDamage: this.#isBehindDamage });
      this.#isBehindDamage = false;
      // The range was read to its end: nothing is left of it.
      if (isEnd) this.#span = { ...this.#span, low: this.#span.high };
    } catch (cause) {
      if (cause instanceof MetadataDamaged) this.#passOver(cause, rows);
      throw cause;
    }
    return rows;
  }

  /** A caller that continues after the error gets all other rows of the range, as far as they can be found. */
  #passOver(cause: MetadataDamaged, rows: Stored<RowOf<T>>[]): void {
    const wasBehindDamage = this.#isBehindDamage;
    this.#held = rows;
    this.#isBehindDamage = true;
    const { low, high, reverse } = this.#span;
    if (cause instanceof PageDamaged) {
      this.#span = passedPage(this.#span, cause.range);
      return;
    }
    const { key } = cause;
    // The row ahead of the span may be what is damaged: the span is whole then.
    const isAhead = compareBytes(key, reverse ? high : low) < 0 !== reverse;
    const isInside = compareBytes(key, low) >= 0 && compareBytes(key, high) < 0;
    if (isInside) this.#span = passed(this.#span, key);
    else if (!isAhead || wasBehindDamage) this.#span = { ...this.#span, low: high };
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const { codec, at } = this.#scanned;
    const prefix = codec.order.prefix(at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}
