/** Stored times that a clock wrote which was ahead: work that waits for such a time would wait until the clocks reach it. */

/** The largest lead of a gateway's clock. Later times are wrong. */
const clockSkewMsMax = 15 * 60_000;

/** Whether a time of something that has happened lies in the future. Its schedule is then worth nothing: the work is due. */
export const isAhead = (time: number | undefined, now: number): boolean =>
  time !== undefined && time > now + clockSkewMsMax;
