/** Reads framed text and content from a body that arrives in arbitrary pieces, without copying the content. */
import { fail } from '../../errors/refusal.ts';

const nothing = new Uint8Array();
const ascii = new TextDecoder('latin1');
const carriageReturn = 13;
const lineFeed = 10;

export class BodyCursor {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = nothing;
  #at = 0;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#source = body[Symbol.asyncIterator]();
  }

  /** Whether bytes are buffered. */
  get hasBytes(): boolean {
    return this.#at < this.#piece.length;
  }

  /** Waits for bytes; false at the end of the body. Call it only when no bytes are buffered. */
  async fill(): Promise<boolean> {
    for (;;) {
      const { done, value } = await this.#source.next();
      if (done === true) return false;
      if (value.length === 0) continue;
      this.#piece = value;
      this.#at = 0;
      return true;
    }
  }

  /** A view of up to `limit` of the buffered bytes. */
  take(limit: number): Uint8Array {
    const from = this.#at;
    this.#at = Math.min(this.#piece.length, from + limit);
    return this.#piece.subarray(from, this.#at);
  }

  /** The next line, as `line` returns it, if all of it is buffered and well-formed; undefined otherwise. */
  lineNow(limit: number): string | undefined {
    const from = this.#at;
    const end = this.#piece.indexOf(lineFeed, from) - 1;
    if (end < from || end - from > limit || this.#piece[end] !== carriageReturn) return undefined;
    for (let at = from; at < end; at++) {
      const code = this.#piece[at] as number;
      if (code > 0x7e || code === carriageReturn) return undefined;
    }
    this.#at = end + 2;
    return ascii.decode(this.#piece.subarray(from, end));
  }

  /** A line without its CRLF, as ASCII; one longer than `limit`, or broken in any other way, is refused. */
  async line(limit: number): Promise<string> {
    let text = '';
    for (let previous = 0; ; ) {
      if (!this.hasBytes && !(await this.fill())) throw fail('IncompleteBody');
      const code = this.#piece[this.#at++] as number;
      if (code === lineFeed && previous === carriageReturn) return text.slice(0, -1);
      if (code === lineFeed || previous === carriageReturn || code > 0x7e || text.length > limit)
        throw malformedChunk();
      text += String.fromCharCode(code);
      previous = code;
    }
  }

  /** Everything up to the end of the body, refused when it is more than `limit`. */
  async rest(limit: number): Promise<Uint8Array> {
    const all = new Uint8Array(limit);
    let length = 0;
    while (this.hasBytes || (await this.fill())) {
      const piece = this.take(limit + 1);
      if (length + piece.length > limit) throw malformedChunk();
      all.set(piece, length);
      length += piece.length;
    }
    return all.subarray(0, length);
  }

  /** Releases the source when the body is abandoned before its end. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}

export const malformedChunk = () =>
  fail('InvalidRequest', 'The chunks of the body are not framed as its declaration says');
