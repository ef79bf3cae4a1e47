/** Mutexes and a semaphore of this process. Waiters are served in the order of their calls. */
import { fail } from './errors.ts';

/** The largest number of waiters for one key, which bounds memory. Clients do not keep that many requests open. */
const waitersMax = 4_096;

interface Queue {
  last: Promise<unknown>;
  length: number;
}

export class KeyedMutex {
  readonly #queues = new Map<string, Queue>();

  /** @throws SlowDown when too many callers wait for the key */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key) ?? { last: Promise.resolve(), length: 0 };
    if (queue.length >= waitersMax) throw fail('SlowDown');
    this.#queues.set(key, queue);
    queue.length += 1;
    const mine = queue.last.then(work);
    queue.last = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      queue.length -= 1;
      if (queue.length === 0) this.#queues.delete(key);
    }
  }
}

// Serializes commits of one process that would conflict. Without it the store would refuse all but one, and each would retry. Commits of
// other processes still conflict as before.

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

/** A counting semaphore: at most so many pieces of work run at a time, the others wait in the order of their arrival. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#free = max;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
