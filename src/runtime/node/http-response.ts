/** A reply on its socket: head and small bodies in one write. */
import type { Socket } from 'node:net';
import { http } from './http.ts';
import type { Head } from './http-head.ts';
import type { ListenerResponse } from './node-exchange.ts';

/** A copy of so many bytes costs less than a second array in a write. */
const joinedBytesMax = 16 * 1024;

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const uncarried = /[^\t\x20-\x7e\x80-\xff]/;

let dateLine = '';
let dateSecond = 0;
function currentDateLine(): string {
  const now = Date.now();
  const second = Math.floor(now / 1000);
  if (second !== dateSecond) [dateSecond, dateLine] = [second, `Date: ${new Date(now).toUTCString()}\r\n`];
  return dateLine;
}

export class HttpResponse implements ListenerResponse {
  readonly req: Pick<Head, 'method' | 'httpVersionMinor'>;
  readonly shouldKeepAlive: boolean;
  writableEnded = false;
  readonly #socket: Socket;
  readonly #keepAliveLine: string;
  /** Written with the first bytes of the body. */
  #head: string | undefined;
  #isBegun = false;
  #isChunked = false;
  #isLast = false;

  constructor(head: Head, socket: Socket, keepAliveLine: string) {
    this.req = head;
    this.shouldKeepAlive = head.keepsAlive;
    this.#socket = socket;
    this.#keepAliveLine = keepAliveLine;
  }

  /** Whether the connection ends after this reply. */
  get isLast(): boolean {
    return this.#isLast;
  }

  get headersSent(): boolean {
    return this.#isBegun;
  }

  writeContinue(): void {
    this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  writeHead(status: number, flat: readonly string[]): this {
    let text = `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'unknown'}\r\n`;
    let [hasLength, hasDate, isLast] = [false, false, false];
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const [name, value] = [flat[i] as string, flat[i + 1] as string];
      if (!token.test(name) || uncarried.test(value))
        throw new TypeError(`HTTP cannot carry the header ${JSON.stringify(name)}`);
      text += `${name}: ${value}\r\n`;
      if (name.length === 14) hasLength ||= name.toLowerCase() === 'content-length';
      else if (name.length === 4) hasDate ||= name.toLowerCase() === 'date';
      else if (name.length === 10) isLast ||= name.toLowerCase() === 'connection' && value === 'close';
    }
    if (!hasDate) text += currentDateLine();
    const hasBody = this.req.method !== 'HEAD' && status !== 204 && status !== 304;
    if (hasBody && !hasLength) {
      if (this.req.httpVersionMinor === 1) {
        this.#isChunked = true;
        text += 'Transfer-Encoding: chunked\r\n';
      } else if (!isLast) {
        // Only the end of the connection shows the end of this body.
        isLast = true;
        text += 'Connection: close\r\n';
      }
    }
    if (!isLast) text += this.#keepAliveLine;
    this.#isLast = isLast;
    this.#head = `${text}\r\n`;
    this.#isBegun = true;
    return this;
  }

  write(bytes: Uint8Array, onWritten: () => void): void {
    const [before, after] = this.#isChunked
      ? [`${this.#takeHead()}${bytes.byteLength.toString(16)}\r\n`, '\r\n']
      : [this.#takeHead(), ''];
    this.#send(before, bytes, after, onWritten);
  }

  end(body: Uint8Array | string = '', onWritten?: () => void): void {
    if (this.writableEnded) return;
    this.writableEnded = true;
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const head = this.#takeHead();
    if (!this.#isChunked) this.#send(head, bytes, '', onWritten);
    else if (bytes.byteLength === 0) this.#send(`${head}0\r\n\r\n`, bytes, '', onWritten);
    else this.#send(`${head}${bytes.byteLength.toString(16)}\r\n`, bytes, '\r\n0\r\n\r\n', onWritten);
    if (this.#isLast) this.#socket.destroySoon();
  }

  #takeHead(): string {
    const head = this.#head ?? '';
    this.#head = undefined;
    return head;
  }

  #send(before: string, bytes: Uint8Array, after: string, onWritten?: () => void): void {
    const socket = this.#socket;
    // Its `close` event wakes the writer. A callback would let a stream without waits go on before that event is emitted.
    if (socket.destroyed) return;
    const length = before.length + bytes.byteLength + after.length;
    if (bytes.byteLength === 0) {
      if (length > 0) socket.write(before + after, 'latin1', onWritten);
      else onWritten?.();
    } else if (length === bytes.byteLength) socket.write(bytes, onWritten);
    else if (length <= joinedBytesMax) {
      const all = Buffer.allocUnsafe(length);
      all.write(before, 0, 'latin1');
      all.set(bytes, before.length);
      if (after !== '') all.write(after, length - after.length, 'latin1');
      socket.write(all, onWritten);
    } else {
      socket.cork();
      if (before !== '') socket.write(before, 'latin1');
      if (after === '') socket.write(bytes, onWritten);
      else {
        socket.write(bytes);
        socket.write(after, 'latin1', onWritten);
      }
      socket.uncork();
    }
  }
}
