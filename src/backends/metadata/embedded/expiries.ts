/** Rows that expire: an index entry for each, sorted by time, and the sweep that removes both when they are due. */
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import { compareBytes, passed, type Span } from '../key-order.ts';
import { removalsPerTransaction, removeExpired } from '../records/expiries.ts';
import { expiryKey, expiryTime, rowKeyOf, space } from '../records/key-spaces.ts';
import { PageDamaged, passedPage } from './file/damaged-pages.ts';
import type { Database } from './file/environment.ts';
import type { Journal } from './journal.ts';

export interface ExpiryPorts {
  readonly database: Database;
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
    const span = { low: Uint8Array.of(space.expiry), high: Uint8Array.of(space.expiry + 1), reverse: false };
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
