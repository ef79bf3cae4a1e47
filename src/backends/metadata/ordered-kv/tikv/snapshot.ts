/** Reads at one timestamp: what was committed before it, and nothing that came after. */
import { Backoff } from './backoff.ts';
import { decodeKey } from './encoded-key.ts';
import type { Locks } from './locks.ts';
import { type KeyError, type LockInfo, toWide } from './messages.ts';
import type { Region, Regions } from './regions.ts';
import type { Sender } from './sender.ts';

/** How long a reader waits for writers that have locked what it wants and have yet to commit. */
const budgetMs = 20_000;
/** Later than every commit: reads whatever is the latest. */
export const latest = 0xffff_ffff_ffff_ffffn;

export interface Entry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export interface Stretch {
  /** Inclusive. */
  readonly low: Uint8Array;
  /** Exclusive. */
  readonly high: Uint8Array;
  readonly limit: number;
  readonly reverse: boolean;
}

interface Parts {
  readonly sender: Sender;
  readonly regions: Regions;
  readonly locks: Locks;
}

export class Snapshot {
  readonly #parts: Parts;
  readonly #at: bigint;

  constructor(parts: Parts, at: bigint) {
    this.#parts = parts;
    this.#at = at;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const backoff = new Backoff(budgetMs);
    for (;;) {
      const answer = await this.#parts.sender.one('Get', key, { key, version: toWide(this.#at) });
      if (!answer.error) return answer.not_found || !answer.value?.length ? undefined : answer.value;
      await this.#passLocks([answer.error], backoff);
    }
  }

  /** Up to `limit` entries of the stretch, in its order. */
  async scan({ low, high, limit, reverse }: Stretch): Promise<readonly Entry[]> {
    const entries: Entry[] = [];
    const backoff = new Backoff(budgetMs);
    let from = reverse ? high : low;
    while (entries.length < limit) {
      const region = await this.#parts.regions.locate(from, reverse ? 'before' : 'at');
      const edge = decodeKey(reverse ? region.start : region.end);
      // The last region has no end, the first one no start.
      const isLast = reverse ? edge.compare(low) <= 0 : edge.length === 0 || edge.compare(high) >= 0;
      const until = isLast ? (reverse ? low : high) : edge;
      const found = await this.#scanRegion(region, { from, until, limit: limit - entries.length, reverse });
      if (found === undefined) {
        await backoff.wait('no store serves Scan');
        continue;
      }
      const errors = found.errors;
      if (errors.length > 0) {
        await this.#passLocks(errors, backoff);
        continue;
      }
      entries.push(...found.entries);
      if (isLast && found.isWhole) break;
      const last = found.entries.at(-1);
      from = found.isWhole ? until : reverse || last === undefined ? (last?.key ?? until) : behind(last.key);
    }
    return entries;
  }

  async #scanRegion(
    region: Region,
    { from, until, limit, reverse }: { from: Uint8Array; until: Uint8Array; limit: number; reverse: boolean },
  ) {
    const answer = await this.#parts.sender.inRegion('Scan', region, {
      start_key: from,
      end_key: until,
      limit,
      version: toWide(this.#at),
      reverse,
      key_only: false,
    });
    if (answer === undefined) return undefined;
    const pairs = answer.pairs ?? [];
    const errors = pairs.flatMap(({ error }) => (error ? [error] : []));
    if (answer.error) errors.push(answer.error);
    const entries = pairs.flatMap(({ key, value }) => (value?.length ? [{ key, value }] : []));
    return { entries, errors, isWhole: pairs.length < limit };
  }

  async #passLocks(errors: readonly KeyError[], backoff: Backoff): Promise<void> {
    const locks: LockInfo[] = [];
    for (const error of errors) {
      if (!error.locked) throw new Error(`TiKV refuses a read: ${JSON.stringify(error)}`);
      locks.push(error.locked);
    }
    const isHeld = await this.#parts.locks.resolve(locks, this.#at);
    if (isHeld) await backoff.wait('a lock of another transaction stays');
  }
}

function behind(key: Uint8Array): Uint8Array {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}
