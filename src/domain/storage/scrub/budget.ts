/** The budget of one step of the scrub, which limits its duration and its read rate. */

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

  /** A row for the list of what is damaged: a commit holds few of them. */
  listing(): void {
    this.#listings -= 1;
  }

  /** Ends the unit: the next read would fail as the last one did. */
  end(): void {
    this.#isOver = true;
  }
}

/** Bytes per second: what is not used for two seconds is lost, what was read beyond is waited for. */
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

  /** How many bytes may be read now; 0 or less: none. */
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
