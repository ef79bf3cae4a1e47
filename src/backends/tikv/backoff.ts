/**
 * The failures of requests to a cluster, and the waiting between attempts: doubling, with some of it left to chance,
 * until a budget is spent.
 */
import { setTimeout as sleep } from 'node:timers/promises';

const firstMs = 2;
const restartsMax = 16;
const repeatsMax = 32;
const longestMs = 500;
const lastCallMs = 500;

export class Backoff {
  readonly #until: number;
  #restartsLeft = restartsMax;
  #repeatsLeft = repeatsMax;
  #nextMs = firstMs;

  constructor(budgetMs: number) {
    this.#until = performance.now() + budgetMs;
  }

  /**
   * The rest of the budget, as the limit of a call. The last call gets enough time to be answered: otherwise a transaction that has
   * waited for a lock until the end of its budget, and may run again, would report that an engine does not answer.
   */
  get leftMs(): number {
    return Math.max(lastCallMs, this.#until - performance.now());
  }

  /** The obstacle is known to be gone: the next wait is short again, a bounded number of times. */
  restart(): void {
    if (this.#restartsLeft === 0) return;
    this.#restartsLeft -= 1;
    this.#nextMs = firstMs;
  }

  /** @returns false, without waiting, when the budget is spent */
  async tryWait(): Promise<boolean> {
    if (performance.now() >= this.#until) return false;
    const [chance = 0] = crypto.getRandomValues(new Uint8Array(1));
    const ms = this.#nextMs * (0.5 + chance / 512);
    this.#nextMs = Math.min(this.#nextMs * 2, longestMs);
    await sleep(Math.min(ms, Math.max(1, this.#until - performance.now())));
    return true;
  }

  /**
   * The obstacle was removed: goes on at once, a bounded number of times. After these it waits, because the store may not have removed
   * what it says.
   * @returns false, without waiting, when the budget is spent
   */
  async tryAgain(): Promise<boolean> {
    if (this.#repeatsLeft === 0) return this.tryWait();
    this.#repeatsLeft -= 1;
    return true;
  }

  /** @throws Unreachable with the cause, once the budget is spent */
  async wait(why: string, cause?: unknown): Promise<void> {
    if (!(await this.tryWait())) throw new Unreachable(why, { cause });
  }
}

// The failures of this client's calls.

export class TikvError extends Error {}

/** No server answered in time. The outcome of the last attempt is unknown. */
export class Unreachable extends TikvError {}

/** A transaction met another one: nothing of it was applied, and it may be tried again as a whole. */
export class Conflict extends TikvError {}

/** Whether the transaction was applied is unknown: its commit was sent and not answered. */
export class Undetermined extends TikvError {}
