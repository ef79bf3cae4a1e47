/**
 * Limits the memory of all writes of a process together. When it is used up, writes wait in line while their clients' data stays in the
 * kernel; no request is refused.
 *
 * The unit is a chunk: it holds its share only while it is written, and needs no other chunk to finish. A chunk whose client is slow
 * lends its share to waiting writes, so that no write waits for the client of another. A store that holds whole chunks first writes
 * out what it has, and the share counts until that is stored. The part of a chunk that stays in the store's buffer (256 KiB at
 * most) is bounded for each connection, not here.
 */
import { type Clock, systemClock } from '../../../ports/clock.ts';
import { Share, type ShareBudget } from './write-share.ts';

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
   * @param heldMax what its store holds of it at most, where that is more than usual
   */
  open(size: number | undefined, heldMax = shareMax): Share {
    return new Share(this, this.#shareOf(size, heldMax));
  }

  #shareOf(size: number | undefined, heldMax = shareMax): number {
    return Math.min(size ?? heldMax, heldMax, this.#bytesMax);
  }

  /**
   * Takes the share of a chunk of this size, which `give` gets back. Waits until there is room; rejects with the signal's
   * reason.
   */
  async take(size: number | undefined, signal?: AbortSignal): Promise<number> {
    const bytes = this.#shareOf(size, size);
    if (this.#waiting.length > 0 || !this.#makeRoom(bytes)) return this.#wait(bytes, signal);
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

  #makeRoom(bytes: number): boolean {
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
      if (!this.#makeRoom(next.bytes)) return;
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
