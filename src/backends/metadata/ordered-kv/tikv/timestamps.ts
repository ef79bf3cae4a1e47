/** Timestamps over PD's one stream: whoever asks while an answer is under way shares the next request. */
import { Backoff } from './backoff.ts';
import type { Stream } from './channel.ts';
import { fromWide, messageCodec, toWide, type Wide } from './messages.ts';
import type { Leader } from './placement-driver.ts';

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

const batchMax = 10_000;
const answerMs = 3_000;
const budgetMs = 20_000;

interface Waiter {
  resolve(timestamp: bigint): void;
  reject(error: unknown): void;
}

export class Timestamps {
  readonly #lead: () => Promise<Leader>;
  readonly #forget: () => void;
  readonly #waiting: Waiter[] = [];
  #running = false;
  #stream: Stream<Stamped> | undefined;

  /** @param forget is told when the leader turned out not to be one */
  constructor(lead: () => Promise<Leader>, forget: () => void) {
    this.#lead = lead;
    this.#forget = forget;
  }

  next(): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (!this.#running) void this.#run();
    });
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
        for (const { reject } of batch) reject(error);
      }
    }
    this.#running = false;
  }

  #open(leader: Leader): Stream<Stamped> {
    const stream = leader.channel.stream(tso);
    // Between two questions, and once it was cancelled, an error is nobody's.
    stream.on('error', () => {
      if (this.#stream === stream) this.#stream = undefined;
    });
    return stream;
  }

  /** The last of `count` consecutive timestamps. */
  async #draw(count: number): Promise<bigint> {
    const backoff = new Backoff(budgetMs);
    for (;;) {
      try {
        const leader = await this.#lead();
        this.#stream ??= this.#open(leader);
        const { timestamp } = await ask(this.#stream, {
          header: { cluster_id: toWide(leader.clusterId) },
          count,
        });
        return (fromWide(timestamp.physical) << logicalBits) + fromWide(timestamp.logical);
      } catch (cause) {
        this.#stream?.cancel();
        this.#stream = undefined;
        this.#forget();
        await backoff.wait('PD gives no timestamp', cause);
      }
    }
  }
}

/** One question and its answer; the stream carries one at a time. */
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
