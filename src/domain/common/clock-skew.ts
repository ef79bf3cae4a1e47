/** Stored times that a clock wrote which was ahead: work that waits for such a time would wait until the clocks reach it. */

/** The largest lead of a gateway's clock. Later times are wrong. */
const clockSkewMsMax = 15 * 60_000;

/** Whether a time of something that has happened lies in the future. Its schedule is then worth nothing: the work is due. */
export const isAhead = (time: number | undefined, now: number): boolean =>
  time !== undefined && time > now + clockSkewMsMax;

/** How long a clock must run evenly, after it jumped ahead, before it is trusted: operators have this long to correct it. */
const settleMs = 6 * 60 * 60_000;

/**
 * Notices that the clock of the store jumps ahead, by a clock of this process that never jumps. Work that cannot be undone rests until the
 * store's clock is back, or has run evenly for six hours, because then its former time was the wrong one.
 */
export class ClockWatch {
  /** The store's time less the elapsed time of this process, as far as it is trusted. */
  #trustedMs: number | undefined;
  #jumped: { readonly leadMs: number; readonly since: number } | undefined;

  /** @param isLate the work was last done so long ago that the clock may have jumped before this process began to look */
  isTrusted({
    now,
    elapsed,
    isLate,
  }: {
    readonly now: number;
    readonly elapsed: number;
    readonly isLate: boolean;
  }): boolean {
    const leadMs = now - elapsed;
    if (this.#trustedMs === undefined && !isLate) this.#trustedMs = leadMs;
    if (this.#trustedMs !== undefined && !isAhead(leadMs, this.#trustedMs)) {
      this.#trustedMs = leadMs;
      this.#jumped = undefined;
      return true;
    }
    if (this.#jumped === undefined || isAhead(leadMs, this.#jumped.leadMs))
      this.#jumped = { leadMs, since: elapsed };
    if (elapsed - this.#jumped.since < settleMs) return false;
    this.#trustedMs = leadMs;
    this.#jumped = undefined;
    return true;
  }
}
