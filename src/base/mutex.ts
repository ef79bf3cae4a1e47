/** Mutexes and semaphores of this process. Waiters are served in the order of their calls; those of a SharedSemaphore in rotation among owners. */

import { fail } from './errors.ts';
import { shareOfFreeMax } from './shared-budget.ts';

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

/** A turn is over after this time, also where its work is not: the cluster may be slow to answer it. */
const turnMsMax = 250;
/** The longest wait for a turn, where many are as slow. */
const waitMsMax = 2_000;

export class MultiKeyMutex {
  readonly #lines = new Map<string, Promise<void>>();
  /** By key: resolves when the turn of the last caller in the queue is over. */
  readonly lines: ReadonlyMap<string, Promise<void>> = this.#lines;

  /** A caller joins all its queues together, behind earlier callers, so there is no deadlock. */
  async run<T>(names: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = names.flatMap((name) => this.#lines.get(name) ?? []);
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    for (const name of names) this.#lines.set(name, over);
    if (before.length > 0) await within(waitMsMax, Promise.all(before));
    const timer = setTimeout(end, turnMsMax);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      end();
      for (const name of names) if (this.#lines.get(name) === over) this.#lines.delete(name);
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

/**
 * A counting semaphore that several owners share. Waiting owners get turns in rotation, however many each of them waits
 * for. An owner gets a turn while it holds less than `shareOfFree` times as many as are free. With the default of three,
 * one owner gets 64 of 85 turns, two get 37 and 36, and some stay free for an owner that holds none.
 */
export class SharedSemaphore {
  readonly #max: number;
  readonly #shareOfFree: number;
  #total = 0;
  readonly #running = new Map<string, number>();
  /** By owner, the next one first. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /**
   * @param shareOfFree how many times as many turns an owner may hold as are free; infinite for turns that are short,
   * and all of which one owner may hold
   */
  constructor(max: number, shareOfFree = shareOfFreeMax) {
    this.#max = max;
    this.#shareOfFree = shareOfFree;
  }

  /** @throws the signal's reason, where it aborts before the turn begins */
  async run<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const end = await this.begin(owner, signal);
    try {
      return await work();
    } finally {
      end();
    }
  }

  /**
   * @returns a function that ends the turn; further calls do nothing
   * @throws the signal's reason, where it aborts before the turn begins
   */
  async begin(owner: string, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const waiting = this.#waiting.get(owner) ?? [];
    if (waiting.length === 0 && this.#mayBegin(owner)) this.#begin(owner);
    else await this.#wait(owner, signal);
    let isOver = false;
    return () => {
      if (!isOver) this.#end(owner);
      isOver = true;
    };
  }

  #wait(owner: string, signal: AbortSignal | undefined): Promise<void> {
    const waiting = this.#waiting.get(owner) ?? [];
    this.#waiting.set(owner, waiting);
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        // The list of the owner may be another one by now.
        const present = this.#waiting.get(owner) ?? [];
        const place = present.indexOf(begin);
        if (place >= 0) present.splice(place, 1);
        if (present.length === 0) this.#waiting.delete(owner);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', leave, { once: true });
      waiting.push(begin);
    });
  }

  #mayBegin(owner: string): boolean {
    const free = this.#max - this.#total;
    return free > 0 && (this.#running.get(owner) ?? 0) < this.#shareOfFree * free;
  }

  #begin(owner: string): void {
    this.#total += 1;
    this.#running.set(owner, (this.#running.get(owner) ?? 0) + 1);
  }

  #end(owner: string): void {
    this.#total -= 1;
    const left = (this.#running.get(owner) ?? 0) - 1;
    if (left > 0) this.#running.set(owner, left);
    else this.#running.delete(owner);
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) next();
  }

  #takeNext(): (() => void) | undefined {
    for (const [owner, waiting] of this.#waiting) {
      if (!this.#mayBegin(owner)) continue;
      const next = waiting.shift();
      this.#waiting.delete(owner);
      if (waiting.length > 0) this.#waiting.set(owner, waiting);
      this.#begin(owner);
      return next;
    }
    return undefined;
  }
}
