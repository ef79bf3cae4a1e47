/**
 * Reads of lmdb never wait, so a walk over many pages would hold the event loop until its end, and with it every request of the process.
 * Each page asks here first: once the walks of one turn of the loop have taken a while, they go on in the next turn.
 */
import type { Clock } from '../../../ports/clock.ts';

/** How long scans may hold the event loop together. */
const turnMs = 10;

export class LoopTurn {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #assertOpen: () => void;
  /** When the first page of the present turn was read; undefined before. */
  #since: number | undefined;

  /** @param assertOpen throws when the store was closed meanwhile */
  constructor(clock: Pick<Clock, 'elapsed'>, assertOpen: () => void) {
    this.#clock = clock;
    this.#assertOpen = assertOpen;
  }

  /** Whether the next page must wait for `next`. */
  isOver(): boolean {
    const now = this.#clock.elapsed();
    if (this.#since !== undefined) return now - this.#since >= turnMs;
    this.#since = now;
    setImmediate(() => {
      this.#since = undefined;
    });
    return false;
  }

  /** Resolves in the next turn. */
  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#assertOpen();
  }
}
