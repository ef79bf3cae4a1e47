/** Scans: each shard is read in slices, which are merged into one order. Below: copies of a whole table, and reads past tombstones. */
import type {
  AnyTable,
  At,
  CopiedRow,
  Cursor,
  Range,
  RowOf,
  RowPage,
  SortOf,
  Stored,
} from '../../../ports/metadata-store.ts';
import { type Columns, compareBytes, computeSpan, passed, type Span, skipTo } from '../key-order.ts';
import { type Folds, sumByName } from './counters.ts';
import type { Layouts } from './layouts.ts';
import { isAlive, type RawRow, type Rows, rowMark, valueIn } from './rows.ts';
import { ReadFailed, type Session } from './session.ts';
import type { Scans, TableIn, Tables } from './statements.ts';

/**
 * How many rows the first read of a shard requests: its share of the page and three standard deviations of a share drawn by a hash, so
 * that few shards are read twice and few rows are read in vain.
 */
const expectedSlice = (share: number): number => Math.ceil(share + 3 * Math.sqrt(share)) + 1;

interface Scanned<T> {
  readonly session: Session;
  readonly tables: Tables;
  readonly layouts: Layouts;
  readonly folds: Folds;
  readonly now: () => Promise<number>;
  readonly at: At<T>;
}

export class WideColumnCursor<T extends AnyTable> implements Cursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #table: TableIn;
  readonly #partition: Uint8Array;
  readonly #only: number | undefined;
  readonly #scans: Scans;
  #span: Span;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    const { tables, at } = scanned;
    this.#scanned = scanned;
    this.#table = tables.of(at.table);
    const { order } = this.#table.rows;
    this.#partition = order.partitionKey(at.in as Columns);
    this.#span = computeSpan(order, at.in as Columns, range);
    this.#only = range.shard;
    this.#scans = this.#table.scans(range.columns);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { at, layouts } = this.#scanned;
    if (count <= 0) return [];
    const isSplit = this.#only === undefined && this.#table.rows.isSpread(at);
    const read = (to: number): Promise<Page<T>> => this.#page(count, to);
    const { found, rest } = isSplit ? await layouts.under(at, read) : await read(0);
    this.#span = rest;
    return found;
  }

  /** @param to how many shards the partition has or may by now be splitting into */
  async #page(count: number, to: number): Promise<Page<T>> {
    const { at } = this.#scanned;
    const { rows } = this.#table;
    const now = await this.#scanned.now();
    const merge = this.#merge(count, to);
    const found: Stored<RowOf<T>>[] = [];
    let rest = this.#span;
    while (found.length < count) {
      const row = await merge.next();
      if (row === undefined) break;
      rest = passed(rest, Buffer.concat([this.#partition, keyIn(row).subarray(1)]));
      if (rows.table.kind === 'counter' || isAlive(row, now)) found.push(rows.decode(row, at.in as Columns));
    }
    return { found, rest };
  }

  #merge(count: number, to: number): ShardMerge<RawRow> {
    const ways = this.#table.rows.spreadOver(this.#scanned.at);
    const all = Array.from({ length: Math.max(ways, to) }, (_, shard) => shard);
    const shards = this.#only === undefined ? all : all.filter((shard) => shard === this.#only);
    return new ShardMerge({
      shards,
      splitAt: to > ways ? to / 2 : undefined,
      bounds: boundsIn(this.#span, this.#partition),
      reverse: this.#span.reverse,
      slice: expectedSlice(count / shards.length),
      keyOf: keyIn,
      read: (shard, bounds, limit) => this.#read(shard, bounds, limit),
    });
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const { order } = this.#table.rows;
    const prefix = order.prefix(this.#scanned.at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }

  async #read(shard: number, { low, high }: Bounds, limit: number): Promise<Slice<RawRow>> {
    const { rows: codec, counter } = this.#table;
    const { at, session } = this.#scanned;
    const { reverse } = this.#span;
    const place = codec.place(at as At<AnyTable>, shard);
    if (codec.table.kind === 'counter') {
      const params = [...place, Buffer.from(low), Buffer.from(high)];
      const rows = await session.readAll(reverse ? counter.scanBack : counter.scan, params);
      this.#scanned.folds.note(at, { shard, additions: rows.length });
      return { rows: sumByName(codec, rows), hasMore: false };
    }
    const query = reverse ? this.#scans.scanBack : this.#scans.scan;
    const rows = await readPastTombstones({
      bounds: { low, high },
      reverse,
      limit,
      read: (part, most) =>
        session.read(query, [...place, Buffer.from(part.low), Buffer.from(part.high), most]),
    });
    return { rows, hasMore: rows.length === limit };
  }
}

interface Page<T> {
  readonly found: readonly Stored<RowOf<T>>[];
  readonly rest: Span;
}

const keyIn = (row: RawRow): Buffer => row['row_k'] as Buffer;
/** A span as the slice of a shard that it is. */
export function boundsIn(
  { low, high }: Pick<Span, 'low' | 'high'>,
  partition: Uint8Array,
): { readonly low: Buffer; readonly high: Buffer } {
  const beyond = Buffer.of(rowMark + 1);
  const inside = (bound: Uint8Array): Buffer =>
    bound.length >= partition.length && compareBytes(bound.subarray(0, partition.length), partition) === 0
      ? Buffer.concat([Buffer.of(rowMark), bound.subarray(partition.length)])
      : beyond;
  return { low: inside(low), high: inside(high) };
}

// Copies of all rows of a table, partition by partition in the order of Cassandra's tokens.

const rowsPerPage = 1_000;

interface Store {
  readonly session: Session;
  readonly tables: Tables;
  readonly now: () => Promise<number>;
}

export async function* everyRow(
  { session, tables, now }: Store,
  table: AnyTable,
  position?: string,
): AsyncGenerator<RowPage> {
  const { rows: codec } = tables.of(table);
  const query = `SELECT * FROM ${tables.keyspace}.${table.name}`;
  const isCounter = table.kind === 'counter';
  /** The additions of a counter row may be on two pages. */
  let pending: readonly RawRow[] = [];
  let pageState = position;
  do {
    const page = await session.readPage(query, [], { count: rowsPerPage, pageState });
    pageState = page.pageState;
    if (isCounter) {
      const groups = byPartition(codec, [...pending, ...page.rows]);
      pending = pageState === undefined ? [] : (groups.pop() ?? []);
      yield { rows: groups.flatMap((group) => sums(codec, group)) };
    } else {
      const at = await now();
      const rows = page.rows.filter((raw) => isRow(raw) && isAlive(raw, at)).map((raw) => copied(codec, raw));
      yield pageState === undefined ? { rows } : { rows, position: pageState };
    }
  } while (pageState !== undefined);
}

/** Other rows are outcomes of commits and notes of splits; a partition that has a fence alone has no row key. */
const isRow = (raw: RawRow): boolean => (raw['row_k'] as Buffer | null)?.[0] === rowMark;

const partitionIn = (codec: Rows, raw: RawRow): Columns => {
  const row: Record<string, unknown> = {};
  for (const column of codec.columns.partition) {
    const value = valueIn(raw, column);
    row[column.name] = column.type === 'int' ? Number(value) : value;
  }
  return row;
};

function copied(codec: Rows, raw: RawRow): CopiedRow {
  const { row } = codec.decode<object>(raw, partitionIn(codec, raw));
  const expiresAt = raw['row_expires'];
  return expiresAt === null || expiresAt === undefined ? { row } : { row, expiresAt: Number(expiresAt) };
}

/** Rows of a partition come one after another. */
function byPartition(codec: Rows, rows: readonly RawRow[]): (readonly RawRow[])[] {
  const groups: RawRow[][] = [];
  let current: string | undefined;
  for (const raw of rows) {
    const name = JSON.stringify(partitionIn(codec, raw));
    if (name !== current) groups.push([]);
    current = name;
    groups.at(-1)?.push(raw);
  }
  return groups;
}

const sums = (codec: Rows, group: readonly RawRow[]): readonly CopiedRow[] => {
  const [first] = group;
  if (first === undefined) return [];
  const partition = partitionIn(codec, first);
  return sumByName(codec, group).map((raw) => ({ row: codec.decode<object>(raw, partition).row }));
};

// Reads a slice with so many deleted rows that the cluster refuses: it stops at a number of tombstones before it has found a row. The range
// is halved until a read succeeds, so a scan always makes progress.

/** Refusals in one slice: each costs the cluster as many tombstones as it bears. */
const refusalsMax = 400;
/** How many bytes after the common prefix of two bounds are used to compute their middle. */
const precision = 16;

interface Slicing<Row> {
  readonly bounds: Bounds;
  readonly reverse: boolean;
  readonly limit: number;
  readonly read: (bounds: Bounds, limit: number) => Promise<readonly Row[]>;
}

/** Up to `limit` rows of the range in its order; fewer are all that there are. */
export async function readPastTombstones<Row>({
  bounds,
  reverse,
  limit,
  read,
}: Slicing<Row>): Promise<Row[]> {
  const rows: Row[] = [];
  const ahead = [bounds];
  for (let refusals = 0; rows.length < limit; ) {
    const part = ahead.pop();
    if (part === undefined) break;
    try {
      rows.push(...(await read(part, limit - rows.length)));
    } catch (cause) {
      const middle = findMiddle(part);
      refusals += 1;
      if (!(cause instanceof ReadFailed) || middle === undefined || refusals > refusalsMax) throw cause;
      const halves = [
        { low: part.low, high: middle },
        { low: middle, high: part.high },
      ];
      ahead.push(...(reverse ? halves : halves.reverse()));
    }
  }
  return rows;
}

/** A key between two others; undefined where they are too near. */
export function findMiddle({ low, high }: Bounds): Uint8Array | undefined {
  let shared = 0;
  while (shared < low.length && shared < high.length && low[shared] === high[shared]) shared += 1;
  const from = numberAt(low, shared);
  const middle = (from + numberAt(high, shared)) / 2n;
  if (middle <= from) return undefined;
  const tail = Buffer.from(middle.toString(16).padStart(2 * precision, '0'), 'hex');
  const found = Buffer.concat([low.subarray(0, shared), trimmed(tail)]);
  return compareBytes(low, found) < 0 && compareBytes(found, high) < 0 ? found : undefined;
}

const numberAt = (bytes: Uint8Array, at: number): bigint => {
  const tail = Buffer.alloc(precision);
  tail.set(bytes.subarray(at, at + precision));
  return BigInt(`0x${tail.toString('hex')}`);
};

function trimmed(tail: Buffer): Buffer {
  let length = tail.length;
  while (length > 0 && tail[length - 1] === 0) length -= 1;
  return tail.subarray(0, length);
}

// Merges the rows of several shards into one order; each shard is read in slices. While a shard splits, a row may be in the old shard or
// in the new one, and for a moment in both: the new one is read only as far as the old one was read before, so that no row is missed,
// and a row that both have counts once.

interface Bounds {
  readonly low: Uint8Array;
  readonly high: Uint8Array;
}

interface Slice<Row> {
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
