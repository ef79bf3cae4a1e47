/**
 * The longest delay of the event loop since it was last read. A timer of our own measures it, because `monitorEventLoopDelay` differs: that
 * of Bun leaves the resolution out of its delays, and that of Deno does not see a blocked loop.
 */

const intervalMs = 20;

export interface EventLoopLag {
  /** In seconds. */
  read(): number;
}

export function measureEventLoopLag(): EventLoopLag {
  let longestMs = 0;
  let due = performance.now() + intervalMs;
  const note = (now: number): void => {
    longestMs = Math.max(longestMs, now - due);
  };
  setInterval(() => {
    const now = performance.now();
    note(now);
    due = now + intervalMs;
  }, intervalMs).unref();
  return {
    read() {
      // The timer may be late already, and run only after this.
      note(performance.now());
      const seconds = longestMs / 1000;
      longestMs = 0;
      return seconds;
    },
  };
}
