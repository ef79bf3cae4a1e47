/**
 * Reads some values of a row, which is one msgpack array, and skips the others: a page of a listing needs few columns of a thousand rows.
 * Whole rows are unpacked by the library that packs them.
 */
import { Packr } from 'msgpackr';
import type { AnyTable, ColumnType, CopiedRow, Revision, Stored } from '../../ports/metadata-store.ts';
import {
  buildOrder,
  type Columns,
  type DecodeText,
  decodePortably,
  type Span,
  type TableOrder,
} from './key-order.ts';

const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true });

/** Every value packs to at least one byte. @returns a copy, because the packer reuses its buffer */
export const pack = (value: unknown): Uint8Array => new Uint8Array(packr.pack(value));
/** Blobs in the value share the memory of `bytes`. */
export const unpack = (bytes: Uint8Array): unknown => packr.unpack(bytes);
export const unpackRow = (bytes: Uint8Array | undefined): StoredRow | undefined =>
  bytes === undefined ? undefined : (packr.unpack(bytes) as StoredRow);
/** A row, or those of its columns that the caller needs. */
export const unpackSome = (bytes: Uint8Array, requested: Requested | undefined): StoredRow =>
  requested === undefined
    ? (packr.unpack(bytes) as StoredRow)
    : readSome(bytes, { requested, decode: decodeRowText });

/** By position: true for the columns that the caller needs, up to the last of them. */
export type Requested = readonly boolean[];

/** From `unsigned` on, a tag is followed by bytes to skip. */
const is = {
  small: 0,
  nil: 1,
  no: 2,
  yes: 3,
  array: 4,
  map: 5,
  unsigned: 6,
  signed: 7,
  double: 8,
  text: 9,
  bytes: 10,
} as const;
type Kind = (typeof is)[keyof typeof is];

/** The bytes after a tag: for numbers their length, for others the length of the size field. */
type Tag = readonly [kind: Kind, bytes: number];
const tags = new Map<number, Tag>([
  [0xc0, [is.nil, 0]],
  [0xc2, [is.no, 0]],
  [0xc3, [is.yes, 0]],
  [0xc4, [is.bytes, 1]],
  [0xc5, [is.bytes, 2]],
  [0xc6, [is.bytes, 4]],
  [0xcb, [is.double, 8]],
  [0xcc, [is.unsigned, 1]],
  [0xcd, [is.unsigned, 2]],
  [0xce, [is.unsigned, 4]],
  [0xd0, [is.signed, 1]],
  [0xd1, [is.signed, 2]],
  [0xd2, [is.signed, 4]],
  [0xd9, [is.text, 1]],
  [0xda, [is.text, 2]],
  [0xdb, [is.text, 4]],
  [0xdc, [is.array, 2]],
  [0xdd, [is.array, 4]],
  [0xde, [is.map, 2]],
  [0xdf, [is.map, 4]],
]);
const tagged = Array.from({ length: 256 }, (_, tag) => tags.get(tag));

// Reading never awaits, so one place serves all.
let row = new Uint8Array(0);
let at = 0;
let decodeText: DecodeText;
/** Of the value whose tag was read last. */
let kind: Kind = is.nil;
/** For a small number its value; for other numbers, text and bytes their length; for arrays and maps the number of values. */
let size = 0;

interface ReadSome {
  readonly requested: Requested;
  readonly decode: DecodeText;
  /** The position of the row in the bytes. Default 0. */
  readonly from?: number;
  /** An array for the values, of a caller that uses them up before its next row. */
  readonly into?: unknown[];
}

/** The values at the requested positions; the others are holes, or undefined in an array of the caller. */
export function readSome(packed: Uint8Array, { requested, decode, from = 0, into }: ReadSome): unknown[] {
  row = packed as Uint8Array<ArrayBuffer>;
  at = from;
  decodeText = decode;
  readTag();
  if (kind !== is.array) throw new Error('a row is an array');
  const count = Math.min(size, requested.length);
  const values = into ?? new Array<unknown>(count);
  values.length = count;
  for (let place = 0; place < count; place++) {
    if (requested[place]) values[place] = read();
    else {
      // What a row before it has left there.
      if (into !== undefined) into[place] = undefined;
      skip();
    }
  }
  return values;
}

