/** The budget of one step of the scrub, which limits its duration and its read rate. */
import { dataBackends } from '../../config/data.ts';
import type { Config } from '../../config.ts';

export class ScrubBudget {
  #bytes: number;
  #reads = 1_000;
  #rows = 500;
  #listings = 4;
  #isOver = false;

  /** @param bytes that may be started; the last read may exceed it by less than its own length */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  get isSpent(): boolean {
    return this.#isOver || this.#bytes <= 0 || this.#reads <= 0 || this.#rows <= 0 || this.#listings <= 0;
  }

  read(bytes: number): void {
    this.#bytes -= bytes;
    this.#reads -= 1;
  }

  row(): void {
    this.#rows -= 1;
  }

  /** Counts a row for the list of damaged contents, because a commit takes few rows. */
  listing(): void {
    this.#listings -= 1;
  }

  /** Ends the step, because the next read would fail like the last one. */
  end(): void {
    this.#isOver = true;
  }
}

/** Limits bytes per second. Unused budget expires after two seconds; overdrawn budget delays the next read. */
export class ScrubPace {
  readonly #perSecond: number;
  #left: number;
  #at: number;

  /** @param elapsed ms of a monotonic clock */
  constructor(perSecond: number, elapsed: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
    this.#at = elapsed;
  }

  /** The number of bytes that may be read now; none when 0 or less. */
  left(elapsed: number): number {
    const earned = ((elapsed - this.#at) / 1000) * this.#perSecond;
    this.#at = elapsed;
    this.#left = Math.min(this.#left + earned, 2 * this.#perSecond);
    return this.#left;
  }

  spend(bytes: number): void {
    this.#left -= bytes;
  }
}

// The read rate of the scrub.

const defaultRate = 16 * 1024 * 1024;

/** In bytes per second; 0 means never. Where reads cost money, only a rate that an operator set counts. */
export const scrubRate = ({
  SVC_SCRUB_RATE: rate,
  SVC_DATA_BACKEND: backend,
}: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_DATA_BACKEND'>): number =>
  rate ?? (dataBackends[backend].isPaid ? 0 : defaultRate);
