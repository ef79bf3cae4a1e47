/** Reads a body up to a delimiter, piece by piece and without copying: the bytes that it holds back equal the delimiter's. */
import { fail, type Refusal } from '../../errors/refusal.ts';

const nothing = new Uint8Array();
const carriageReturn = 13;

/**
 * A delimiter begins with a carriage return and contains no other one, so after a failed match the next one can begin only at the
 * byte that failed: no byte is examined twice.
 */
export class FormCursor {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = nothing;
  #at = 0;
  #budget: number;

  /** @param budget bytes that may be read as text */
  constructor(body: AsyncIterable<Uint8Array>, budget: number) {
    this.#source = body[Symbol.asyncIterator]();
    this.#budget = budget;
  }

  /** The budget anew, for what follows the file. */
  allow(budget: number): void {
    this.#budget = budget;
  }

  /**
   * The bytes before the delimiter, which is consumed. Arrays are views of the body's own.
   * @param matched bytes of the delimiter that count as read already
   */
  async *until(delimiter: Uint8Array, matched = 0): AsyncGenerator<Uint8Array> {
    // Matched bytes that are no longer in the piece.
    let held = matched;
    let count = matched;
    for (;;) {
      if (this.#at === this.#piece.length && !(await this.#fill())) throw malformedForm();
      const piece = this.#piece;
      const from = this.#at;
      let at = from;
      while (at < piece.length && count < delimiter.length) {
        if (count === 0) {
          const next = piece.indexOf(carriageReturn, at);
          at = next < 0 ? piece.length : next + 1;
          count = next < 0 ? 0 : 1;
        } else if (piece[at] === delimiter[count]) {
          at += 1;
          count += 1;
        } else {
          if (held > 0) yield delimiter.subarray(0, held);
          held = 0;
          count = 0;
        }
      }
      this.#at = at;
      const content = piece.subarray(from, Math.max(from, at - (count - held)));
      if (content.length > 0) yield content;
      if (count === delimiter.length) return;
      held = count;
    }
  }

  /** The bytes before the delimiter, as a copy. @throws MaxPostPreDataLengthExceededError */
  async read(delimiter: Uint8Array, matched = 0): Promise<Uint8Array> {
    this.#spend(delimiter.length);
    const pieces: Uint8Array[] = [];
    let length = 0;
    for await (const piece of this.until(delimiter, matched)) {
      this.#spend(piece.length);
      length += piece.length;
      pieces.push(new Uint8Array(piece));
    }
    const bytes = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    return bytes;
  }

  /** The next so many bytes. */
  async take(count: number): Promise<Uint8Array> {
    this.#spend(count);
    const taken = new Uint8Array(count);
    for (let i = 0; i < count; i += 1) {
      if (this.#at === this.#piece.length && !(await this.#fill())) throw malformedForm();
      taken[i] = this.#piece[this.#at] as number;
      this.#at += 1;
    }
    return taken;
  }

  /** Passes over everything to the end of the body. */
  async finish(): Promise<void> {
    do {
      this.#spend(this.#piece.length - this.#at);
    } while (await this.#fill());
  }

  /** Releases the source when the body is abandoned before its end. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }

  async #fill(): Promise<boolean> {
    this.#piece = nothing;
    this.#at = 0;
    while (this.#piece.length === 0) {
      const { done, value } = await this.#source.next();
      if (done === true) return false;
      this.#piece = value;
    }
    return true;
  }

  #spend(bytes: number): void {
    this.#budget -= bytes;
    if (this.#budget < 0) throw fail('MaxPostPreDataLengthExceededError');
  }
}

export const malformedForm = (): Refusal => fail('MalformedPOSTRequest');
