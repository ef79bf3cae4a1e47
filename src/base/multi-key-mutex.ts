/**
 * Serializes commits of one process that would conflict. Without it the store would refuse all but one, and each would retry. Commits of
 * other processes still conflict as before.
 */

/** The longest wait: the cluster may be slow to answer earlier commits. */
const patienceMs = 250;

export class MultiKeyMutex {
  /** By key: resolves when the last caller in the queue has finished. */
  readonly #lines = new Map<string, Promise<void>>();

  /** A caller joins all its queues together, behind earlier callers, so there is no deadlock. */
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
