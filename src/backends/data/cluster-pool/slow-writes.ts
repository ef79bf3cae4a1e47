/** Spills chunks whose clients are slow: their bytes must leave memory, because their share of the write budget is lent. */
import type { Clock } from '../../../ports/clock.ts';
import type { ChunkWrite } from './write-chunk.ts';

/** A client that sends nothing for this long is slow. */
const patienceMs = 100;

export class SlowWrites {
  readonly #clock: Pick<Clock, 'sleep'>;
  /** Writes that wait for their clients, and whether they did at the last check. */
  readonly #waiting = new Map<ChunkWrite, boolean>();
  #isLooking = false;

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock;
  }

  /** Waits for the client; no other task works on its chunk meanwhile. */
  async await<T>(chunk: ChunkWrite, next: Promise<T>): Promise<T> {
    if (!chunk.isLarge) return next;
    this.#waiting.set(chunk, false);
    void this.#look();
    try {
      return await next;
    } finally {
      this.#waiting.delete(chunk);
    }
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#waiting.size > 0) {
      await this.#clock.sleep(patienceMs);
      for (const [chunk, wasWaiting] of this.#waiting) {
        if (wasWaiting && chunk.isLarge) chunk.spill();
        if (wasWaiting) this.#waiting.delete(chunk);
        else this.#waiting.set(chunk, true);
      }
    }
    this.#isLooking = false;
  }
}
