/**
 * Order-preserving keys, derived from a table's declaration: comparing two encoded keys
 * byte by byte orders their rows as the port promises, on every backend that sorts bytes.
 *
 * A key is the table's name, the partition columns and the sort columns, each self-delimiting, so that
 * the encoding of a partial key is a true prefix of every row that matches it:
 *
 * - text: its UTF-8 bytes and a 0 byte. NUL cannot occur (it is refused here), so nothing is escaped
 *   and a 1024-byte key costs 1025 bytes, well inside the 1978 that the narrowest store takes.
 * - int: one byte 0x80 ± the number of bytes of its magnitude, then those bytes, inverted if negative.
 * - bool: one byte.
 * - a descending column: the same with every byte inverted.
 */
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type {
  AnyTable,
  At,
  ColumnType,
  Cursor,
  Range,
  RowOf,
  SortOf,
  Stored,
} from '../../ports/metadata-store.ts';

export type Columns = Readonly<Record<string, unknown>>;

interface KeyColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly descending: boolean;
}

/** Turns UTF-8 bytes into text; each runtime has its fastest way. */
export type DecodeText = (bytes: Uint8Array, start: number, end: number) => string;

export const decodePortably: DecodeText = (bytes, start, end) => decodeUtf8(bytes.subarray(start, end));

export interface TableOrder {
  readonly partitionColumns: readonly string[];
  readonly sortColumns: readonly string[];
  /** The prefix of every row of a partition. */
  partitionKey(partition: Columns): Uint8Array;
  /** A row's whole key; further columns of `row` are ignored. */
  rowKey(partition: Columns, row: Columns): Uint8Array;
  /** The prefix of every row that matches a partial key. */
  prefix(partition: Columns, partial: Columns): Uint8Array;
  /** All columns of an encoded key. */
  columnsOf(key: Uint8Array): Record<string, unknown>;
  /** The sort columns of an encoded key, whose partition prefix is `offset` bytes long. */
  sortOf(key: Uint8Array, offset: number, decodeText?: DecodeText): Record<string, unknown>;
}

/** A key as the name of an entry in a map. `apply`, because spreading the bytes takes five times as long. */
export const keyText = (key: Uint8Array): string =>
  String.fromCharCode.apply(null, key as unknown as number[]);

const orders = new WeakMap<AnyTable, TableOrder>();

export function buildOrder(table: AnyTable): TableOrder {
  const known = orders.get(table);
  if (known !== undefined) return known;
  const derived = derive(table);
  orders.set(table, derived);
  return derived;
}

function derive(table: AnyTable): TableOrder {
  const partition = (table.partition as readonly string[]).map((name) => keyColumn(table, name));
  const sort = (table.sort as readonly string[]).map((name) => keyColumn(table, name));
  const start = (values: Columns): void => {
    used = 0;
    writeText(table.name);
    for (const column of partition) writeColumn(column, values[column.name]);
  };
  return {
    partitionColumns: partition.map((column) => column.name),
    sortColumns: sort.map((column) => column.name),
    partitionKey(values) {
      start(values);
      return scratch.slice(0, used);
    },
    rowKey(values, row) {
      start(values);
      for (const column of sort) writeColumn(column, row[column.name]);
      return scratch.slice(0, used);
    },
    prefix(values, partial) {
      start(values);
      writePartial(sort, partial);
      return scratch.slice(0, used);
    },
    columnsOf: (key) =>
      readColumns([...partition, ...sort], {
        key,
        offset: table.name.length + 1,
        decodeText: decodePortably,
      }),
    sortOf: (key, offset, decodeText = decodePortably) => readColumns(sort, { key, offset, decodeText }),
  };
}

function keyColumn(table: AnyTable, declared: string): KeyColumn {
  const descending = declared.startsWith('-');
  const name = descending ? declared.slice(1) : declared;
  const type = table.columns[name]?.type;
  if (type !== 'text' && type !== 'int' && type !== 'bool') {
    throw new Error(`${table.name}.${name} cannot be part of a key: it is ${type ?? 'not declared'}`);
  }
  return { name, type, descending };
}

