/**
 * The operations under way. One thread of the runtime waits for one of them; others that are done by then are settled together with it,
 * so that many small operations share one wake-up of the event loop. A timer polls too, because the operation that the thread waits
 * for may be on a cluster that hangs.
 */
import { RadosFailure } from './driver.ts';
import { later, type Native, type Pointer } from './librados.ts';

/** The interval of the timer: short while operations complete, longer while none does. */
const [lookMsMin, lookMsMax] = [1, 16];

export interface Operation {
  /** Its return value; rejected where that is an error. */
  readonly done: Promise<number>;
  cancel(): void;
}

export interface Start {
  /** Describes the operation in errors. */
  readonly what: string;
  readonly io: Pointer;
  /** Memory that C reads or writes until the operation is done; the reference keeps it from the garbage collector. */
  readonly holds: readonly unknown[];
  /** Begins the operation that completes the completion. */
  readonly begin: (completion: Pointer) => number;
}

interface Running {
  readonly start: Start;
  readonly settle: (code: number) => void;
}

export class Completions {
  readonly #native: Native;
  /** By completion, the oldest first. */
  readonly #running = new Map<bigint, Running>();
  readonly #slot = new BigUint64Array(new ArrayBuffer(8));
  /** The completion that a thread waits for: it must not be released before that thread is back. */
  #awaited: bigint | undefined;

  constructor(native: Native) {
    this.#native = native;
  }

  run(start: Start): Operation {
    const { lib } = this.#native;
    lib.createCompletion(null, null, this.#slot);
    const completion = this.#slot[0] ?? 0n;
    const refused = start.begin(completion);
    if (refused < 0) {
      lib.releaseCompletion(completion);
      return { done: Promise.reject(new RadosFailure(start.what, -refused)), cancel: () => {} };
    }
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const settle = (code: number): void => {
      if (code < 0) reject(new RadosFailure(start.what, -code));
      else resolve(code);
    };
    this.#running.set(completion, { start, settle });
    if (this.#awaited === undefined) void this.#wait(completion);
    const running = this.#running.get(completion);
    return { done: promise, cancel: () => this.#cancel(completion, running) };
  }

  /** Cancels all that is under way on a pool; settled when nothing is any more. */
  async drain(io: Pointer): Promise<void> {
    const running = [...this.#running].filter(([, { start }]) => start.io === io);
    for (const [completion, each] of running) this.#cancel(completion, each);
    while (running.some(([completion, each]) => this.#running.get(completion) === each)) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  #cancel(completion: bigint, running: Running | undefined): void {
    // Its address may belong to a later operation by now.
    if (running !== undefined && this.#running.get(completion) === running) {
      this.#native.lib.cancel(running.start.io, completion);
    }
  }

  async #wait(first: bigint): Promise<void> {
    let timer = this.#lookAfter(lookMsMin);
    for (let next: bigint | undefined = first; next !== undefined; ) {
      this.#awaited = next;
      await later(this.#native.lib.awaitCompletion, next);
      this.#awaited = undefined;
      this.#reap();
      timer.stop();
      next = this.#running.keys().next().value;
      if (next !== undefined) timer = this.#lookAfter(lookMsMin);
    }
  }

  #lookAfter(ms: number): { stop(): void } {
    let timer: ReturnType<typeof setTimeout>;
    const look = (after: number): void => {
      timer = setTimeout(() => look(this.#reap() > 0 ? lookMsMin : Math.min(2 * after, lookMsMax)), after);
    };
    look(ms);
    return { stop: () => clearTimeout(timer) };
  }

  /** @returns how many were done */
  #reap(): number {
    const { lib } = this.#native;
    let done = 0;
    for (const [completion, { settle }] of this.#running) {
      if (completion === this.#awaited || lib.isComplete(completion) === 0) continue;
      const code = lib.returnValue(completion);
      lib.releaseCompletion(completion);
      this.#running.delete(completion);
      settle(code);
      done += 1;
    }
    return done;
  }
}
