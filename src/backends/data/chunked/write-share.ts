/** The share of a write budget that one chunk holds, and the pace of its client. */
import type { ChunkMemory } from '../../../ports/storage/chunk-store.ts';

/** A client that sends this much is not slow: the time limit starts again. */
const paceBytes = 64 * 1024;

/** The budget that a share is taken from; the numbers are bytes. */
export interface ShareBudget {
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
  #heldBytes = Number.POSITIVE_INFINITY;
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

  spillBy(heldBytes: number, spill: () => boolean): void {
    this.#heldBytes = heldBytes;
    this.#spill = spill;
  }

  /** Makes the store hold little from now on. @returns the bytes that are freed when the store has written them */
  spill(): number {
    if (this.#spill()) return Math.max(0, this.#taken - this.#heldBytes);
    this.#bytes = Math.min(this.#bytes, this.#heldBytes);
    return 0;
  }

  release(): void {
    this.#bytes = Math.min(this.#bytes, this.#heldBytes);
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
