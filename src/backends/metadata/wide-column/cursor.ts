/** A scan: each shard is read in slices of its own, and what they give is merged into one order. */
import type { AnyTable, At, Cursor, Range, RowOf, SortOf, Stored } from '../../../ports/metadata-store.ts';
import type { Columns } from '../order.ts';
import { compareBytes, passed, type Span, skipTo, spanOf } from '../span.ts';
import { sumOf } from './counters.ts';
import { isAlive, type RawRow, rowMark } from './rows.ts';
import type { Session } from './session.ts';
import type { TableIn, Tables } from './tables.ts';

const sliceMin = 16;
const sliceMax = 1000;

interface Shard {
  readonly number: number;
  /** Rows read and not yet given, in order; never kept from one page to the next. */
  buffer: RawRow[];
  /** What is left of it beyond the buffer; undefined once it was read to its end. */
  rest: Bounds | undefined;
  /** How many rows the next slice asks for: more and more, while a page goes on. */
  slice: number;
}

export interface Scanned<T> {
  readonly session: Session;
  readonly tables: Tables;
  readonly now: () => Promise<number>;
  readonly at: At<T>;
}

export class WideColumnCursor<T extends AnyTable> implements Cursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #table: TableIn;
  readonly #partition: Uint8Array;
  readonly #shards: readonly number[];
  #span: Span;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    const { tables, at } = scanned;
    this.#scanned = scanned;
    this.#table = tables.plain(at.table);
    const { order } = this.#table.rows;
    this.#partition = order.partitionKey(at.in as Columns);
    this.#span = spanOf(order, at.in as Columns, range);
    const ways = this.#table.rows.ways(at);
    const all = Array.from({ length: ways }, (_, shard) => shard);
    this.#shards = all.filter((shard) => range.shard === undefined || range.shard === shard);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { at, tables } = this.#scanned;
    const found: Stored<RowOf<T>>[] = [];
    if (count <= 0) return found;
    await tables.of(at.table);
    const now = await this.#scanned.now();
    const bounds = boundsIn(this.#span, this.#partition);
    // A little more than its share of each: rows do not lie evenly.
    const slice = Math.ceil((count / this.#shards.length) * 1.25) + sliceMin;
    const shards = this.#shards.map((number): Shard => ({ number, buffer: [], rest: bounds, slice }));
    while (found.length < count) {
      await this.#fill(shards);
      const row = firstOf(shards, this.#span.reverse)?.buffer.shift();
      if (row === undefined) break;
      this.#span = passed(this.#span, Buffer.concat([this.#partition, keyIn(row).subarray(1)]));
      if (this.#table.rows.table.kind === 'counter' || isAlive(row, now))
        found.push(this.#table.rows.decode(row, at.in as Columns));
    }
    return found;
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const { order } = this.#table.rows;
    const prefix = order.prefix(this.#scanned.at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }

  /** Reads on in every shard whose next row is not known. */
  async #fill(shards: readonly Shard[]): Promise<void> {
    const empty = shards.filter(({ buffer, rest }) => buffer.length === 0 && rest !== undefined);
    if (empty.length > 0) await Promise.all(empty.map((shard) => this.#read(shard)));
  }

  async #read(shard: Shard): Promise<void> {
    const { rest } = shard;
    if (rest === undefined) return;
    if (compareBytes(rest.low, rest.high) >= 0) {
      shard.rest = undefined;
      return;
    }
    const { rows: codec, statements, counter } = this.#table;
    const place = codec.place(this.#scanned.at as At<AnyTable>, shard.number);
    const { reverse } = this.#span;
    if (codec.table.kind === 'counter') {
      const query = reverse ? counter.scanBack : counter.scan;
      const rows = await this.#scanned.session.read(query, [...place, rest.low, rest.high]);
      shard.buffer = sumOf(codec, rows);
      shard.rest = undefined;
      return;
    }
    const limit = Math.min(shard.slice, sliceMax);
    shard.slice = limit * 2;
    const query = reverse ? statements.scanBack : statements.scan;
    const rows = await this.#scanned.session.read(query, [...place, rest.low, rest.high, limit]);
    shard.buffer = [...rows];
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit) shard.rest = undefined;
    else if (reverse) shard.rest = { low: rest.low, high: keyIn(last) };
    else shard.rest = { low: Buffer.concat([keyIn(last), Buffer.of(0)]), high: rest.high };
  }
}

/** The shard whose next row comes first. */
function firstOf(shards: readonly Shard[], reverse: boolean): Shard | undefined {
  let first: Shard | undefined;
  let best: Buffer | undefined;
  for (const shard of shards) {
    const [row] = shard.buffer;
    if (row === undefined) continue;
    const key = keyIn(row);
    const order = best === undefined ? -1 : key.compare(best);
    if (best !== undefined && (reverse ? order < 0 : order > 0)) continue;
    first = shard;
    best = key;
  }
  return first;
}

const keyIn = (row: RawRow): Buffer => row['row_k'] as Buffer;
export interface Bounds {
  readonly low: Buffer;
  readonly high: Buffer;
}

/** A span as the slice of a shard that it is. */
export function boundsIn({ low, high }: Pick<Span, 'low' | 'high'>, partition: Uint8Array): Bounds {
  const beyond = Buffer.of(rowMark + 1);
  const inside = (bound: Uint8Array): Buffer =>
    bound.length >= partition.length && compareBytes(bound.subarray(0, partition.length), partition) === 0
      ? Buffer.concat([Buffer.of(rowMark), bound.subarray(partition.length)])
      : beyond;
  return { low: inside(low), high: inside(high) };
}
