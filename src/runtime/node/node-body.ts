/** The body of a node:http request as an iterable that is pulled: what is not read stays in the kernel. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LentArrays } from '../../backends/data/chunked/lent-arrays.ts';

/**
 * Arrays kept for a reader that is busy, before the socket is paused; Node keeps up to 64 KiB more.
 * Pausing for each array costs a fifth of the throughput.
 */
const queuedArraysMax = 4;

/**
 * Readers may use the last array while they request the next (`ObjectBytes.write`); a reader that passes views on, as the chunk decoder
 * does, promises the same to its own reader. A large array always has content, so three of them are enough for both, however many
 * small arrays come in between.
 */
const lentArraysMax = 3;

interface Waiter {
  resolve(result: IteratorResult<Uint8Array>): void;
  reject(error: unknown): void;
}

/** Single use. An array is valid until three large ones after it have been returned. */
export class NodeBody implements AsyncIterableIterator<Uint8Array> {
  readonly #request: IncomingMessage;
  /** Set while the client still waits for `100 Continue`. */
  #continue: ServerResponse | undefined;
  readonly #queue: Uint8Array[] = [];
  readonly #lent = new LentArrays(lentArraysMax);
  #waiter: Waiter | undefined;
  #state: 'unread' | 'flowing' | 'paused' | 'ended' | 'left' = 'unread';
  #failure: Error | undefined;
  #receivedBytes = 0;

  constructor(request: IncomingMessage, awaitsContinue: ServerResponse | undefined) {
    this.#request = request;
    this.#continue = awaitsContinue;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#state === 'unread') this.#start();
    const queued = this.#queue.shift();
    if (queued !== undefined) {
      if (this.#queue.length === 0 && this.#state === 'paused') this.#resume();
      this.#lent.lend(queued);
      return Promise.resolve({ value: queued, done: false });
    }
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#state === 'ended' || this.#state === 'left') return Promise.resolve(finished);
    if (this.#waiter !== undefined) return Promise.reject(new Error('the body is being read already'));
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  /** A reader that stops early leaves the rest on the socket; the connection drains or closes it. */
  return(): Promise<IteratorResult<Uint8Array>> {
    if (this.#state === 'flowing') this.#request.pause();
    if (this.#state !== 'ended') this.#state = 'left';
    this.#queue.length = 0;
    return Promise.resolve(finished);
  }

  /** Ends the body: the reader gets the queued bytes, then the error. */
  fail(error: Error): void {
    if (this.#state === 'ended' || this.#failure !== undefined) return;
    this.#failure = error;
    this.#waiter?.reject(error);
    this.#waiter = undefined;
  }

  /** Whether the connection waits for the reader, and not for the client. */
  get isAwaited(): boolean {
    return this.#waiter !== undefined;
  }
  /** Whether the client waits for 100 Continue, and so has not sent the body. */
  get awaitsContinue(): boolean {
    return this.#continue !== undefined;
  }
  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  #start(): void {
    this.#continue?.writeContinue();
    this.#continue = undefined;
    this.#state = 'flowing';
    this.#request.on('data', (chunk: Uint8Array) => this.#take(chunk));
    this.#request.on('end', () => this.#end());
  }

  #resume(): void {
    this.#state = 'flowing';
    this.#request.resume();
  }

  #take(chunk: Uint8Array): void {
    this.#receivedBytes += chunk.byteLength;
    if (this.#state === 'left' || this.#failure !== undefined) return;
    const waiter = this.#waiter;
    if (waiter !== undefined) {
      this.#waiter = undefined;
      this.#lent.lend(chunk);
      waiter.resolve({ value: chunk, done: false });
      return;
    }
    this.#queue.push(chunk);
    if (this.#queue.length >= queuedArraysMax && this.#state === 'flowing') {
      this.#state = 'paused';
      this.#request.pause();
    }
  }

  #end(): void {
    if (this.#state === 'left' || this.#failure !== undefined) return;
    this.#state = 'ended';
    this.#waiter?.resolve(finished);
    this.#waiter = undefined;
  }
}

const finished: IteratorReturnResult<undefined> = { value: undefined, done: true };
