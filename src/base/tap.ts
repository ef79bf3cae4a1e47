/**
 * Observes a stream as it passes: counts it, hashes it, refuses it. Any number of observers share one layer, because a generator for
 * each of them costs more than hashing 4 KiB.
 */
import type { Awaitable } from './awaitable.ts';

/** An error that an observer throws ends the stream with that error. */
export interface Observer {
  /** The next piece is requested when the returned promise resolves, so that the array is valid until then. */
  see(piece: Uint8Array): Awaitable<void>;
  /** Called when the source has ended. The stream ends when the returned promise resolves. */
  end?(): Awaitable<void>;
}

/** Observes a stream. The result can be read once. */
export function tap(source: AsyncIterable<Uint8Array>, observer: Observer): AsyncIterable<Uint8Array> {
  if (!(source instanceof Tap)) return new Tap(source, observer);
  source.observers.push(observer);
  return source;
}

type Step = IteratorResult<Uint8Array>;

class Tap implements AsyncIterableIterator<Uint8Array> {
  /** In the order in which they were added: the first one refuses first. */
  readonly observers: Observer[];
  readonly #source: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #isOver = false;
  /** Observers that still read the last piece. */
  #seeing: Promise<void> | undefined;

  constructor(source: AsyncIterable<Uint8Array>, observer: Observer) {
    this.#source = source;
    this.observers = [observer];
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    const seeing = this.#seeing;
    if (seeing !== undefined) {
      this.#seeing = undefined;
      return seeing.then(
        () => this.next(),
        (cause: unknown) => this.#refuse(cause),
      );
    }
    if (this.#isOver) return Promise.resolve(over);
    this.#iterator ??= this.#source[Symbol.asyncIterator]();
    return this.#iterator.next().then(this.#pass, this.#broken);
  }

  readonly #pass = (step: Step): Awaitable<Step> => {
    try {
      if (step.done === true) {
        this.#isOver = true;
        let ending: Promise<void> | undefined;
        for (const observer of this.observers) ending = joinPromises(ending, observer.end?.());
        return ending === undefined ? over : ending.then(() => over);
      }
      for (const observer of this.observers)
        this.#seeing = joinPromises(this.#seeing, observer.see(step.value));
      return step;
    } catch (cause) {
      return this.#refuse(cause);
    }
  };

  readonly #broken = (cause: unknown): never => {
    this.#isOver = true;
    throw cause;
  };

  /** Closes the source before it throws the error. */
  async #refuse(cause: unknown): Promise<never> {
    if (!this.#isOver) await this.return();
    throw cause;
  }

  async return(): Promise<Step> {
    const isBegun = this.#iterator !== undefined && !this.#isOver;
    this.#isOver = true;
    if (isBegun) await this.#iterator?.return?.();
    return over;
  }
}

/** Resolves after both. A rejection has no reader where another observer ends the stream first, or the consumer leaves it. */
function joinPromises(
  former: Promise<void> | undefined,
  added: Awaitable<void> | undefined,
): Promise<void> | undefined {
  if (!(added instanceof Promise)) return former;
  added.catch(() => {});
  if (former === undefined) return added;
  const both = former.then(() => added);
  both.catch(() => {});
  return both;
}

const over: IteratorReturnResult<undefined> = { done: true, value: undefined };
