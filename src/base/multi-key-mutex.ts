/**
 * Commits of one process that will meet: one after the other. A cluster would let them meet, fail and try again; in turn each
 * of them finds the way free. Those of other processes are met as before.
 */

/** The longest wait: the cluster may be slow to answer earlier commits. */
const patienceMs = 250;

export class MultiKeyMutex {
  /** By name of what is met at: resolved when the last in line is done. */
  readonly #lines = new Map<string, Promise<void>>();

  /** A caller joins all its queues at once, behind earlier callers, so there is no deadlock. */
  async run<T>(names: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = names.flatMap((name) => this.#lines.get(name) ?? []);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    for (const name of names) this.#lines.set(name, done);
    try {
      if (before.length > 0) await within(patienceMs, Promise.all(before));
      return await work();
    } finally {
      resolve();
      for (const name of names) if (this.#lines.get(name) === done) this.#lines.delete(name);
    }
  }
}

function within(ms: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    void work.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
