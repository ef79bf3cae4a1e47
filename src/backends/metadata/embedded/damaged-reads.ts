/**
 * Reads of a metadata file with damage: the sweep of expired rows continues after what is damaged, and a check of the whole file names all
 * of it as operators and fsck know it. Scans are in `store.ts`.
 */
import { closeSync, openSync } from 'node:fs';
import { type AnyTable, MetadataDamaged, type MetadataFault } from '../../../ports/metadata-store.ts';
import { buildOrder, compareBytes, passed, type Span } from '../key-order.ts';
import { expiryKey, expiryTime, kindSpan, rowKeyOf, space } from '../records/codec.ts';
import { removalsPerTransaction, removeExpired } from '../records/expiries.ts';
import { checkPages, type PageFault } from './check-pages.ts';
import type { CheckedDatabase } from './checked-database.ts';
import { showKey } from './damage.ts';
import { PageDamaged, passedPage, rangesMax } from './damaged-pages.ts';
import type { Journal } from './journal.ts';
import { dataFile } from './meta-page.ts';

// Rows that expire: an index entry for each, sorted by time, and the sweep that removes both when they are due.

interface ExpiryPorts {
  readonly database: CheckedDatabase;
  readonly journal: Journal;
  /** Called once for each damaged row, up to `reportsMax` of them. */
  readonly onDamage?: ((damage: MetadataDamaged) => void) | undefined;
}

const reportsMax = 100;

/** Entries that are due, and the position of the next page; undefined after the last one. */
interface Due {
  readonly entries: readonly Uint8Array[];
  readonly left: Span | undefined;
}

export class Expiries {
  readonly #ports: ExpiryPorts;
  readonly #reported = new Set<string>();
  /** Until something is committed, no row expires before this time. */
  #quietUntil = Number.NEGATIVE_INFINITY;
  #hasChanged = (): boolean => true;

  constructor(ports: ExpiryPorts) {
    this.#ports = ports;
  }

  /** Removes the rows that are due. A damaged row stays, with its entry, and the sweep continues after it. */
  async sweep(now: number): Promise<void> {
    if (now < this.#quietUntil && !this.#hasChanged()) return;
    this.#hasChanged = this.#ports.database.watchCommits();
    this.#quietUntil = Number.NEGATIVE_INFINITY;
    const { database } = this.#ports;
    let span: Span | undefined = {
      low: Uint8Array.of(space.expiry),
      high: expiryKey(now + 1),
      reverse: false,
    };
    while (span !== undefined) {
      const { entries, left }: Due = this.#due(span);
      // Read ahead of the transaction, because lmdb refuses everything else in one that has met a damaged page.
      const sound = entries.filter((entry) => this.#hasSoundRow(entry));
      if (sound.length > 0)
        await this.#ports.journal.submit(() => removeExpired(database, sound, now), { frees: true });
      span = left;
    }
    this.#quietUntil = this.#firstAfter(now);
  }

  /** When the next row expires. */
  #firstAfter(now: number): number {
    const { database } = this.#ports;
    // From the same key each time, so that an idle process notes nothing new of where it reads. Only damaged rows are still due.
    const span = kindSpan('expiry');
    let first = Number.NEGATIVE_INFINITY;
    database.refresh();
    try {
      database.read(span, (entry) => {
        first = expiryTime(entry);
        return first <= now;
      });
      return first > now ? first : Number.POSITIVE_INFINITY;
    } catch (cause) {
      this.#report(cause);
      return Number.NEGATIVE_INFINITY;
    }
  }

  #due(span: Span): Due {
    const entries: Uint8Array[] = [];
    const { database } = this.#ports;
    database.refresh();
    try {
      const visit = (key: Uint8Array): boolean => entries.push(key) < removalsPerTransaction;
      const isEnd = database.read(span, visit, { isBehindDamage: true });
      return { entries, left: isEnd ? undefined : passed(span, entries.at(-1) as Uint8Array) };
    } catch (cause) {
      const damage = this.#report(cause);
      if (damage instanceof PageDamaged) return { entries, left: leftOf(passedPage(span, damage.range)) };
      const { key } = damage;
      // The place of a key that is out of order says nothing about the keys after it.
      const isInside = compareBytes(key, entries.at(-1) ?? span.low) > 0 && compareBytes(key, span.high) < 0;
      return { entries, left: isInside ? passed(span, key) : undefined };
    }
  }

  #hasSoundRow(entry: Uint8Array): boolean {
    try {
      const key = rowKeyOf(entry);
      this.#ports.database.find(key);
      this.#ports.database.assertRemovable(key);
      this.#ports.database.assertRemovable(entry);
      return true;
    } catch (cause) {
      this.#report(cause);
      return false;
    }
  }

  /** @throws what is no damage */
  #report(cause: unknown): MetadataDamaged {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    const name = `${cause.table} ${cause.row}`;
    if (!this.#reported.has(name) && this.#reported.size < reportsMax) {
      this.#reported.add(name);
      this.#ports.onDamage?.(cause);
    }
    return cause;
  }
}

const leftOf = (span: Span): Span | undefined => (compareBytes(span.low, span.high) < 0 ? span : undefined);

// The check of the whole file.

/** Pages that are read before others get their turn: about a millisecond. */
const pagesAtOnce = 16;

/** Runs beside writers: a snapshot keeps its pages from being reused meanwhile. */
export async function* verifyFile(
  { directory, database }: { readonly directory: string; readonly database: CheckedDatabase },
  tables: readonly AnyTable[],
): AsyncGenerator<readonly MetadataFault[]> {
  const release = database.holdSnapshot();
  const descriptor = openSync(dataFile(directory), 'r');
  const unsound: PageFault[] = [];
  try {
    let pages = 0;
    for (const { faults } of checkPages(descriptor)) {
      unsound.push(...faults.filter(({ page }) => page !== undefined).slice(0, rangesMax - unsound.length));
      if (faults.length > 0) yield faults.map((fault) => nameFault(fault, tables));
      pages += 1;
      if (pages % pagesAtOnce !== 0) continue;
      yield [];
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    closeSync(descriptor);
    release();
    // Once for all of them: each time, every process reads the whole list again.
    database.markDamaged(unsound);
  }
}

export function nameFault(
  { detail, key, low, high, isFreeList }: PageFault,
  tables: readonly AnyTable[],
): MetadataFault {
  if (isFreeList === true)
    return { detail: `the list of free pages is damaged, and commits may overwrite rows: ${detail}` };
  if (key === undefined) {
    const from = low === undefined ? 'the first' : formatKey(low);
    const to = high === undefined ? 'the last' : formatKey(high);
    return { detail: `${detail}: its rows cannot be read, from ${from} to ${to}` };
  }
  const { table, row } = showKey(key);
  const columns = decodeColumns(
    key,
    tables.find(({ name }) => name === table),
  );
  return { detail, table, row, ...(columns === undefined ? {} : { columns }) };
}

const formatKey = (key: Uint8Array): string => {
  const { table, row } = showKey(key);
  return `${table} ${row}`;
};

function decodeColumns(key: Uint8Array, table: AnyTable | undefined): Record<string, unknown> | undefined {
  try {
    return table && buildOrder(table).columnsOf(key);
  } catch {
    // A key that is damaged may not be one of the table's at all.
    return undefined;
  }
}
