/** The rows of the memory backend, in key order, with their expiry and their cursors. */
import type { Clock } from '../../../ports/clock.ts';
import type {
  AnyTable,
  At,
  Cursor,
  Range,
  Revision,
  RowOf,
  SortOf,
  Stored,
} from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns } from '../rows/order.ts';
import { computeSpan, passed, type Span, skipTo } from '../rows/span.ts';
import { frozenRow, zeroRow } from './frozen-row.ts';
import { Latest } from './latest.ts';
import { SortedMap } from './sorted-map.ts';

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
const keyText = (bytes: Uint8Array): string => String.fromCharCode.apply(null, bytes as unknown as number[]);
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

  #logOf(table: AnyTable, { keptInMemory }: NonNullable<AnyTable['log']>): Latest<Entry> {
    let log = this.#logs.get(table);
    if (log === undefined) {
      const max = { lines: keptInMemory, bytes: logBytesMax };
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
      for (const column in by) sums[column] = Number(sums[column]) + (by[column] as number);
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

  assertSameKey(at: At<AnyTable>, key: Columns, row: Columns): void {
    if (this.keyOf(at, key) !== this.keyOf(at, row)) {
      throw new Error(`an update of a row of ${at.table.name} changes its key`);
    }
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
