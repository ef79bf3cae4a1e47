/**
 * How slowly a client may send a body. A body that is read whole has a deadline. One that is streamed to storage has a minimum rate,
 * measured only over the time in which the gateway waits for the client.
 */

import { fail } from '../base/errors.ts';
import type { Context } from '../context.ts';

type Ctx = Pick<Context, 'clock' | 'config'>;
type Step = IteratorResult<Uint8Array>;

/** The window in which the rate is measured, long enough for a pause of a mobile client. */
const windowMs = 30_000;

/** Single use, as the body is. It has a deadline until `stream` is called. */
export class PacedBody implements AsyncIterableIterator<Uint8Array> {
  readonly #ctx: Ctx;
  readonly #source: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #isStreamed = false;
  /** Ends the wait for the deadline. */
  #deadline: AbortController | undefined;
  #isLate = false;
  #miss: ((error: Error) => void) | undefined;
  #waitedMs = 0;
  /** Of the present window. */
  #receivedBytes = 0;
  /** Everything that the client has sent so far. */
  totalBytes = 0;
  /** How long the gateway has waited for it. */
  clientMs = 0;

  constructor(ctx: Ctx, source: AsyncIterable<Uint8Array>) {
    this.#ctx = ctx;
    this.#source = source;
  }

  /** Replaces the deadline by the minimum rate. */
  stream(): void {
    this.#isStreamed = true;
    this.#deadline?.abort();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    this.#iterator ??= this.#source[Symbol.asyncIterator]();
    return this.#isStreamed ? this.#nextInRate(this.#iterator) : this.#nextInTime(this.#iterator);
  }

  return(): Promise<Step> {
    this.#deadline?.abort();
    return this.#iterator?.return?.() ?? Promise.resolve({ done: true, value: undefined });
  }

  #nextInRate(iterator: AsyncIterator<Uint8Array>): Promise<Step> {
    const { clock, config } = this.#ctx;
    const askedAt = clock.elapsed();
    return iterator.next().then((step) => {
      const waitedMs = clock.elapsed() - askedAt;
      this.#waitedMs += waitedMs;
      this.clientMs += waitedMs;
      if (step.done === true) return step;
      this.#receivedBytes += step.value.length;
      this.totalBytes += step.value.length;
      if (this.#waitedMs < windowMs) return step;
      const isTooSlow = this.#receivedBytes < (config.SVC_BODY_RATE_MIN * this.#waitedMs) / 1000;
      this.#waitedMs = 0;
      this.#receivedBytes = 0;
      if (isTooSlow) throw fail('RequestTimeout', 'The body arrived too slowly.');
      return step;
    });
  }

  async #nextInTime(iterator: AsyncIterator<Uint8Array>): Promise<Step> {
    this.#startDeadline();
    if (this.#isLate) throw tooLate();
    const { clock } = this.#ctx;
    const askedAt = clock.elapsed();
    const missed = new Promise<never>((_, reject) => {
      this.#miss = reject;
    });
    try {
      const step = await Promise.race([iterator.next(), missed]);
      if (step.done === true) this.#deadline?.abort();
      else this.totalBytes += step.value.length;
      return step;
    } catch (cause) {
      this.#deadline?.abort();
      throw cause;
    } finally {
      this.clientMs += clock.elapsed() - askedAt;
      this.#miss = undefined;
    }
  }

  #startDeadline(): void {
    if (this.#deadline !== undefined) return;
    const { clock, config } = this.#ctx;
    const deadline = new AbortController();
    this.#deadline = deadline;
    void clock.sleep(config.SVC_BODY_TIMEOUT, deadline.signal).then(() => {
      if (deadline.signal.aborted) return;
      this.#isLate = true;
      this.#miss?.(tooLate());
    });
  }
}

const tooLate = () => fail('RequestTimeout', 'The body was not complete within the time limit.');
