/**
 * A source on its way upstream, copied into blocks: the sender of one block may still read it while the next is filled, and the source's
 * arrays are free before that. One block is held back until the source has yielded more or ended well, so that the upstream never gets
 * the whole of a content that turns out to be wrong at its end.
 */
import type { Share } from '../write-budget.ts';

const blockBytes = 128 * 1024;
/** One that is sent and one that is held back. */
const blocks = 2;

interface UploadBodyOptions {
  readonly size: number;
  /** Lent while the source is waited for. */
  readonly share?: Share | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class UploadBody implements AsyncIterableIterator<Uint8Array> {
  readonly size: number;
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #options: UploadBodyOptions;
  readonly #blocks: Uint8Array[] = [];
  #turn = 0;
  #buffered: Uint8Array | undefined;
  #rest: Uint8Array | undefined;
  #input = 0;
  /** The source has ended. */
  #isDone = false;
  #isLeft = false;
  #isBegun = false;
  #pulling: Promise<IteratorResult<Uint8Array>> | undefined;
  #failure: { readonly cause: unknown } | undefined;

  constructor(source: AsyncIterable<Uint8Array>, options: UploadBodyOptions) {
    this.#source = source[Symbol.asyncIterator]();
    this.#options = options;
    this.size = options.size;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Whether reading has begun: the source cannot be read again. */
  get isBegun(): boolean {
    return this.#isBegun;
  }

  /** The error of the source, or the difference from its declared size. */
  get failure(): { readonly cause: unknown } | undefined {
    return this.#failure;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    try {
      for (;;) {
        const before = this.#buffered;
        this.#buffered = await this.#gather();
        if (before !== undefined) return { done: false, value: before };
        if (this.#buffered === undefined) return { done: true, value: undefined };
      }
    } catch (cause) {
      this.#failure ??= { cause };
      await this.stop();
      throw cause;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    await this.stop();
    return { done: true, value: undefined };
  }

  /** Releases the source: immediately where nothing waits for it, else once it yields. */
  async stop(): Promise<void> {
    if (this.#isDone || this.#isLeft) return;
    this.#isLeft = true;
    const leave = async (): Promise<void> => void (await this.#source.return?.().catch(() => {}));
    if (this.#pulling === undefined) await leave();
    else void this.#pulling.then(leave, leave);
  }

  /** The next block, full unless it is the last. */
  async #gather(): Promise<Uint8Array | undefined> {
    const { size } = this.#options;
    const block = this.#nextBlock();
    let filled = 0;
    while (filled < block.length) {
      const piece = this.#rest ?? (await this.#pull());
      if (piece === undefined) break;
      const fitting = piece.subarray(0, block.length - filled);
      block.set(fitting, filled);
      filled += fitting.length;
      this.#rest = fitting.length < piece.length ? piece.subarray(fitting.length) : undefined;
    }
    this.#input += filled;
    if (this.#input > size || (this.#input === size && this.#rest !== undefined))
      throw new Error(`a source of ${size} bytes gave more`);
    if (this.#isDone && this.#input < size) throw new Error(`a source of ${size} bytes gave ${this.#input}`);
    if (filled === 0) return undefined;
    return filled === block.length ? block : block.subarray(0, filled);
  }

  #nextBlock(): Uint8Array {
    const at = this.#turn;
    this.#turn = (at + 1) % blocks;
    this.#blocks[at] ??= new Uint8Array(blockBytes);
    return this.#blocks[at];
  }

  async #pull(): Promise<Uint8Array | undefined> {
    const { share, signal } = this.#options;
    while (!this.#isDone) {
      if (this.#isLeft) throw new Error('the upload was given up');
      this.#isBegun = true;
      share?.park();
      this.#pulling = this.#source.next();
      const { done, value } = await this.#pulling;
      this.#pulling = undefined;
      await share?.resume(value?.length ?? 0, signal);
      if (done === true) this.#isDone = true;
      else if (value.length > 0) return value;
    }
    return undefined;
  }
}
