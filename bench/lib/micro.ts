/** Measures small pieces of work by the CPU time of this thread. */

export interface Piece {
  readonly name: string;
  /** CPU microseconds of one call. */
  readonly micros: number;
  /** The lower bound: its name and its cost. */
  readonly floor?: { readonly name: string; readonly micros: number };
}

const cpu = (): number => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

/** CPU microseconds of one call, warmed up first. */
export async function microsOf(run: () => unknown, { ms = 400, batch = 16 } = {}): Promise<number> {
  for (const until = performance.now() + ms; performance.now() < until; )
    await Promise.all(times(batch, run));
  const from = cpu();
  let count = 0;
  for (const until = performance.now() + ms; performance.now() < until; count += batch) {
    await Promise.all(times(batch, run));
  }
  return (cpu() - from) / count;
}

const times = (count: number, run: () => unknown): unknown[] => Array.from({ length: count }, run);

/** The same for synchronous work: the best of several measurements, because other load can only add to the time. */
export function microsOfSync(run: () => unknown, ms = 300): number {
  runFor(run, ms);
  let best = Number.POSITIVE_INFINITY;
  for (let go = 0; go < goes; go++) {
    const from = cpu();
    const count = runFor(run, ms / goes);
    best = Math.min(best, (cpu() - from) / count);
  }
  return best;
}

const goes = 5;

function runFor(run: () => unknown, ms: number): number {
  let count = 0;
  for (const until = performance.now() + ms; performance.now() < until; count += 16) {
    for (let i = 0; i < 16; i++) run();
  }
  return count;
}