function readTag(): void {
  const tag = row[at++] as number;
  if (tag < 0x80) found(is.small, tag);
  else if (tag < 0x90) found(is.map, tag & 0x0f);
  else if (tag < 0xa0) found(is.array, tag & 0x0f);
  else if (tag < 0xc0) found(is.text, tag & 0x1f);
  else if (tag >= 0xe0) found(is.small, tag - 0x100);
  else {
    const known = tagged[tag];
    if (known === undefined) throw new Error(`rows hold no 0x${tag.toString(16)}`);
    const [is, bytes] = known;
    found(is, isNumber(is) ? bytes : readUnsigned(bytes));
  }
}

const isNumber = (each: Kind): boolean => each >= is.unsigned && each <= is.double;

function found(its: Kind, length: number): void {
  kind = its;
  size = length;
}

function skip(): void {
  for (let left = 1; left > 0; left--) {
    readTag();
    if (kind === is.map) left += 2 * size;
    else if (kind === is.array) left += size;
    else if (kind >= is.unsigned) at += size;
  }
}

function read(): unknown {
  readTag();
  switch (kind) {
    case is.small:
      return size;
    case is.nil:
      return null;
    case is.no:
      return false;
    case is.yes:
      return true;
    case is.unsigned:
      return readUnsigned(size);
    case is.signed:
      return readSigned(size);
    case is.double:
      return readDouble();
    case is.text:
      return readText(size);
    case is.bytes:
      at += size;
      return new Uint8Array(row.subarray(at - size, at));
    case is.array:
      return Array.from({ length: size }, read);
    default:
      return readMap(size);
  }
}

function readUnsigned(bytes: number): number {
  let value = 0;
  for (const end = at + bytes; at < end; ) value = value * 256 + (row[at++] as number);
  return value;
}

function readSigned(bytes: number): number {
  const value = readUnsigned(bytes);
  const beyond = 2 ** (8 * bytes);
  return value < beyond / 2 ? value : value - beyond;
}

const double = new DataView(new ArrayBuffer(8));
function readDouble(): number {
  for (let i = 0; i < 8; i++) double.setUint8(i, row[at++] as number);
  return double.getFloat64(0);
}

function readMap(count: number): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (let i = 0; i < count; i++) {
    const name = read() as string;
    values[name] = read();
  }
  return values;
}

/** Short texts are the same in row after row: names of properties, storage classes, owners. Each slot has the last of its kind. */
const repeatedMax = 16;
const repeated = Array.from({ length: 256 }, () => ({
  length: 0,
  bytes: new Uint8Array(repeatedMax),
  text: '',
}));

function readText(length: number): string {
  const from = at;
  at += length;
  if (length > repeatedMax) return decodeText(row, from, at);
  const ends = 31 * (row[from] as number) + 17 * (row[at - 1] as number);
  const last = repeated[(length + ends) & 0xff] as (typeof repeated)[number];
  let same = last.length === length ? 0 : -1;
  while (same >= 0 && same < length) same = last.bytes[same] === row[from + same] ? same + 1 : -1;
  if (same < 0) {
    for (let i = 0; i < length; i++) last.bytes[i] = row[from + i] as number;
    last.length = length;
    last.text = decodeText(row, from, at);
  }
  return last.text;
}

interface RuntimeBuffer extends Uint8Array {
  toString(encoding?: 'utf8', start?: number, end?: number): string;
}
interface RuntimeBuffers {
  from(bytes: ArrayBufferLike, offset: number, length: number): RuntimeBuffer;
  [Symbol.hasInstance](value: unknown): boolean;
}
const { Buffer: buffers } = globalThis as { Buffer?: RuntimeBuffers };