// One scratch buffer for all calls, because encoding never awaits. It grows to the longest key so far.
let scratch = new Uint8Array(4096);
let used = 0;

function reserve(bytes: number): void {
  if (used + bytes <= scratch.length) return;
  const grown = new Uint8Array((used + bytes) * 2);
  grown.set(scratch.subarray(0, used));
  scratch = grown;
}

function writePartial(sort: readonly KeyColumn[], partial: Columns): void {
  let complete = true;
  for (const column of sort) {
    const value = partial[column.name];
    if (value === undefined) complete = false;
    else if (complete) writeColumn(column, value);
    else throw new Error(`a partial key names ${column.name} but not every sort column before it`);
  }
}

function writeColumn(column: KeyColumn, value: unknown): void {
  const from = used;
  if (column.type === 'text' && typeof value === 'string') writeText(value);
  else if (column.type === 'int' && Number.isSafeInteger(value)) writeInt(value as number);
  else if (column.type === 'bool' && typeof value === 'boolean') writeByte(value ? 1 : 0);
  else throw new Error(`key column ${column.name} takes ${column.type}, not ${JSON.stringify(value)}`);
  if (column.descending) invert(scratch, from, used);
}

function writeByte(byte: number): void {
  reserve(1);
  scratch[used++] = byte;
}

function writeText(text: string): void {
  reserve(text.length * 3 + 1);
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit === 0) throw new Error('NUL cannot be part of a key');
    if (unit < 0x80) scratch[used++] = unit;
    else if (unit < 0x800) {
      scratch[used++] = 0xc0 | (unit >> 6);
      scratch[used++] = 0x80 | (unit & 0x3f);
    } else if (unit < 0xd800 || unit > 0xdfff) writeThree(unit);
    else writePair(text, index++);
  }
  scratch[used++] = 0;
}

function writeThree(unit: number): void {
  scratch[used++] = 0xe0 | (unit >> 12);
  scratch[used++] = 0x80 | ((unit >> 6) & 0x3f);
  scratch[used++] = 0x80 | (unit & 0x3f);
}

/** A surrogate pair; a lone half has no UTF-8 form, and two such keys must not become one. */
function writePair(text: string, index: number): void {
  const point = text.codePointAt(index) ?? 0;
  if (point < 0x10000) throw new Error('a lone surrogate cannot be part of a key');
  scratch[used++] = 0xf0 | (point >> 18);
  scratch[used++] = 0x80 | ((point >> 12) & 0x3f);
  scratch[used++] = 0x80 | ((point >> 6) & 0x3f);
  scratch[used++] = 0x80 | (point & 0x3f);
}

function writeInt(value: number): void {
  let rest = Math.abs(value);
  let length = 0;
  for (let probe = rest; probe > 0; probe = Math.floor(probe / 256)) length++;
  reserve(1 + length);
  const from = used;
  scratch[used] = value < 0 ? 0x80 - length : 0x80 + length;
  for (let place = length; place > 0; place--) {
    scratch[used + place] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  used += 1 + length;
  if (value < 0) invert(scratch, from + 1, used);
}

function invert(bytes: Uint8Array, from: number, to: number): void {
  for (let index = from; index < to; index++) bytes[index] = (bytes[index] as number) ^ 0xff;
}

interface Reading {
  readonly key: Uint8Array;
  offset: number;
  readonly decodeText: DecodeText;
}

function readColumns(columns: readonly KeyColumn[], reading: Reading): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const { name, type, descending } of columns) {
    const mask = descending ? 0xff : 0;
    if (type === 'text') row[name] = readText(reading, mask);
    else if (type === 'int') row[name] = readInt(reading, mask);
    else row[name] = ((reading.key[reading.offset++] as number) ^ mask) === 1;
  }
  return row;
}

function readText(reading: Reading, mask: number): string {
  const { key, offset, decodeText } = reading;
  const end = key.indexOf(mask, offset);
  reading.offset = end + 1;
  // A single byte is ASCII, such as the slots of heads.
  if (end - offset === 1) return String.fromCharCode((key[offset] as number) ^ mask);
  if (mask === 0) return decodeText(key, offset, end);
  // Not slice(): the slice of a Buffer shares its memory.
  const text = new Uint8Array(key.subarray(offset, end));
  invert(text, 0, text.length);
  return decodeText(text, 0, text.length);
}

