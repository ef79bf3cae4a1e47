/** Reads at one timestamp: everything that was committed before it, and nothing later. */
import { Backoff } from './backoff.ts';
import type { Locks } from './locks.ts';
import { decodeKey, type KeyError, type LockInfo, toWide, type Wide } from './messages.ts';
import type { Region } from './regions.ts';
import type { Sender } from './sender.ts';

/** Later than every commit: reads the latest version. */
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
  readonly locks: Locks;
  /** How long one read is retried. */
  readonly budgetMs: number;
}

/** The time that a read has left, and the transactions whose locks it ignores. */
interface Reading {
  readonly backoff: Backoff;
  passing: readonly Wide[] | undefined;
}

interface Piece {
  readonly from: Uint8Array;
  readonly until: Uint8Array;
  readonly limit: number;
  readonly reverse: boolean;
}

export class Snapshot {
  readonly #parts: Parts;
  readonly #at: bigint;

  constructor(parts: Parts, at: bigint) {
    this.#parts = parts;
    this.#at = at;
  }

  /** @throws Unreachable when no store answers in time */
  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const reading = this.#begin();
    const request = { key, version: toWide(this.#at) };
    for (;;) {
      const answer = await this.#parts.sender.one('Get', key, { request, ...reading });
      if (!answer.error) return answer.not_found || !answer.value?.length ? undefined : answer.value;
      await this.#meet([answer.error], reading);
    }
  }

  /**
   * Up to `limit` entries of the stretch, in its order.
   * @throws Unreachable when no store answers in time
   */
  async scan({ low, high, limit, reverse }: Stretch): Promise<readonly Entry[]> {
    const entries: Entry[] = [];
    const reading = this.#begin();
    let from = reverse ? high : low;
    while (entries.length < limit) {
      const region = await this.#parts.sender.locate(from, reading.backoff, reverse ? 'before' : 'at');
      const edge = decodeKey(reverse ? region.start : region.end);
      // The last region has no end, the first one no start.
      const isLast = reverse ? edge.compare(low) <= 0 : edge.length === 0 || edge.compare(high) >= 0;
      const until = isLast ? (reverse ? low : high) : edge;
      const piece = { from, until, limit: limit - entries.length, reverse };
      const found = await this.#scanRegion(region, piece, reading);
      if (found === undefined) continue;
      entries.push(...found.entries);
      if (isLast && found.isWhole) break;
      const last = found.entries.at(-1);
      from = found.isWhole ? until : reverse || last === undefined ? (last?.key ?? until) : behind(last.key);
    }
    return entries;
  }

  #begin(): Reading {
    return { backoff: new Backoff(this.#parts.budgetMs), passing: undefined };
  }

  /** @returns undefined when the region is to be located and read again */
  async #scanRegion(region: Region, { from, until, limit, reverse }: Piece, reading: Reading) {
    const answer = await this.#parts.sender.inRegion('Scan', region, {
      request: {
        start_key: from,
        end_key: until,
        limit,
        version: toWide(this.#at),
        reverse,
        key_only: false,
      },
      ...reading,
    });
    if (answer === undefined) {
      await reading.backoff.wait('no store serves Scan');
      return undefined;
    }
    const pairs = answer.pairs ?? [];
    const errors: KeyError[] = answer.error ? [answer.error] : [];
    const entries: Entry[] = [];
    for (const { error, key, value } of pairs) {
      if (error) errors.push(error);
      else if (value?.length) entries.push({ key, value });
    }
    if (errors.length === 0) return { entries, isWhole: pairs.length < limit };
    await this.#meet(errors, reading);
    return undefined;
  }

  /** Locks are in the way: they are cleared, passed from now on, or waited for. */
  async #meet(errors: readonly KeyError[], reading: Reading): Promise<void> {
    const locks: LockInfo[] = [];
    for (const error of errors) {
      if (!error.locked) throw new Error(`TiKV refuses a read: ${JSON.stringify(error)}`);
      locks.push(error.locked);
    }
    const { backoff, passing = [] } = reading;
    const { isLocked, passable } = await this.#parts.locks.resolve(locks, { readsAt: this.#at, backoff });
    if (passable.length > 0) reading.passing = [...passing, ...passable];
    if (isLocked) await backoff.wait('a lock of another transaction stays');
  }
}

function behind(key: Uint8Array): Uint8Array {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}
