/**
 * Merges the rows of several shards into one order; each shard is read in slices. While a shard splits, a row may be in the old shard or
 * in the new one, and for a moment in both: the new one is read only as far as the old one was read before, so that no row is missed,
 * and a row that both have counts once.
 */
import { compareBytes } from '../key-order.ts';

export interface Bounds {
  readonly low: Uint8Array;
  readonly high: Uint8Array;
}

export interface Slice<Row> {
  readonly rows: readonly Row[];
  /** Whether the scan has more rows. */
  readonly hasMore: boolean;
}

interface Merged<Row> {
  readonly shards: readonly number[];
  /** Shards from this number on get their rows from those so many before them. */
  readonly splitAt?: number | undefined;
  readonly bounds: Bounds;
  readonly reverse: boolean;
  /** How many rows the first slice of a shard requests. */
  readonly slice: number;
  keyOf(row: Row): Uint8Array;
  read(shard: number, bounds: Bounds, limit: number): Promise<Slice<Row>>;
}

const sliceMax = 1000;

interface Source<Row> {
  readonly number: number;
  /** The shard that rows move from, while they do. */
  readonly parent: Source<Row> | undefined;
  /** Rows that were read and not yet returned, in order. */
  buffer: Row[];
  /** The unread rest beyond the buffer; undefined once it was read to its end. */
  rest: Bounds | undefined;
  /** How many rows the next slice requests: more each time within a page. */
  slice: number;
}

export class ShardMerge<Row> {
  readonly #merged: Merged<Row>;
  readonly #sources: readonly Source<Row>[];

  constructor(merged: Merged<Row>) {
    const { shards, bounds, slice, splitAt } = merged;
    const sources = new Map<number, Source<Row>>();
    for (const number of shards) {
      const parent = splitAt === undefined ? undefined : sources.get(number - splitAt);
      sources.set(number, { number, parent, buffer: [], rest: bounds, slice });
    }
    this.#merged = merged;
    this.#sources = [...sources.values()];
  }

  async next(): Promise<Row | undefined> {
    await this.#fill(({ parent }) => parent === undefined);
    await this.#fill(({ parent }) => parent !== undefined);
    return this.#first()?.buffer.shift();
  }

  /** Reads the next slice of every shard whose buffer is empty. */
  async #fill(which: (source: Source<Row>) => boolean): Promise<void> {
    const empty: Promise<void>[] = [];
    for (const source of this.#sources)
      if (source.buffer.length === 0 && source.rest !== undefined && which(source))
        empty.push(this.#read(source, source.rest));
    if (empty.length > 0) await Promise.all(empty);
  }

  async #read(source: Source<Row>, rest: Bounds): Promise<void> {
    const { reverse, read, keyOf } = this.#merged;
    const open = openTo(rest, source.parent?.rest, reverse);
    if (compareBytes(open.low, open.high) >= 0) {
      if (source.parent?.rest === undefined) source.rest = undefined;
      return;
    }
    const limit = Math.min(source.slice, sliceMax);
    source.slice = limit * 2;
    const { rows, hasMore } = await read(source.number, open, limit);
    source.buffer = [...rows];
    const last = rows.at(-1);
    const isThrough = last === undefined || !hasMore;
    if (isThrough && source.parent?.rest === undefined) source.rest = undefined;
    else if (reverse) source.rest = { low: rest.low, high: isThrough ? open.low : keyOf(last) };
    else source.rest = { low: isThrough ? open.high : rightBehind(keyOf(last)), high: rest.high };
  }

  /** The shard with the lowest next row; another shard with the same row drops it. */
  #first(): Source<Row> | undefined {
    const { reverse, keyOf } = this.#merged;
    let first: Source<Row> | undefined;
    let best: Uint8Array | undefined;
    for (const source of this.#sources) {
      const [row] = source.buffer;
      if (row === undefined) continue;
      const key = keyOf(row);
      const order = best === undefined ? -1 : compareBytes(key, best);
      if (order === 0) source.buffer.shift();
      else if (best === undefined || order < 0 !== reverse) {
        first = source;
        best = key;
      }
    }
    return first;
  }
}

/** How far a shard may be read: not into the part of its parent that was not read yet, whose rows may still move. */
const openTo = (rest: Bounds, unread: Bounds | undefined, reverse: boolean): Bounds => {
  if (unread === undefined) return rest;
  return reverse ? { low: unread.high, high: rest.high } : { low: rest.low, high: unread.low };
};

const rightBehind = (key: Uint8Array): Uint8Array => {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
};
