/** An ordered store that notes, in the transaction of each write, which entries changed after a split had begun to copy them. */
import { compareBytes, type Span } from '../key-order.ts';
import { keyIn, kindSpan } from './codec.ts';
import type { OrderedStore, ReadOptions, Visit } from './ordered-store.ts';

/** The entries of which a change is noted. */
export interface Noted {
  /** The last key that was copied, or is being copied. */
  readonly upTo: Uint8Array;
  /** Whether a split copies the entry. */
  isCopied(key: Uint8Array): boolean;
}

/** An entry that changed, and how often: equal counts mean that it did not change meanwhile. */
export interface ChangedEntry {
  readonly key: Uint8Array;
  readonly count: number;
}

const all = kindSpan('changed');

export class ChangedEntries implements OrderedStore {
  readonly #store: OrderedStore;
  /** Absent while no split copies. */
  noted: Noted | undefined;

  constructor(store: OrderedStore) {
    this.#store = store;
  }

  /** The first of the entries that have changed. */
  list(limit: number): readonly ChangedEntry[] {
    const found: ChangedEntry[] = [];
    this.#store.read(all, (noted, count) => {
      found.push({ key: new Uint8Array(noted.subarray(1)), count: count as number });
      return found.length < limit;
    });
    return found;
  }

  /** Inside a transaction, as is the next one. Forgets a change that was copied, unless the entry has changed again. */
  forget({ key, count }: ChangedEntry): void {
    const noted = keyIn('changed', key);
    if (this.#store.get(noted) === count) this.#store.remove(noted);
  }

  #note(key: Uint8Array): void {
    const { noted } = this;
    if (noted === undefined || compareBytes(key, noted.upTo) > 0 || !noted.isCopied(key)) return;
    const changed = keyIn('changed', key);
    this.#store.put(changed, ((this.#store.get(changed) as number | undefined) ?? 0) + 1);
  }

  get(key: Uint8Array): unknown {
    return this.#store.get(key);
  }

  find(key: Uint8Array): unknown {
    return this.#store.find(key);
  }

  has(key: Uint8Array): boolean {
    return this.#store.has(key);
  }

  read(span: Span, visit: Visit, options?: ReadOptions): boolean {
    return this.#store.read(span, visit, options);
  }

  refresh(): void {
    this.#store.refresh();
  }

  put(key: Uint8Array, value: unknown): void {
    this.#store.put(key, value);
    this.#note(key);
  }

  remove(key: Uint8Array): void {
    this.#store.remove(key);
    this.#note(key);
  }

  removeRange(range: Parameters<OrderedStore['removeRange']>[0]): number {
    if (this.noted === undefined) return this.#store.removeRange(range);
    const keys: Uint8Array[] = [];
    this.#store.read({ low: range.low, high: range.high, reverse: false }, (key) => {
      keys.push(new Uint8Array(key));
      return keys.length < range.limit;
    });
    for (const key of keys) this.remove(key);
    return keys.length;
  }
}
