/**
 * Splits long work on the event loop into turns, so that other work runs in between.
 *
 * All works of a process share the turns: the event loop serves others after each piece of work, or after `turnMs` of small pieces of
 * one loop. So neither parallel pieces of a request nor many requests hold it for longer. Pieces wait in a queue for each account, and
 * accounts have their turns one after the other. Where a timer ends with the request that began it (workerd), each work has turns of its
 * own.
 */
import { inParallel } from '../../base/concurrency.ts';
import type { Clock } from '../../ports/clock.ts';

const turnMs = 10;

type TurnClock = Pick<Clock, 'elapsed' | 'sleep' | 'hasRequestScopedTimers'>;

interface Work {
  readonly signal: AbortSignal | undefined;
  /** Names the queue in which the work waits. */
  readonly account: unknown;
  readonly isParallel: boolean;
  /** When it was opened, or last let others run. */
  since: number;
}

/** The turn of an account. */
interface Turn {
  readonly account: unknown;
  readonly since: number;
  /** The work that may go on without waiting. */
  work: Work | undefined;
}

interface Waiting {
  readonly work: Work;
  begin(): void;
}

/** The event loop calls it once it has served what is ready. Timers take a millisecond, which is long for one of a thousand pieces. */
const afterOthers = (call: () => void): void => {
  // Not each runtime has it, so its type is not among those of the core.
  const { setImmediate } = globalThis as { readonly setImmediate?: (call: () => void) => void };
  if (setImmediate === undefined) setTimeout(call, 0);
  else setImmediate(call);
};

class EventLoopTurns {
  readonly #clock: TurnClock;
  /** Undefined while no work has anything to do. */
  #turn: Turn | undefined;
  /** By account, in the order of their next turns. */
  readonly #queues = new Map<unknown, Waiting[]>();

  constructor(clock: TurnClock) {
    this.#clock = clock;
  }

  async wait(work: Work): Promise<void> {
    if (!this.#mayGoOn(work))
      await new Promise<void>((begin) => {
        const queue = this.#queues.get(work.account) ?? [];
        queue.push({ work, begin });
        this.#queues.set(work.account, queue);
      });
    work.signal?.throwIfAborted();
  }

  #mayGoOn(work: Work): boolean {
    const { isParallel, account } = work;
    if (this.#turn === undefined) {
      const since = isParallel ? this.#clock.elapsed() : work.since;
      const isOver = !isParallel && this.#isOver(work);
      this.#open({ account, since, work: isOver ? undefined : work });
      return !isOver;
    }
    return !isParallel && work === this.#turn.work && !this.#isOver(this.#turn);
  }

  #isOver({ since }: { readonly since: number }): boolean {
    return this.#clock.elapsed() - since >= turnMs;
  }

  /** One piece begins at a time, because how long it takes is known only when the event loop comes back. */
  #open(turn: Turn): void {
    this.#turn = turn;
    afterOthers(() => this.#goOn());
  }

  #goOn(): void {
    const turn = this.#turn;
    if (turn === undefined) return;
    turn.work = undefined;
    if (this.#queues.size === 0) this.#turn = undefined;
    else if (this.#isOver(turn)) void this.#clock.sleep(0).then(() => this.#beginNext());
    else if (!this.#beginOf(turn.account, turn.since)) this.#beginNext();
  }

  /** The turn of the account that waits longest. */
  #beginNext(): void {
    for (const account of this.#queues.keys()) if (this.#beginOf(account)) return;
    this.#turn = undefined;
  }

  /** Begins a piece of the account. A work that was aborted takes no time. @returns whether there was one */
  #beginOf(account: unknown, since = this.#clock.elapsed()): boolean {
    const queue = this.#queues.get(account) ?? [];
    this.#queues.delete(account);
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      next.begin();
      if (next.work.signal?.aborted === true) continue;
      if (queue.length > 0) this.#queues.set(account, queue);
      next.work.since = since;
      this.#open({ account, since, work: next.work });
      return true;
    }
    return false;
  }
}

/** By clock, because a process has one clock. */
const shared = new WeakMap<TurnClock, EventLoopTurns>();

interface Options {
  /** Ends the work: the function throws its reason once it is aborted, such as by the disconnect of the client that asked. */
  readonly signal?: AbortSignal | undefined;
  /** The works of one account wait in one queue; a work without an account has its own. */
  readonly account?: string | undefined;
  /** Whether pieces of the work run beside each other, as in `inParallelTurns`: how long one takes is then unknown to the next one. */
  readonly isParallel?: boolean;
}

/** @returns a function that the work calls and awaits between its pieces; it waits where the turn is over */
export function openTurns(
  clock: TurnClock,
  { signal, account, isParallel = false }: Options = {},
): () => Promise<void> {
  const work = { signal, account: account ?? {}, isParallel, since: clock.elapsed() };
  const turns = shared.get(clock) ?? new EventLoopTurns(clock);
  // Otherwise the timer of another request could end while this work waits for it.
  if (clock.hasRequestScopedTimers !== true) shared.set(clock, turns);
  return () => turns.wait(work);
}

/** The same items, with a rest of `openTurns` ahead of each. */
export async function* inTurns<T>(items: AsyncIterable<T>, rest: () => Promise<void>): AsyncGenerator<T> {
  for await (const item of items) {
    await rest();
    yield item;
  }
}

/** `inParallel` with a rest ahead of each piece. @param rest of `openTurns` with `isParallel` */
export const inParallelTurns = <T, R>(
  { limit, rest }: { readonly limit: number; readonly rest: () => Promise<void> },
  items: readonly T[],
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> =>
  inParallel(limit, items, async (item, index) => {
    await rest();
    return work(item, index);
  });
