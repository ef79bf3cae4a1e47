/** The rows of the memory backend, in key order, with their expiry and their cursors. */
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  AnyTable,
  At,
  ColumnType,
  Cursor,
  Range,
  Revision,
  RowOf,
  SortOf,
  Stored,
} from '../../ports/metadata-store.ts';
import { buildOrder, type Columns, computeSpan, keyText, passed, type Span, skipTo } from './key-order.ts';

/** A row as readers get it, and its expiry. */
class Entry implements Stored<Columns> {
  readonly row: Columns;
  readonly revision: Revision;
  readonly #expiresAt: number;

  constructor({ row, revision }: Stored<Columns>, expiresAt: number) {
    this.row = row;
    this.revision = revision;
    this.#expiresAt = expiresAt;
  }

  /** Most rows never expire: for them the clock is not read. */
  isAlive(clock: Clock): boolean {
    return this.#expiresAt === never || this.#expiresAt > clock.now();
  }
}

const never = Number.POSITIVE_INFINITY;
const goneAlready = 0;
/** The limit of a log, whose rows can be large because they contain names from clients. */
const logBytesMax = 64 * 1024 * 1024;

/** A row of a log; a row without expiry has `null`, as JSON has it. */
const formatLine = ({ row, revision }: Stored<Columns>, expiresAt: number): string =>
  JSON.stringify([row, revision, expiresAt]);

function parseLine(table: AnyTable, line: string): readonly [key: string, entry: Entry] {
  const [row, revision, expiresAt] = JSON.parse(line) as [Columns, Revision, number | null];
  return [
    keyText(buildOrder(table).rowKey(row, row)),
    new Entry({ row: Object.freeze(row), revision }, expiresAt ?? never),
  ];
}

/** A validated change. */
export interface Prepared {
  /** The key of its row. */
  readonly key: string;
  /** Cannot fail. */
  write(revision: Revision): void;
}

const freedAtOnce = 8;

/** A row's key as text with one unit for each byte: JavaScript then compares it byte by byte. Spreading costs seven times as much. */
const keyBytes = (key: string): Uint8Array => Uint8Array.from(key, (unit) => unit.charCodeAt(0));

