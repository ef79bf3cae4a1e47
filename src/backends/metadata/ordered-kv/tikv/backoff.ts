/** Waiting between attempts: doubling, with some of it left to chance, until a budget is spent. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Unreachable } from './errors.ts';

const firstMs = 2;
const longestMs = 500;

export class Backoff {
  readonly #until: number;
  #nextMs = firstMs;

  constructor(budgetMs: number) {
    this.#until = performance.now() + budgetMs;
  }

  /** @throws Unreachable with the cause, once the budget is spent */
  async wait(why: string, cause?: unknown): Promise<void> {
    if (performance.now() >= this.#until) throw new Unreachable(why, { cause });
    const [chance = 0] = crypto.getRandomValues(new Uint8Array(1));
    const ms = this.#nextMs * (0.5 + chance / 512);
    this.#nextMs = Math.min(this.#nextMs * 2, longestMs);
    await sleep(ms);
  }
}