/** Text out of keys and rows: with a Buffer at half the price of a TextDecoder. Runtimes without them use the decoder. */
export const decodeRowText: DecodeText =
  buffers === undefined
    ? decodePortably
    : (bytes, start, end) => {
        const buffer =
          bytes instanceof buffers
            ? (bytes as RuntimeBuffer)
            : buffers.from(bytes.buffer, bytes.byteOffset, bytes.length);
        return buffer.toString('utf8', start, end);
      };

// The format of rows in the backends that sort bytes: key columns in the key only, the others as one array after revision and expiry,
// which the backend encodes as msgpack. An absent value is nil; see `packable` for JSON.

/** `[revision, expiresAt, ...values]` */
export type StoredRow = unknown[];

const leading = 2;

interface ValueColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** The position of its value in a stored row. */
  readonly place: number;
  /** Of a counter: it keeps the largest amount, and not the sum. */
  readonly isMaximum: boolean;
}

/** The columns that a reader needs, and the positions of their values; `requested` is absent for all columns. */
export interface Projection {
  readonly columns: readonly ValueColumn[];
  readonly requested?: Requested;
}

interface Packed {
  readonly stored: StoredRow;
  readonly partition: Columns;
  readonly columns: readonly ValueColumn[];
}

export class RowCodec {
  readonly table: AnyTable;
  readonly order: TableOrder;
  /**
   * The layout of the rows as data: values are stored by position, so a release may only append columns. A backend
   * stores it beside the data and compares it, because reading values at wrong positions would return wrong data
   * silently.
   */
  readonly layout: readonly string[];
  readonly #keyBytesMax: number;
  readonly #columns: readonly ValueColumn[];
  readonly #projections = new WeakMap<readonly string[], Projection>();

  constructor(table: AnyTable, keyBytesMax: number) {
    this.table = table;
    this.order = buildOrder(table);
    this.#keyBytesMax = keyBytesMax;
    const keyColumns = [...this.order.partitionColumns, ...this.order.sortColumns];
    this.#columns = Object.entries(table.columns)
      .filter(([name]) => !keyColumns.includes(name))
      .map(([name, { type }], i) => ({
        name,
        type,
        place: leading + i,
        isMaximum: table.maxima?.includes(name) ?? false,
      }));
    const names = this.#columns.map((column) => column.name);
    this.layout = [...table.partition, '/', ...table.sort, '/', ...names] as string[];
  }

