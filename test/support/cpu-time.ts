/** The CPU time of this process, for tests of cost: other load on the machine changes it little, and a ratio of two not at all. */
export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/**
 * How many times longer `work` takes than `other`. They take turns, so a machine that is slow at the moment is slow for both; the
 * least of several attempts, so that no garbage collection counts.
 */
export async function timesLonger(work: () => unknown, other: () => unknown, attempts = 4): Promise<number> {
  let [least, leastOther] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    leastOther = Math.min(leastOther, await cpuMsOf(other));
    least = Math.min(least, await cpuMsOf(work));
  }
  return least / leastOther;
}
