/**
 * Limits the memory of all writes of a process together. When it is used up, writes wait in line while their clients' data stays in the
 * kernel; no request is refused.
 *
 * The unit is a chunk: it holds its share only while it is written, and needs no other chunk to finish. A chunk whose client is slow
 * lends its share to waiting writes, so that no write waits for the client of another. A store that holds whole chunks first writes
 * out what it has, and the share counts until that is stored. The part of a chunk that stays in the store's buffer (256 KiB at
 * most) is bounded for each connection, not here.
 */

import type { ChunkMemory } from '../../ports/chunk-store.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { BodyMemory } from '../../ports/object-bytes.ts';

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** The memory of one chunk at most: a piece in the store, and what the socket has read ahead. */
const shareMax = 512 * 1024;
/** A client that takes longer than this for `paceBytes` is slow. */
const patienceMs = 100;

export class WriteBudget implements ShareBudget {
  readonly #bytesMax: number;
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  #taken = 0;
  readonly #waiting: Waiter[] = [];
  /** Shares whose clients are waited for. */
  readonly #parked = new Set<Share>();
  #isWatching = false;

  constructor(bytesMax: number, clock: Pick<Clock, 'elapsed' | 'sleep'> = systemClock) {
    this.#bytesMax = bytesMax;
    this.#clock = clock;
  }

  /** Bytes that are held now. */
  get taken(): number {
    return this.#taken;
  }

  /**
   * The share of a chunk of this size, not yet taken.
   * @param bufferedMax what its store holds of it at most, where that is more than usual
   */
  open(size: number | undefined, bufferedMax = shareMax): Share {
    return new Share(this, this.#shareOf(size, bufferedMax));
  }

  #shareOf(size: number | undefined, bufferedMax = shareMax): number {
    return Math.min(size ?? bufferedMax, bufferedMax, this.#bytesMax);
  }

  /**
   * Takes the share of a chunk of this size, which `give` gets back. Waits until there is room; rejects with the signal's
   * reason.
   */
  async take(size: number | undefined, signal?: AbortSignal): Promise<number> {
    const bytes = this.#shareOf(size, size);
    if (this.#waiting.length > 0 || !this.#makeSpace(bytes)) return this.#wait(bytes, signal);
    this.#taken += bytes;
    return bytes;
  }

  /** Takes the share of what is in memory already and waits for no client: to hold it back would free nothing. */
  pass(size: number): number {
    const bytes = this.#shareOf(size);
    this.#taken += bytes;
    return bytes;
  }

  give(bytes: number): void {
    this.#taken -= bytes;
    this.#admit();
  }

  park(share: Share): number {
    this.#parked.add(share);
    return this.#clock.elapsed();
  }

  unpark(share: Share): void {
    this.#parked.delete(share);
  }

  #makeSpace(bytes: number): boolean {
    if (this.#taken + bytes <= this.#bytesMax) return true;
    const slowSince = this.#clock.elapsed() - patienceMs;
    let spilling = 0;
    for (const share of this.#parked) {
      if (share.since > slowSince) continue;
      const spilled = share.spill();
      if (spilled > 0) {
        spilling += spilled;
        // Enough memory becomes free when the store has written it.
        if (this.#taken + bytes - spilling <= this.#bytesMax) return false;
        continue;
      }
      this.#parked.delete(share);
      this.#taken -= share.lend();
      if (this.#taken + bytes <= this.#bytesMax) return true;
    }
    return false;
  }

  /** In line, so that small shares do not starve a large one. */
  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#makeSpace(next.bytes)) return;
      this.#waiting.shift();
      this.#taken += next.bytes;
      next.admit();
    }
  }

  #wait(bytes: number, signal: AbortSignal | undefined): Promise<number> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal?.reason);
        // The abandoned write may have been the first in line.
        this.#admit();
      };
      const waiter: Waiter = {
        bytes,
        admit: () => {
          signal?.removeEventListener('abort', leave);
          resolve(bytes);
        },
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiter);
      void this.#watch();
    });
  }

  /** While a write waits, checks for clients that have become slow, because no event reports that. */
  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    while (this.#waiting.length > 0) {
      await this.#clock.sleep(patienceMs);
      this.#admit();
    }
    this.#isWatching = false;
  }
}

// Counts the bytes of bodies that are held whole, up to a bound.

interface BodyBudget extends BodyMemory {
  readonly usedBytes: number;
  readonly limitBytes: number;
}

