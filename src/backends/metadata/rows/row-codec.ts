/**
 * The format of rows in the backends that sort bytes: key columns in the key only, the others as one array after revision and expiry,
 * which the backend encodes as msgpack. An absent value is nil; see `packable` for JSON.
 */
import type { AnyTable, ColumnType, Revision, Stored } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, type TableOrder } from './order.ts';
import type { Wanted } from './packed-row.ts';

/** `[revision, expiresAt, ...values]` */
export type StoredRow = unknown[];

const leading = 2;

interface ValueColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** The position of its value in a stored row. */
  readonly place: number;
}

/** The columns that a reader needs, and the positions of their values; `wanted` is absent for all columns. */
export interface Projection {
  readonly columns: readonly ValueColumn[];
  readonly wanted?: Wanted;
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
   * The layout of the rows as data: values are stored by position, so a release may only append columns. A backend stores it beside the data
   * and compares it, because reading values at wrong positions would return wrong data silently.
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
    this.#columns = Object.entries(table.columns as Record<string, ColumnType>)
      .filter(([name]) => !keyColumns.includes(name))
      .map(([name, type], i) => ({ name, type, place: leading + i }));
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
      const wanted = Array.from({ length: count }, (_, place) => place < leading || places.has(place));
      known = { columns: some, wanted };
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
    for (const { name, place } of this.#columns) {
      const amount = by[name];
      if (amount !== undefined) stored[place] = ((stored[place] ?? 0) as number) + amount;
    }
  }
}

/** Names those that differ. @throws when rows that are kept by `noted` cannot be read by `layout` */
export function assertSameLayout(name: string, noted: readonly string[], layout: readonly string[]): void {
  const shared = Math.min(noted.length, layout.length);
  if (noted.slice(0, shared).join() === layout.slice(0, shared).join()) return;
  throw new Error(`the data directory keeps ${name} as ${noted.join()}, this release as ${layout.join()}`);
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
