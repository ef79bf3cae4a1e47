/** A scan of the ordered-kv backend: each page is one range read at a new timestamp, so that no snapshot stays open. */
import type { AnyTable, At, Cursor, Range, RowOf, SortOf, Stored } from '../../../ports/metadata-store.ts';
import { decodeText } from '../rows/node-text.ts';
import type { Columns } from '../rows/order.ts';
import { isAlive, type RowCodec } from '../rows/row-codec.ts';
import { compareBytes, computeSpan, passed, type Span, skipTo } from '../rows/span.ts';
import type { Cluster } from './cluster.ts';
import type { Keys } from './keys.ts';
import { unpackSome } from './values.ts';

export interface Scanned<T> {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly codec: Promise<RowCodec>;
  readonly plain: RowCodec;
  readonly now: () => Promise<number>;
  readonly at: At<T>;
}

/** Expired rows in between are skipped in reads of this many. */
const stretchMax = 1024;

export class OrderedKvCursor<T extends AnyTable> implements Cursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #partitionBytes: number;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;
  readonly #columns: readonly string[] | undefined;
  #span: Span;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    const { plain, at } = scanned;
    this.#scanned = scanned;
    this.#partitionBytes = plain.order.partitionKey(at.in as Columns).length;
    this.#isEmpty = (range.shard ?? 0) !== 0;
    this.#columns = range.columns;
    this.#span = computeSpan(plain.order, at.in as Columns, range);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { client, keys, at } = this.#scanned;
    const rows: Stored<RowOf<T>>[] = [];
    if (this.#isEmpty || count <= 0 || this.#isDone()) return rows;
    const codec = await this.#scanned.codec;
    const partition = at.in as Columns;
    const { columns, wanted } = codec.projection(this.#columns);
    const now = await this.#scanned.now();
    while (rows.length < count && !this.#isDone()) {
      const limit = Math.min(count - rows.length, stretchMax);
      const { low, high, reverse } = this.#span;
      const entries = await client.scan({ low: keys.row(low), high: keys.row(high), limit, reverse });
      for (const entry of entries) {
        const stored = unpackSome(entry.value, wanted);
        if (!isAlive(stored, now)) continue;
        const row = codec.order.sortOf(keys.rowOf(entry.key), this.#partitionBytes, decodeText);
        rows.push(codec.complete(row, { stored, partition, columns }));
      }
      const last = entries.at(-1);
      this.#span =
        last === undefined || entries.length < limit
          ? { ...this.#span, low: this.#span.high }
          : passed(this.#span, keys.rowOf(last.key));
    }
    return rows;
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const { plain, at } = this.#scanned;
    const prefix = plain.order.prefix(at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }

  #isDone(): boolean {
    return compareBytes(this.#span.low, this.#span.high) >= 0;
  }
}
