/** A mutex for each key, within this process. Waiters are served in the order of their calls. */
import { fail } from '../errors/refusal.ts';

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
