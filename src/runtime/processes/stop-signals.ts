/** The signals that stop a process. */

/** A terminal signals the whole group, and npm and a primary send it on: the same Ctrl-C arrives several times. */
const sameMs = 1_000;

/**
 * @param stop called with the first signal
 * @param again called with each signal that comes at least a second after the first one: the operator does not want to wait any more
 */
export function onStopSignals(stop: () => void, again: () => void): void {
  let firstAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      const now = performance.now();
      if (firstAt === undefined) {
        firstAt = now;
        stop();
      } else if (now - firstAt >= sameMs) again();
    });
  }
}
