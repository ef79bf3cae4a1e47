/**
 * Limits the memory of all writes of a process together. When it is used up, writes wait while their clients' data stays in the kernel; no
 * request is refused. Accounts are admitted in rotation, and an account holds at most three times as much as is free: a
 * cluster that does not answer delays no writes of other accounts to another one.
 *
 * The unit is a chunk: it holds its share only while it is written, and needs no other chunk to finish. A chunk whose client is slow
 * lends its share to waiting writes: while memory is free only to those of its own account and of accounts that hold less, so that an
 * account waits for no client of another while it has less than that one. A store that holds whole chunks first writes
 * out what it has, and the share counts until that is stored. The part of a chunk that stays in the store's buffer (256 KiB at
 * most) is bounded for each connection, not here.
 */

import { type SharedBudget, sharedBudget } from '../../base/shared-budget.ts';
import type { ChunkMemory } from '../../ports/chunk-store.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

/** The memory of one chunk at most: a piece in the store, and what the socket has read ahead. */
const shareMax = 512 * 1024;
/** A client that takes longer than this for `paceBytes` is slow. */
const patienceMs = 100;

export class WriteBudget {
  /** Its holders are accounts. */
  readonly #memory: SharedBudget;
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  /** By account, the next one first. */
  readonly #waiting = new Map<string, Waiter[]>();
  /** Shares whose clients are waited for, with their accounts. */
  readonly #parked = new Map<Share, string>();
  #isWatching = false;

  constructor(bytesMax: number, clock: Pick<Clock, 'elapsed' | 'sleep'> = systemClock) {
    this.#memory = sharedBudget(bytesMax);
    this.#clock = clock;
  }

  /** Bytes that are held now. */
  get taken(): number {
    return this.#memory.usedBytes;
  }

  /**
   * The share of a chunk of this size, not yet taken.
   * @param options bufferedMax: what its store holds of it at most, where that is more than usual. account: '' for
   *   none, which may hold everything
   */
  open(
    size: number | undefined,
    {
      bufferedMax = shareMax,
      account = '',
    }: { readonly bufferedMax?: number | undefined; readonly account?: string | undefined } = {},
  ): Share {
    const budget: ShareBudget = {
      take: (bytes, signal) => this.take(bytes, signal, account),
      give: (bytes) => this.give(bytes, account),
      pass: (bytes) => this.pass(bytes, account),
      loaned: (bytes) => this.#memory.give(bytes, account),
      park: (share) => {
        this.#parked.set(share, account);
        return this.#clock.elapsed();
      },
      unpark: (share) => void this.#parked.delete(share),
    };
    return new Share(budget, this.#shareOf(size, bufferedMax));
  }

  #shareOf(size: number | undefined, bufferedMax = shareMax): number {
    return Math.min(size ?? bufferedMax, bufferedMax, this.#memory.limitBytes);
  }

  /**
   * Takes the share of a chunk of this size, which `give` gets back. Waits until there is room; rejects with the signal's
   * reason.
   */
  async take(size: number | undefined, signal?: AbortSignal, account = ''): Promise<number> {
    const bytes = this.#shareOf(size, size);
    if (this.#waiting.size > 0 || !this.#makeSpace(bytes, account))
      return this.#wait({ bytes, account }, signal);
    this.#memory.add(bytes, account);
    return bytes;
  }

  /** Takes the share of what is in memory already and waits for no client: to hold it back would free nothing. */
  pass(size: number, account = ''): number {
    const bytes = this.#shareOf(size);
    this.#memory.add(bytes, account);
    return bytes;
  }

  give(bytes: number, account = ''): void {
    this.#memory.give(bytes, account);
    this.#admit();
  }

  /** @param spilling the bytes that become free soon */
  #fits(bytes: number, account: string, spilling = 0): boolean {
    return account === '' ? this.#isFree(bytes - spilling) : this.#memory.hasSpace(bytes, account, spilling);
  }

  #isFree(bytes: number): boolean {
    return this.#memory.usedBytes + bytes <= this.#memory.limitBytes;
  }

  /** Admits by what slow clients hold, where the budget alone does not. */
  #makeSpace(bytes: number, account: string): boolean {
    if (this.#fits(bytes, account)) return true;
    const slowSince = this.#clock.elapsed() - patienceMs;
    const slow = [...this.#parked].filter(([share]) => share.since <= slowSince);
    const slowBytes = slow.reduce((sum, [share]) => sum + share.takenBytes, 0);
    const isForAll = !this.#isFree(bytes) && this.#fits(bytes, account, slowBytes);
    let spilling = 0;
    for (const [share, owner] of slow) {
      if (!isForAll && !this.#lendsAlways(owner, account)) continue;
      const spilled = share.spill();
      if (spilled > 0) {
        spilling += spilled;
        // Enough memory becomes free when the store has written it.
        if (this.#fits(bytes, account, spilling)) return false;
        continue;
      }
      this.#parked.delete(share);
      share.lend();
      if (this.#fits(bytes, account)) return true;
    }
    return false;
  }

  /**
   * An account that has its share takes nothing from slow clients of accounts that hold less. Those of accounts that hold
   * more lend to it, else stalled clients of one account would leave little to all others.
   */
  #lendsAlways(owner: string, account: string): boolean {
    const { usedBytesOf } = this.#memory;
    return owner === account || usedBytesOf(owner) > usedBytesOf(account);
  }

  #admit(): void {
    while (this.#admitNext());
  }

  /** Small shares do not starve a large one: while that waits for memory, those behind it wait too. */
  #admitNext(): boolean {
    for (const [account, waiting] of this.#waiting) {
      const [next] = waiting;
      if (next === undefined) continue;
      if (this.#makeSpace(next.bytes, account)) {
        waiting.shift();
        this.#waiting.delete(account);
        if (waiting.length > 0) this.#waiting.set(account, waiting);
        this.#memory.add(next.bytes, account);
        next.admit();
        return true;
      }
      if (!this.#isFree(next.bytes)) return false;
    }
    return false;
  }

  #wait(
    { bytes, account }: { readonly bytes: number; readonly account: string },
    signal: AbortSignal | undefined,
  ): Promise<number> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const waiting = this.#waiting.get(account) ?? [];
        waiting.splice(waiting.indexOf(waiter), 1);
        if (waiting.length === 0) this.#waiting.delete(account);
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
      const waiting = this.#waiting.get(account) ?? [];
      waiting.push(waiter);
      this.#waiting.set(account, waiting);
      // What waits before it may wait for its account only.
      this.#admit();
      void this.#watch();
    });
  }

  /** While a write waits, checks for clients that have become slow, because no event reports that. */
  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    while (this.#waiting.size > 0) {
      await this.#clock.sleep(patienceMs);
      this.#admit();
    }
    this.#isWatching = false;
  }
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
  /** The share was lent: no write is admitted for it yet. */
  loaned(bytes: number): void;
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

  get takenBytes(): number {
    return this.#taken;
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

  lend(): void {
    const bytes = this.#taken;
    this.#taken = 0;
    this.#budget.loaned(bytes);
  }

  close(): void {
    this.#isClosed = true;
    this.#budget.unpark(this);
    const bytes = this.#taken;
    this.#taken = 0;
    if (bytes > 0) this.#budget.give(bytes);
  }
}
