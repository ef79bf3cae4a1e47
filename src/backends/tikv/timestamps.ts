/** Timestamps over one stream to PD: callers that arrive while a request is in flight share the next one. */
import { Backoff, Unreachable } from './backoff.ts';
import type { Channel, Stream } from './channel.ts';
import { fromWide, messageCodec, toWide, type Wide } from './messages.ts';

interface Stamped {
  readonly count?: number;
  readonly timestamp: { readonly physical: Wide; readonly logical: Wide };
  readonly header?: { readonly error?: { readonly message?: string } | null };
}
const tso = {
  path: '/pdpb.PD/Tso',
  ask: messageCodec<object>('TsoRequest'),
  answer: messageCodec<Stamped>('TsoResponse'),
};

/** A timestamp is milliseconds and a counter within them. */
const logicalBits = 18n;
export const physicalMs = (timestamp: bigint): number => Number(timestamp >> logicalBits);

/** A stretch of time as timestamps count it. */
export const toTimestamp = (ms: number): bigint => BigInt(ms) << logicalBits;

/** For so long PD's clock is estimated by the clock of this process, from the last timestamp drawn. */
const freshMs = 1_000;
const sleptMs = 50;
const batchMax = 10_000;
const answerMs = 3_000;

interface Waiter {
  resolve(timestamp: bigint): void;
  reject(error: unknown): void;
}

/** The leader of PD, which alone issues timestamps. */
export interface Leader {
  readonly channel: Channel;
  readonly clusterId: bigint;
}

interface TimestampOptions {
  readonly lead: () => Promise<Leader>;
  /** Called when the server turned out not to be the leader. */
  readonly forget: () => void;
  readonly budgetMs: number;
}

export class Timestamps {
  readonly #options: TimestampOptions;
  readonly #waiting: Waiter[] = [];
  #running = false;
  #stream: Stream<Stamped> | undefined;
  /** The last time from PD's clock, with this process's time at that moment. */
  #latest: { readonly ms: number; readonly at: number; readonly wall: number } | undefined;
  #now = 0;

  constructor(options: TimestampOptions) {
    this.#options = options;
  }

  next(): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (!this.#running) void this.#run();
    });
  }

  /** PD's clock in ms, late by the duration of an answer at most; never goes back. */
  async now(): Promise<number> {
    if (!this.#isFresh()) await this.next();
    const { ms, at } = this.#latest ?? { ms: 0, at: 0 };
    // An answer that took longer than the one before does not turn the clock back.
    this.#now = Math.max(this.#now, ms + Math.floor(performance.now() - at));
    return this.#now;
  }

  #isFresh(): boolean {
    if (this.#latest === undefined) return false;
    const elapsed = performance.now() - this.#latest.at;
    // The monotonic clock stops while a machine sleeps, the wall clock does not.
    return elapsed <= freshMs && Math.abs(Date.now() - this.#latest.wall - elapsed) <= sleptMs;
  }

  close(): void {
    this.#stream?.cancel();
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, batchMax);
      try {
        const last = await this.#draw(batch.length);
        for (const [i, { resolve }] of batch.entries()) resolve(last - BigInt(batch.length - 1 - i));
      } catch (error) {
        // Callers that came meanwhile would wait as long for the same failure.
        for (const { reject } of [...batch, ...this.#waiting.splice(0)]) reject(error);
      }
    }
    this.#running = false;
  }

  #open(leader: Leader): Stream<Stamped> {
    const stream = leader.channel.stream(tso);
    // Between two requests, and after a cancellation, no caller is waiting for this timestamp: drop the error.
    stream.on('error', () => {
      if (this.#stream === stream) this.#stream = undefined;
    });
    return stream;
  }

  /** The last of `count` consecutive timestamps. */
  async #draw(count: number): Promise<bigint> {
    const backoff = new Backoff(this.#options.budgetMs);
    for (;;) {
      try {
        const leader = await this.#options.lead();
        this.#stream ??= this.#open(leader);
        const { timestamp } = await ask(this.#stream, {
          header: { cluster_id: toWide(leader.clusterId) },
          count,
        });
        const physical = fromWide(timestamp.physical);
        this.#latest = { ms: Number(physical), at: performance.now(), wall: Date.now() };
        return (physical << logicalBits) + fromWide(timestamp.logical);
      } catch (cause) {
        this.#stream?.cancel();
        this.#stream = undefined;
        if (cause instanceof Unreachable) throw cause;
        this.#options.forget();
        await backoff.wait('PD gives no timestamp', cause);
      }
    }
  }
}

/** One request and its answer; the stream has one at a time. */
function ask(stream: Stream<Stamped>, request: object): Promise<Stamped> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => done(new Error('the stream of timestamps stalls')), answerMs);
    const onData = (answer: Stamped): void => {
      const refusal = answer.header?.error;
      done(refusal ? new Error(refusal.message) : undefined, answer);
    };
    const onEnd = (): void => done(new Error('the stream of timestamps ended'));
    const done = (error?: unknown, answer?: Stamped): void => {
      clearTimeout(timer);
      stream.off('data', onData).off('error', done).off('end', onEnd);
      if (answer !== undefined && error === undefined) resolve(answer);
      else reject(error);
    };
    stream.on('data', onData).on('error', done).on('end', onEnd);
    stream.write(request);
  });
}