  key(partition: object, row: object): Uint8Array {
    const key = this.order.rowKey(partition as Columns, row as Columns);
    if (key.length > this.#keyBytesMax)
      throw new Error(`a key of ${this.table.name} takes ${this.#keyBytesMax} bytes, not ${key.length}`);
    return key;
  }

  /** Revision and expiry are filled in by the transaction that writes the row. */
  encode(row: Columns): StoredRow {
    const stored: StoredRow = new Array(leading + this.#columns.length);
    for (const { name, type, place } of this.#columns) {
      const value = row[name];
      stored[place] = type === 'json' && value !== undefined ? encodeJson(value) : value;
    }
    return stored;
  }

  /** @param columns the ones that the reader needs, in an array that lives as long as the reader, because projections are cached by it */
  projection(columns?: readonly string[]): Projection {
    if (columns === undefined) return { columns: this.#columns };
    let known = this.#projections.get(columns);
    if (known === undefined) {
      const some = this.#columns.filter(({ name }) => columns.includes(name));
      const count = (some.at(-1)?.place ?? leading - 1) + 1;
      const places = new Set(some.map(({ place }) => place));
      const requested = Array.from({ length: count }, (_, place) => place < leading || places.has(place));
      known = { columns: some, requested };
      this.#projections.set(columns, known);
    }
    return known;
  }

  /** @param sort an object that holds the sort columns */
  decode<Row>(stored: StoredRow, partition: Columns, sort: Columns): Stored<Row> {
    const row: Record<string, unknown> = {};
    for (const name of this.order.sortColumns) row[name] = sort[name];
    return this.complete(row, { stored, partition, columns: this.#columns });
  }

  /** @param row holds the sort columns, and gets the others */
  complete<Row>(row: Record<string, unknown>, { stored, partition, columns }: Packed): Stored<Row> {
    for (const name of this.order.partitionColumns) row[name] = partition[name];
    for (const { name, type, place } of columns) {
      const value = stored[place];
      if (value !== null && value !== undefined) row[name] = decodeValue(type, value);
      else if (this.table.kind === 'counter' && type === 'int') row[name] = 0;
    }
    return { row: row as Row, revision: readRevision(stored) };
  }

  /** Adds to a stored counter row in place. */
  add(stored: StoredRow, by: Readonly<Record<string, number>>): void {
    for (const { name, place, isMaximum } of this.#columns) {
      const amount = by[name];
      if (amount === undefined) continue;
      const former = (stored[place] ?? 0) as number;
      stored[place] = isMaximum ? Math.max(former, amount) : former + amount;
    }
  }
}

/** Names those that differ. @throws when rows that are kept by `noted` cannot be read by `layout` */
export function assertSameLayout(name: string, noted: readonly string[], layout: readonly string[]): void {
  const shared = Math.min(noted.length, layout.length);
  if (noted.slice(0, shared).join() === layout.slice(0, shared).join()) return;
  throw new Error(`the metadata keeps ${name} as ${noted.join()}, this release as ${layout.join()}`);
}

/**
 * JSON is stored as msgpack where that is exact, because it decodes in half the time, and as JSON text otherwise: so a stored text is
 * always JSON.
 */
const encodeJson = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && packable(value) ? value : JSON.stringify(value);

/** False for undefined (it would become null), objects with a toJSON, and `__proto__` (decoders rename it). */
function packable(value: unknown): boolean {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return false;
  if (Array.isArray(value)) return value.every(packable);
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const name of Object.keys(value)) {
    if (name === '__proto__' || !packable((value as Columns)[name])) return false;
  }
  return true;
}

function decodeValue(type: ColumnType, value: unknown): unknown {
  if (type === 'json') return typeof value === 'string' ? JSON.parse(value) : value;
  if (type !== 'blob') return value;
  // A Buffer's slice() shares memory, a plain array's copies; the port promises a copy.
  const { buffer, byteOffset, byteLength } = value as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

export const readRevision = (stored: StoredRow): Revision => String(stored[0]) as Revision;

/** Whether a row exists for a reader at `now`. */
export function isAlive(stored: StoredRow | undefined, now: number): stored is StoredRow {
  if (stored === undefined) return false;
  const expiresAt = stored[1];
  return expiresAt === null || expiresAt === undefined || (expiresAt as number) > now;
}

// Copies of all rows of a table, for the backends that sort rows by their encoded keys.

export const rowsPerPage = 1_000;

/** The keys of a table, from behind a position on. */
export function tableSpan({ name }: Pick<AnyTable, 'name'>, position: string | undefined): Span {
  const prefix = new TextEncoder().encode(name);
  const bound = (end: number): Uint8Array => Uint8Array.of(...prefix, end);
  const low = position === undefined ? bound(0) : Uint8Array.of(...decodePosition(position), 0);
  return { low, high: bound(1), reverse: false };
}

export const encodePosition = (key: Uint8Array): string => btoa(String.fromCharCode(...key));

const decodePosition = (position: string): Uint8Array =>
  Uint8Array.from(atob(position), (char) => char.charCodeAt(0));

export function copiedRow(codec: RowCodec, key: Uint8Array, stored: StoredRow): CopiedRow {
  const columns = codec.order.columnsOf(key);
  const { row } = codec.decode<object>(stored, columns, columns);
  const expiresAt = stored[1];
  return typeof expiresAt === 'number' ? { row, expiresAt } : { row };
}