export class MemoryRows {
  readonly #clock: Clock;
  readonly #entries = new SortedMap<Entry>();
  /** Keys by the time at which their rows expire; a row written again since then is left alone. */
  readonly #expiring = new SortedMap<{ readonly key: string; readonly expiresAt: number }>();
  #nextExpiry = Number.POSITIVE_INFINITY;
  /** Tables that are not kept whole. */
  readonly #logs = new Map<AnyTable, Latest<Entry>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  partitionKey(at: At<AnyTable>): string {
    return keyText(buildOrder(at.table).partitionKey(at.in as Columns));
  }

  get(at: At<AnyTable>, key: Columns): Stored<Columns> | undefined {
    return this.find(at.table, this.keyOf(at, key));
  }

  find(table: AnyTable, key: string): Stored<Columns> | undefined {
    const entry = this.#entriesOf(table).get(key);
    return entry?.isAlive(this.#clock) ? entry : undefined;
  }

  preparedPut(at: At<AnyTable>, row: Columns, expiresAt = never): Prepared {
    const key = this.keyOf(at, row);
    const frozen = frozenRow(at.table, row);
    return { key, write: (revision) => this.#put(at.table, key, { row: frozen, revision }, expiresAt) };
  }

  #put(table: AnyTable, key: string, stored: Stored<Columns>, expiresAt = never): void {
    if (table.log !== undefined) {
      this.#logOf(table, table.log).put(formatLine(stored, expiresAt));
      return;
    }
    this.#entries.set(key, new Entry(stored, expiresAt));
    if (expiresAt < never) this.#expireAt(expiresAt, key);
  }

  #logOf(table: AnyTable, { linesInMemory }: NonNullable<AnyTable['log']>): Latest<Entry> {
    let log = this.#logs.get(table);
    if (log === undefined) {
      const max = { lines: linesInMemory, bytes: logBytesMax };
      log = new Latest(max, (line) => parseLine(table, line));
      this.#logs.set(table, log);
    }
    return log;
  }

  #entriesOf(table: AnyTable): SortedMap<Entry> {
    return table.log === undefined ? this.#entries : this.#logOf(table, table.log).ordered;
  }

  /** Each row that will expire makes room for some that have, so that there are never many more than are alive. */
  #expireAt(expiresAt: number, key: string): void {
    this.#expiring.set(`${timeText(expiresAt)}${key}`, { key, expiresAt });
    this.#nextExpiry = Math.min(this.#nextExpiry, expiresAt);
    if (this.#nextExpiry <= this.#clock.now()) this.#freeExpired(this.#clock.now());
  }

  #freeExpired(now: number): void {
    const due: (readonly [place: string, key: string])[] = [];
    this.#nextExpiry = Number.POSITIVE_INFINITY;
    for (const [place, { key, expiresAt }] of this.#expiring.between('', '~')) {
      if (expiresAt > now || due.length === freedAtOnce) {
        this.#nextExpiry = expiresAt;
        break;
      }
      due.push([place, key]);
    }
    for (const [place, key] of due) {
      this.#expiring.delete(place);
      if (this.#entries.get(key)?.isAlive(this.#clock) === false) this.#entries.delete(key);
    }
  }

  /** Rows that are kept, but for those of logs; those included that have expired and were not freed yet. */
  get size(): number {
    return this.#entries.size;
  }

  preparedRemove(at: At<AnyTable>, row: Columns): Prepared {
    const key = this.keyOf(at, row);
    const whole = { ...(at.in as Columns), ...row };
    return { key, write: (revision) => this.#remove(at.table, key, { row: whole, revision }) };
  }

  #remove(table: AnyTable, key: string, stored: Stored<Columns>): void {
    if (table.log === undefined) this.#entries.delete(key);
    else this.#put(table, key, stored, goneAlready);
  }

  preparedAdd(at: At<AnyTable>, row: Columns, by: Readonly<Record<string, number>>): Prepared {
    const key = this.keyOf(at, row);
    const zero = this.find(at.table, key)?.row ?? zeroRow(at.table, { ...(at.in as Columns), ...row });
    const write = (revision: Revision): void => {
      // Read again: an addition before this one, in the same commit, may be to the same row.
      const sums: Record<string, unknown> = { ...(this.find(at.table, key)?.row ?? zero) };
      for (const column in by) {
        const [former, amount] = [Number(sums[column]), by[column] as number];
        sums[column] = at.table.maxima?.includes(column) ? Math.max(former, amount) : former + amount;
      }
      this.#put(at.table, key, { row: Object.freeze(sums), revision });
    };
    return { key, write };
  }

  /** The next rows of a span, and what is left of it. */
  read(
    table: AnyTable,
    span: Span,
    count: number,
  ): { readonly rows: Stored<Columns>[]; readonly rest: Span } {
    const [low, high] = [keyText(span.low), keyText(span.high)];
    const rows: Stored<Columns>[] = [];
    let last: string | undefined;
    const entries = this.#entriesOf(table);
    const walk = span.reverse ? entries.backwards(low, high) : entries.between(low, high);
    for (const [key, entry] of count > 0 && low < high ? walk : []) {
      if (!entry.isAlive(this.#clock)) continue;
      rows.push(entry);
      last = key;
      if (rows.length === count) break;
    }
    return { rows, rest: last === undefined ? span : passed(span, keyBytes(last)) };
  }

  clear(table: AnyTable, span: Span): void {
    const doomed = [...this.#entriesOf(table).between(keyText(span.low), keyText(span.high))];
    for (const [key, entry] of doomed) this.#remove(table, key, entry);
  }

  keyOf(at: At<AnyTable>, row: Columns): string {
    return keyText(buildOrder(at.table).rowKey(at.in as Columns, row));
  }
}

const timeText = (ms: number): string => Math.ceil(ms).toString().padStart(16, '0');

export class MemoryCursor<T extends AnyTable> implements Cursor<T> {
  readonly #rows: MemoryRows;
  readonly #at: At<T>;
  readonly #count: number;
  #span: Span;

  constructor(rows: MemoryRows, at: At<T>, range: Range<T>) {
    this.#rows = rows;
    this.#at = at;
    this.#span = computeSpan(buildOrder(at.table), at.in as Columns, range);
    // There is only shard 0; the others are empty.
    this.#count = (range.shard ?? 0) === 0 ? Number.POSITIVE_INFINITY : 0;
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { rows, rest } = this.#rows.read(this.#at.table, this.#span, Math.min(count, this.#count));
    this.#span = rest;
    return rows as unknown as readonly Stored<RowOf<T>>[];
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = buildOrder(this.#at.table).prefix(this.#at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}

// A row as the memory backend keeps it: a copy that neither its writer nor its readers can change.
// Every column is checked against the declaration, so that a row which another backend could not keep
// fails here first.

function frozenRow(table: AnyTable, row: Columns): Columns {
  // Copied whole and then processed, because building it column by column costs three times as much.
  const retained: Record<string, unknown> = { ...row };
  for (const column in retained) {
    const type = table.columns[column]?.type;
    if (type === undefined) throw new Error(`${table.name} declares no column ${column}`);
    const value = retained[column];
    if (value === undefined) delete retained[column];
    else if (type === 'json') retained[column] = frozenCopy(value);
    else if (type === 'blob' && value instanceof Uint8Array) retained[column] = Uint8Array.from(value);
    else if (!hasType(type, value)) {
      throw new Error(`${table.name}.${column} takes ${type}, not ${JSON.stringify(value)}`);
    }
  }
  return Object.freeze(retained);
}

/** A counter row starts at 0, in every column that is no part of its key. */
function zeroRow(table: AnyTable, key: Columns): Columns {
  const keyColumns: readonly string[] = [...table.partition, ...table.sort];
  const zero: Record<string, unknown> = {};
  for (const [column, { type }] of Object.entries(table.columns)) {
    if (type === 'int' && !keyColumns.includes(column) && !keyColumns.includes(`-${column}`))
      zero[column] = 0;
  }
  return frozenRow(table, { ...zero, ...key });
}

function hasType(type: Exclude<ColumnType, 'json'>, value: unknown): boolean {
  switch (type) {
    case 'text':
      return typeof value === 'string';
    case 'int':
      return Number.isSafeInteger(value);
    case 'bool':
      return typeof value === 'boolean';
    case 'blob':
      return value instanceof Uint8Array;
  }
}

/** A copy as JSON would make it, of what JSON can say. */
function frozenCopy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy));
  const copy: Record<string, unknown> = { ...value };
  for (const name in copy) {
    if (copy[name] === undefined) delete copy[name];
    else copy[name] = frozenCopy(copy[name]);
  }
  return Object.freeze(copy);
}

// The latest rows of a log, as lines of JSON outside of the heap: what is kept there for a while and then dropped costs
// the collector more than all else that is done to it. A log is written with every request and hardly ever read: a
// reader sorts what was appended since the last read.

const segmentBytes = 256 * 1024;

interface Segment<Value> {
  readonly bytes: Uint8Array;
  used: number;
  lines: number;
  /** The entries that were parsed so far, up to a byte position. */
  readonly entries: (readonly [key: string, value: Value])[];
  read: number;
}

/** Lines are kept at least, unless their segments have more bytes. */
interface LatestMax {
  readonly lines: number;
  readonly bytes: number;
}

const encoder = new TextEncoder();

class Latest<Value> {
  readonly #max: LatestMax;
  readonly #entryOf: (line: string) => readonly [key: string, value: Value];
  /** The oldest first. */
  readonly #segments: Segment<Value>[] = [];
  readonly #ordered = new SortedMap<Value>();
  #lines = 0;
  #bytes = 0;

  /** @param entryOf reads what was put */
  constructor(max: LatestMax, entryOf: (line: string) => readonly [key: string, value: Value]) {
    this.#max = max;
    this.#entryOf = entryOf;
  }

  /** @param line without a line break */
  put(line: string): void {
    const last = this.#segments.at(-1);
    if (last === undefined || !append(last, line)) append(this.#grown(line.length), line);
    this.#lines += 1;
    this.#dropOldest();
  }

  #grown(length: number): Segment<Value> {
    const bytes = new Uint8Array(Math.max(segmentBytes, 3 * length + 1));
    const segment = { bytes, used: 0, lines: 0, entries: [], read: 0 };
    this.#segments.push(segment);
    this.#bytes += bytes.length;
    return segment;
  }

  #dropOldest(): void {
    const [oldest, next] = this.#segments;
    if (oldest === undefined || next === undefined) return;
    if (this.#lines - oldest.lines < this.#max.lines && this.#bytes <= this.#max.bytes) return;
    this.#segments.shift();
    this.#lines -= oldest.lines;
    this.#bytes -= oldest.bytes.length;
    // Unless it was put again since.
    for (const [key, value] of oldest.entries)
      if (this.#ordered.get(key) === value) this.#ordered.delete(key);
  }

  /** The latest entry under each key; valid until the next put. */
  get ordered(): SortedMap<Value> {
    for (const segment of this.#segments) if (segment.read < segment.used) this.#read(segment);
    return this.#ordered;
  }

  #read(segment: Segment<Value>): void {
    const lines = decodeUtf8(segment.bytes.subarray(segment.read, segment.used - 1)).split('\n');
    for (const entry of lines.map(this.#entryOf)) {
      segment.entries.push(entry);
      this.#ordered.set(...entry);
    }
    segment.read = segment.used;
  }
}

/** @returns false where the segment has no space for it */
function append(segment: Segment<unknown>, line: string): boolean {
  const { read, written } = encoder.encodeInto(`${line}\n`, segment.bytes.subarray(segment.used));
  if (read <= line.length) return false;
  segment.used += written;
  segment.lines += 1;
  return true;
}

// A map in key order: a hash table finds an entry, and sorted blocks of at most 512 keys know the order, so that an insertion moves one
// block's keys and not the whole map's, and overwriting moves nothing.

const blockSize = 512;

interface Place {
  block: number;
  slot: number;
}

class SortedMap<Value> {
  readonly #values = new Map<string, Value>();
  readonly #blocks: string[][] = [[]];

  get size(): number {
    return this.#values.size;
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    const { size } = this.#values;
    this.#values.set(key, value);
    if (this.#values.size > size) this.#insert(key);
  }

  #insert(key: string): void {
    const { block, slot } = this.#place(key);
    const keys = this.#block(block);
    keys.splice(slot, 0, key);
    if (keys.length > blockSize) this.#blocks.splice(block + 1, 0, keys.splice(keys.length >> 1));
  }

  delete(key: string): void {
    if (!this.#values.delete(key)) return;
    const { block, slot } = this.#place(key);
    const keys = this.#block(block);
    keys.splice(slot, 1);
    if (keys.length === 0 && this.#blocks.length > 1) this.#blocks.splice(block, 1);
  }

  /** The entries from `low` (inclusive) to `high` (exclusive), each in its state when it is reached. */
  *between(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(low);
    for (; block < this.#blocks.length; block++, slot = 0) {
      const keys = this.#block(block);
      for (; slot < keys.length; slot++) {
        const key = keys[slot] as string;
        if (key >= high) return;
        yield [key, this.#values.get(key) as Value];
      }
    }
  }

  /** The same entries from the last to the first. */
  *backwards(low: string, high: string): Generator<readonly [key: string, value: Value]> {
    let { block, slot } = this.#place(high);
    for (slot--; block >= 0; slot = this.#lengthOf(--block) - 1) {
      const keys = this.#block(block);
      for (; slot >= 0; slot--) {
        const key = keys[slot] as string;
        if (key < low) return;
        yield [key, this.#values.get(key) as Value];
      }
    }
  }

  /** The place of a key, or where it would be inserted. */
  #place(key: string): Place {
    const last = this.#blocks.length - 1;
    const block = firstWhere(last, (index) => (this.#block(index).at(-1) as string) >= key);
    const keys = this.#block(block);
    return { block, slot: firstWhere(keys.length, (index) => (keys[index] as string) >= key) };
  }

  #block(index: number): string[] {
    return this.#blocks[index] as string[];
  }

  #lengthOf(index: number): number {
    return this.#blocks[index]?.length ?? 0;
  }
}

/** The lowest index for which `holds` is true, given that it is true for all above; `end` if there is none. */
function firstWhere(end: number, holds: (index: number) => boolean): number {
  let low = 0;
  let high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
