/**
 * How long after its settling an abandoned intent is given out once more. A process that was only stopped goes
 * on storing when it is let go, and finds out at its commit; should it die before it has queued those bytes,
 * this is what finds them. Longer than any upload that was under way.
 */
export const secondLookMs = 24 * 60 * 60_000;
