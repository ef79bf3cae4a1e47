/**
 * How long a pass may work for one account, so that others do not wait for all that it has to deliver. An account gets
 * some seconds; in a long pass as much time as the pass has taken for what is no account's, such as reading. So at
 * least half of a long pass is delivery, although the next pass reads again what was left.
 */
import type { Clock } from '../../ports/clock.ts';

/** An account gets as much in any case. */
const shareMs = 5_000;

export class AccountShares {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #beganAt: number;
  readonly #spentMs = new Map<string, number>();
  #allSpentMs = 0;

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
    this.#beganAt = clock.elapsed();
  }

  async run<T>(account: string, work: () => Promise<T>): Promise<T> {
    const beganAt = this.#clock.elapsed();
    try {
      return await work();
    } finally {
      const ms = this.#clock.elapsed() - beganAt;
      this.#allSpentMs += ms;
      this.#spentMs.set(account, (this.#spentMs.get(account) ?? 0) + ms);
    }
  }

  /** Whether no more is to be done for the account. */
  hasHad(account: string): boolean {
    const spentMs = this.#spentMs.get(account) ?? 0;
    return spentMs >= shareMs && spentMs >= this.#clock.elapsed() - this.#beganAt - this.#allSpentMs;
  }
}