/** The last part of the memory is reserved for holders that hold nothing yet, or stay within as much. */
const sparedPart = 1 / 4;

export function bodyBudget(bytesMax: number): BodyBudget {
  let taken = 0;
  const byHolder = new Map<string, number>();
  const sparedBytes = bytesMax * sparedPart;
  return {
    limitBytes: bytesMax,
    get usedBytes() {
      return taken;
    },
    take(bytes, holder) {
      const before = byHolder.get(holder) ?? 0;
      const left = bytesMax - taken - bytes;
      if (left < 0 || (before > 0 && before + bytes > sparedBytes && left < sparedBytes)) return false;
      taken += bytes;
      byHolder.set(holder, before + bytes);
      return true;
    },
    give(bytes, holder) {
      taken -= bytes;
      const reserved = (byHolder.get(holder) ?? 0) - bytes;
      if (reserved > 0) byHolder.set(holder, reserved);
      else byHolder.delete(holder);
    },
  };
}

// The share of a write budget that one chunk holds, and the pace of its client.

/** A client that sends this much is not slow: the time limit starts again. */
const paceBytes = 64 * 1024;

/** The budget that a share is taken from; the numbers are bytes. */
interface ShareBudget {
  /** Waits until there is room; rejects with the signal's reason. @returns what was taken */
  take(bytes: number, signal?: AbortSignal): Promise<number>;
  give(bytes: number): void;
  /** Takes without waiting. @returns what was taken */
  pass(bytes: number): number;
  /** Allows the share to be lent. @returns ms elapsed */
  park(share: Share): number;
  unpark(share: Share): void;
}

/**
 * Held from the first bytes until the chunk is stored; lent while the client is slow. A store that holds much of the chunk writes that
 * out first, because its memory is free only when the bytes are stored.
 */
export class Share implements ChunkMemory {
  /** Since when the client has sent nothing (ms elapsed). */
  since = Number.POSITIVE_INFINITY;
  readonly #budget: ShareBudget;
  #bytes: number;
  /** How much of the chunk the store holds once it has spilled. */
  #bufferedBytes = Number.POSITIVE_INFINITY;
  #spill: () => boolean = () => false;
  #taken = 0;
  #arrivedBytes = paceBytes;
  #isClosed = false;

  constructor(budget: ShareBudget, bytes: number) {
    this.#budget = budget;
    this.#bytes = bytes;
  }

  /** Waits until there is room; rejects with the signal's reason. */
  async take(signal?: AbortSignal): Promise<void> {
    if (this.#isClosed) return;
    const bytes = await this.#budget.take(this.#bytes, signal);
    // The write may have failed while it waited in line.
    if (this.#isClosed) this.#budget.give(bytes);
    else this.#taken = bytes;
  }

  /** The whole chunk is in memory. */
  pass(): void {
    this.#taken = this.#budget.pass(this.#bytes);
  }

  /** The client is waited for. */
  park(): void {
    const now = this.#budget.park(this);
    if (this.#arrivedBytes < paceBytes) return;
    this.since = now;
    this.#arrivedBytes = 0;
  }

  /** The client sent some. Waits where the share was lent. */
  async resume(arrivedBytes: number, signal?: AbortSignal): Promise<void> {
    this.#budget.unpark(this);
    this.#arrivedBytes += arrivedBytes;
    if (this.#taken === 0 && this.#bytes > 0) await this.take(signal);
  }

  spillBy(bufferedBytes: number, spill: () => boolean): void {
    this.#bufferedBytes = bufferedBytes;
    this.#spill = spill;
  }

  /** Makes the store hold little from now on. @returns the bytes that are freed when the store has written them */
  spill(): number {
    if (this.#spill()) return Math.max(0, this.#taken - this.#bufferedBytes);
    this.#bytes = Math.min(this.#bytes, this.#bufferedBytes);
    return 0;
  }

  release(): void {
    this.#bytes = Math.min(this.#bytes, this.#bufferedBytes);
    const excess = this.#taken - this.#bytes;
    if (excess <= 0) return;
    this.#taken -= excess;
    this.#budget.give(excess);
  }

  /** @returns what is taken back */
  lend(): number {
    const bytes = this.#taken;
    this.#taken = 0;
    return bytes;
  }

  close(): void {
    this.#isClosed = true;
    this.#budget.unpark(this);
    if (this.#taken > 0) this.#budget.give(this.lend());
  }
}
