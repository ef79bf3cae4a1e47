/** The CPU time of a piece of work in this process. */

export interface Figure {
  /** ms */
  readonly p50: number;
  readonly perSecond: number;
}

/** Runs `work` in so many concurrent loops for some seconds; each call gets another number. */
export async function byHands(
  work: (n: number) => Promise<unknown>,
  { hands, seconds }: { readonly hands: number; readonly seconds: number },
): Promise<Figure> {
  const times: number[] = [];
  let n = 0;
  const started = performance.now();
  const until = started + seconds * 1000;
  await Promise.all(
    Array.from({ length: hands }, async () => {
      while (performance.now() < until) {
        const before = performance.now();
        n += 1;
        await work(n);
        times.push(performance.now() - before);
      }
    }),
  );
  times.sort((a, b) => a - b);
  return {
    p50: times[Math.floor(times.length / 2)] ?? 0,
    perSecond: (times.length / (performance.now() - started)) * 1000,
  };
}
