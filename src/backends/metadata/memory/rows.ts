/** The rows of the memory backend, in key order, with their expiry and their cursors (design §5). */
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
import { type Columns, orderOf } from '../order.ts';
import { passed, type Span, skipTo, spanOf } from '../span.ts';
import { frozenRow, zeroRow } from './frozen-row.ts';
import { SortedMap } from './sorted-map.ts';

interface Entry extends Stored<Columns> {
  readonly expiresAt: number;
}

/** A change whose row is known to be sound. */
export interface Prepared {
  /** Of the row that it is about. */
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
  /** Keys of tables that are not kept whole, and a walk over them from the oldest on. */
  readonly #latest = new Map<AnyTable, { readonly keys: Set<string>; readonly walk: Iterator<string> }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  partitionKey(at: At<AnyTable>): string {
    return keyText(orderOf(at.table).partitionKey(at.in as Columns));
  }

  get(at: At<AnyTable>, key: Columns): Stored<Columns> | undefined {
    return this.find(this.keyOf(at, key));
  }

  find(key: string): Stored<Columns> | undefined {
    return this.#alive(this.#entries.get(key));
  }

  preparedPut(at: At<AnyTable>, row: Columns, expiresAt = Number.POSITIVE_INFINITY): Prepared {
    const key = this.keyOf(at, row);
    const frozen = frozenRow(at.table, row);
    const write = (revision: Revision): void => {
      this.#entries.set(key, { row: frozen, revision, expiresAt });
      if (at.table.log !== undefined) this.#displace(at.table, key);
      else if (expiresAt < Number.POSITIVE_INFINITY) this.#expireAt(expiresAt, key);
    };
    return { key, write };
  }

  /** A row of a table that is not kept whole takes the place of the oldest; when that expires does not matter then. */
  #displace(table: AnyTable, key: string): void {
    let latest = this.#latest.get(table);
    if (latest === undefined) {
      const keys = new Set<string>();
      // One walk for good: another would begin at the holes that the oldest have left.
      latest = { keys, walk: keys.values() };
      this.#latest.set(table, latest);
    }
    latest.keys.add(key);
    if (latest.keys.size <= (table.log?.keptInMemory ?? 0)) return;
    const oldest: string = latest.walk.next().value;
    latest.keys.delete(oldest);
    this.#entries.delete(oldest);
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
      if ((this.#entries.get(key)?.expiresAt ?? now + 1) <= now) this.#entries.delete(key);
    }
  }

  /** Rows that are kept, those included that have expired and were not freed yet. */
  get size(): number {
    return this.#entries.size;
  }

  preparedRemove(at: At<AnyTable>, row: Columns): Prepared {
    const key = this.keyOf(at, row);
    return { key, write: () => this.#entries.delete(key) };
  }

  preparedAdd(at: At<AnyTable>, row: Columns, by: Readonly<Record<string, number>>): Prepared {
    const key = this.keyOf(at, row);
    const zero = this.find(key)?.row ?? zeroRow(at.table, { ...(at.in as Columns), ...row });
    const write = (revision: Revision): void => {
      // Read again: an addition before this one, in the same commit, may be to the same row.
      const sums: Record<string, unknown> = { ...(this.find(key)?.row ?? zero) };
      for (const column in by) sums[column] = Number(sums[column]) + (by[column] as number);
      const expiresAt = Number.POSITIVE_INFINITY;
      this.#entries.set(key, { row: Object.freeze(sums), revision, expiresAt });
    };
    return { key, write };
  }

  /** The next rows of a span, and what is left of it. */
  read(span: Span, count: number): { readonly rows: Stored<Columns>[]; readonly rest: Span } {
    const [low, high] = [keyText(span.low), keyText(span.high)];
    const rows: Stored<Columns>[] = [];
    let last: string | undefined;
    const walk = span.reverse ? this.#entries.backwards(low, high) : this.#entries.between(low, high);
    for (const [key, entry] of count > 0 && low < high ? walk : []) {
      const alive = this.#alive(entry);
      if (alive === undefined) continue;
      rows.push(alive);
      last = key;
      if (rows.length === count) break;
    }
    return { rows, rest: last === undefined ? span : passed(span, keyBytes(last)) };
  }

  clear(span: Span): void {
    const doomed = [...this.#entries.between(keyText(span.low), keyText(span.high))];
    for (const [key] of doomed) this.#entries.delete(key);
  }

  assertSameKey(at: At<AnyTable>, key: Columns, row: Columns): void {
    if (this.keyOf(at, key) !== this.keyOf(at, row)) {
      throw new Error(`an update of a row of ${at.table.name} changes its key`);
    }
  }

  keyOf(at: At<AnyTable>, row: Columns): string {
    return keyText(orderOf(at.table).rowKey(at.in as Columns, row));
  }

  #alive(entry: Entry | undefined): Stored<Columns> | undefined {
    if (entry === undefined || entry.expiresAt <= this.#clock.now()) return undefined;
    return { row: entry.row, revision: entry.revision };
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
    this.#span = spanOf(orderOf(at.table), at.in as Columns, range);
    // There is one shard, number 0; the others are empty.
    this.#count = (range.shard ?? 0) === 0 ? Number.POSITIVE_INFINITY : 0;
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { rows, rest } = this.#rows.read(this.#span, Math.min(count, this.#count));
    this.#span = rest;
    return rows as unknown as readonly Stored<RowOf<T>>[];
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = orderOf(this.#at.table).prefix(this.#at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}
