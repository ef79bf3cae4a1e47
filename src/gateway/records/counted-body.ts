/** Counts the bytes of a reply that is streamed. */
import type { Awaitable } from '../../base/awaitable.ts';

type Over = (bytes: number) => Awaitable<void>;
type Step = IteratorResult<Uint8Array>;

/**
 * The same body; calls `over` once with the number of bytes that were read, at its end or when the reader stops. All that wait for the
 * end of a body share one layer, and are called in turn.
 */
export function countedBody(body: AsyncIterable<Uint8Array>, over: Over): AsyncIterable<Uint8Array> {
  const counted = body instanceof CountedBody ? body : new CountedBody(body);
  counted.overs.push(over);
  return counted;
}

/** A class without async functions, because most replies with content have one. */
class CountedBody implements AsyncIterableIterator<Uint8Array> {
  readonly overs: Over[] = [];
  readonly #body: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #bytes = 0;
  #isOver = false;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
    return this.#iterator.next().then(this.#pass, this.#broken);
  }

  async return(): Promise<Step> {
    this.#iterator ??= this.#body[Symbol.asyncIterator]();
    try {
      await this.#iterator.return?.();
    } finally {
      await this.#end();
    }
    return { done: true, value: undefined };
  }

  readonly #pass = (step: Step): Awaitable<Step> => {
    if (step.done !== true) {
      this.#bytes += step.value.length;
      return step;
    }
    const ending = this.#end();
    return ending === undefined ? step : ending.then(() => step);
  };

  readonly #broken = async (cause: unknown): Promise<never> => {
    await this.#end();
    throw cause;
  };

  #end(): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    this.#isOver = true;
    return this.#tell(0);
  }

  #tell(first: number): Promise<void> | undefined {
    for (let at = first; at < this.overs.length; at += 1) {
      const telling = this.overs[at]?.(this.#bytes);
      if (telling instanceof Promise) return telling.then(() => this.#tell(at + 1));
    }
    return undefined;
  }
}