function readInt(reading: Reading, mask: number): number {
  const head = (reading.key[reading.offset++] as number) ^ mask;
  const negative = head < 0x80;
  const length = negative ? 0x80 - head : head - 0x80;
  const inner = negative ? mask ^ 0xff : mask;
  let value = 0;
  for (let place = 0; place < length; place++) {
    value = value * 256 + ((reading.key[reading.offset++] as number) ^ inner);
  }
  return negative ? -value : value;
}

// The range of keys that a scan has still to read: ranges, seeks and paging of the metadata port as arithmetic on encoded keys, for every
// backend that sorts bytes.

/** Negative, 0 or positive, as `a` sorts before, with or after `b`. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const shared = Math.min(a.length, b.length);
  for (let index = 0; index < shared; index++) {
    const difference = (a[index] as number) - (b[index] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** The first key beyond every key that starts with `prefix`. */
export function beyond(prefix: Uint8Array): Uint8Array {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) throw new Error('nothing sorts beyond an endless prefix');
  const next = new Uint8Array(prefix.subarray(0, length));
  next[length - 1] = (next[length - 1] as number) + 1;
  return next;
}

/** The keys that a scan has still to read: from `low` (inclusive) up to `high` (exclusive). */
export interface Span {
  readonly low: Uint8Array;
  readonly high: Uint8Array;
  readonly reverse: boolean;
}

export function computeSpan(order: TableOrder, partition: Columns, range: Range<AnyTable>): Span {
  const all = order.partitionKey(partition);
  const prefix = (partial: object): Uint8Array => order.prefix(partition, partial as Columns);
  let low = all;
  if (range.from !== undefined) low = larger(low, prefix(range.from));
  if (range.after !== undefined) low = larger(low, beyond(prefix(range.after)));
  let high = beyond(all);
  if (range.before !== undefined) high = smaller(high, prefix(range.before));
  return { low, high, reverse: range.reverse ?? false };
}

/** The rest of the range after a jump to the rows under `prefix`, or past them; never more than before. */
export function skipTo(span: Span, prefix: Uint8Array, past: boolean): Span {
  if (span.reverse) return { ...span, high: smaller(span.high, past ? prefix : beyond(prefix)) };
  return { ...span, low: larger(span.low, past ? beyond(prefix) : prefix) };
}

/** The rest of the range after the row under `key` was read. */
export function passed(span: Span, key: Uint8Array): Span {
  if (span.reverse) return { ...span, high: key };
  const low = new Uint8Array(key.length + 1);
  low.set(key);
  return { ...span, low };
}

const larger = (a: Uint8Array, b: Uint8Array): Uint8Array => (compareBytes(a, b) >= 0 ? a : b);
const smaller = (a: Uint8Array, b: Uint8Array): Uint8Array => (compareBytes(a, b) <= 0 ? a : b);

// The position of a scan on a store that sorts bytes: a range, what was read of it, and jumps in it.

export abstract class SpanCursor<T extends AnyTable> implements Cursor<T> {
  protected readonly partitionBytes: number;
  /** The rest of the range. */
  protected span: Span;
  readonly #order: TableOrder;
  readonly #at: At<T>;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;

  constructor(order: TableOrder, at: At<T>, range: Range<T>) {
    this.partitionBytes = order.partitionKey(at.in as Columns).length;
    this.span = computeSpan(order, at.in as Columns, range);
    this.#order = order;
    this.#at = at;
    this.#isEmpty = (range.shard ?? 0) !== 0;
  }

  abstract next(count: number): Promise<readonly Stored<RowOf<T>>[]>;

  protected isDone(): boolean {
    return this.#isEmpty || compareBytes(this.span.low, this.span.high) >= 0;
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = this.#order.prefix(this.#at.in as Columns, key as Columns);
    this.span = skipTo(this.span, prefix, options.past ?? false);
  }
}
