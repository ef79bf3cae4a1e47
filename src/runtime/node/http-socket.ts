/**
 * The requests of one socket: HTTP/1.1 over `node:net` and `node:tls`, because the server of node:http costs a third of a small GET
 * (docs/adr/0048-the-listener-reads-http.md). One request at a time: the bytes after it wait until its reply was written.
 */
import type { Socket } from 'node:net';
import {
  checkBegin,
  checkTrailer,
  chunkLineBytesMax,
  type Head,
  HttpFault,
  headBytesMax,
  parseChunkLine,
  parseHead,
} from './http-head.ts';
import { HttpResponse } from './http-response.ts';
import type { Exchange, ListenerRequest } from './node-exchange.ts';

/**
 * Bytes that wait for the reply or for the reader of a body, before the socket is paused. As many as node:http has at most: a paused socket
 * does not show that its client has disconnected.
 */
const bufferedBytesMax = 128 * 1024;
/** A client chooses how small its pieces are: each has an object of its own, and `shift` moves all that come after it. */
const bufferedPiecesMax = 512;
/** Empty lines before a request, which some clients send after a body. */
const emptyLinesMax = 2;

export interface HttpSocketOptions {
  readonly take: (exchange: Exchange) => void;
  /** Called once: nothing is read after that. */
  readonly refuse: (fault: HttpFault) => void;
  readonly keepAliveLine: string;
}

class HttpRequest implements ListenerRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor: 0 | 1;
  readonly rawHeaders: string[];
  complete: boolean;
  isFlowing = false;
  onData: ((bytes: Uint8Array) => void) | undefined;
  onEnd: (() => void) | undefined;
  readonly #socket: HttpSocket;

  constructor({ method, url, httpVersionMinor, rawHeaders, bodyBytes }: Head, socket: HttpSocket) {
    this.method = method;
    this.url = url;
    this.httpVersionMinor = httpVersionMinor;
    this.rawHeaders = rawHeaders;
    this.complete = bodyBytes === 0;
    this.#socket = socket;
  }

  on(event: 'data', listener: (bytes: Uint8Array) => void): void;
  on(event: 'end', listener: () => void): void;
  on(event: 'data' | 'end', listener: (bytes: Uint8Array) => void): void {
    if (event === 'end') this.onEnd = listener as () => void;
    else {
      this.onData = listener;
      this.resume();
    }
  }

  pause(): void {
    this.isFlowing = false;
    if (!this.complete) this.#socket.pause();
  }

  resume(): void {
    if (this.isFlowing) return;
    this.isFlowing = true;
    // Later, because the caller may still add its listeners.
    if (!this.complete) queueMicrotask(() => this.#socket.proceed());
  }
}

type State = 'head' | 'content' | 'chunk-line' | 'chunk' | 'chunk-end' | 'trailers' | 'over';

export class HttpSocket {
  readonly socket: Socket;
  readonly #options: HttpSocketOptions;
  #state: State = 'head';
  #current: HttpRequest | undefined;
  #response: HttpResponse | undefined;
  /** Whether the current request was answered. */
  #isAnswered = false;
  /** What arrived and was not read yet. */
  readonly #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #isPaused = false;
  #isReading = false;
  #hasEnded = false;
  /** The beginning of a head or a line, and up to where its end was looked for. */
  #begun: Buffer | undefined;
  #searched = 0;
  #emptyLines = 0;
  /** What is left of the content or the chunk. */
  #left = 0;
  #trailerBytes = 0;
  /** When the head that is arriving began; 0 while none is. A client that sends nothing at all counts from its connection. */
  headStartedAt = performance.now();

  constructor(socket: Socket, options: HttpSocketOptions) {
    this.socket = socket;
    this.#options = options;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.on('end', () => this.#end());
    socket.on('drain', () => this.proceed());
  }

  /** Whether no request is under way, and none has begun to arrive. */
  get isIdle(): boolean {
    return this.#current === undefined && this.#begun === undefined;
  }

  /** Stops reading because the reader of a body is behind. */
  pause(): void {
    this.#isPaused = true;
    this.socket.pause();
  }

  /** Reads on, if it may. */
  proceed(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#buffered.length > 0 && this.#mayRead()) {
      const bytes = this.#buffered.shift() as Buffer;
      this.#bufferedBytes -= bytes.length;
      this.#read(bytes);
    }
    this.#isReading = false;
    if (!this.#mayRead()) return;
    if (this.#hasEnded) this.#endTorn();
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.socket.resume();
  }

  /** Refuses whatever comes next, for example because a head did not arrive in time. */
  fail(fault: HttpFault): void {
    if (this.#state === 'over') return;
    this.#close();
    this.#options.refuse(fault);
  }

  #close(): void {
    this.#state = 'over';
    this.headStartedAt = 0;
    this.#begun = undefined;
    this.#buffered.length = 0;
    this.#bufferedBytes = 0;
    // What arrives is dropped until the socket is closed.
    this.#isPaused = false;
    this.socket.resume();
  }

  #mayRead(): boolean {
    if (this.#state === 'over') return true;
    // A client that does not read its replies gets no more of them, because each would wait in memory.
    if (this.#current === undefined) return !this.socket.writableNeedDrain;
    return this.#current.isFlowing && !this.#current.complete;
  }

  #take(bytes: Buffer): void {
    if (this.#state === 'over') return;
    if (this.#buffered.length > 0 || this.#isReading || !this.#mayRead()) {
      this.#buffer(bytes);
      return;
    }
    this.#isReading = true;
    this.#read(bytes);
    this.#isReading = false;
    // A handler that answers at once has made room for the next request.
    if (this.#buffered.length > 0 && this.#mayRead()) this.proceed();
  }

  #buffer(bytes: Buffer, isFirst = false): void {
    if (isFirst) this.#buffered.unshift(bytes);
    else this.#buffered.push(bytes);
    this.#bufferedBytes += bytes.length;
    // While the socket drains it holds no request, and its writes show that the client has disconnected.
    const isDraining = this.#current === undefined;
    const isFull = this.#bufferedBytes >= bufferedBytesMax || this.#buffered.length >= bufferedPiecesMax;
    if (isDraining || isFull) this.pause();
  }

  #read(bytes: Buffer): void {
    try {
      for (let at = 0; at < bytes.length && this.#state !== 'over'; ) {
        if (!this.#mayRead()) {
          this.#buffer(bytes.subarray(at), true);
          return;
        }
        at = this.#step(bytes, at);
      }
    } catch (error) {
      if (!(error instanceof HttpFault)) throw error;
      this.fail(error);
    }
  }

  /** @returns up to where the bytes were used */
  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes, at);
      case 'content':
      case 'chunk':
        return this.#readContent(bytes, at);
      case 'chunk-line':
        return this.#readLine(bytes, at, chunkLineBytesMax, (line) => this.#beginChunk(parseChunkLine(line)));
      case 'chunk-end':
        return this.#readLine(bytes, at, 2, (line) => {
          if (line !== '') throw new HttpFault('HPE_INVALID', 'a chunk is longer than its size');
          this.#state = 'chunk-line';
        });
      case 'trailers':
        return this.#readLine(bytes, at, headBytesMax, (line) => this.#endTrailer(line));
      case 'over':
        return bytes.length;
    }
  }

  #readHead(bytes: Buffer, at: number): number {
    const begun = this.#begun;
    const all = begun === undefined ? bytes.subarray(at) : Buffer.concat([begun, bytes.subarray(at)]);
    if (all.length >= 2 && all[0] === 13 && all[1] === 10) {
      this.#emptyLines += 1;
      if (this.#emptyLines > emptyLinesMax)
        throw new HttpFault('HPE_INVALID', 'empty lines before a request');
      this.#begun = undefined;
      this.#searched = 0;
      return at + 2 - (begun?.length ?? 0);
    }
    const end = all.indexOf('\r\n\r\n', Math.max(0, this.#searched - 3), 'latin1');
    if (end < 0) {
      checkPart(all, this.#searched);
      if (this.headStartedAt === 0) this.headStartedAt = performance.now();
      this.#begun = all;
      this.#searched = all.length;
      return bytes.length;
    }
    const head = parseHead(all.toString('latin1', 0, end));
    this.#begun = undefined;
    [this.#searched, this.#emptyLines, this.headStartedAt] = [0, 0, 0];
    this.#begin(head);
    return at + end + 4 - (begun?.length ?? 0);
  }

  #begin(head: Head): void {
    const request = new HttpRequest(head, this);
    this.#current = request;
    this.#isAnswered = false;
    this.#left = head.bodyBytes;
    this.#trailerBytes = 0;
    this.#state = head.bodyBytes === 0 ? 'head' : head.bodyBytes < 0 ? 'chunk-line' : 'content';
    const response = new HttpResponse(head, this.socket, this.#options.keepAliveLine);
    this.#response = response;
    const done = (): void => {
      this.#isAnswered = true;
      this.#endExchange();
    };
    this.#options.take({ request, response, awaitsContinue: head.awaitsContinue, done });
  }

  #readContent(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    const request = this.#current as HttpRequest;
    const isAll = this.#left === 0;
    if (isAll) this.#state = this.#state === 'chunk' ? 'chunk-end' : 'head';
    // The array itself where all of it is content, because its reader frees it then.
    request.onData?.(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    if (isAll && this.#state === 'head') this.#complete();
    return end;
  }

  #beginChunk(size: number): void {
    this.#left = size;
    this.#state = size === 0 ? 'trailers' : 'chunk';
  }

  #endTrailer(line: string): void {
    if (line === '') {
      this.#state = 'head';
      this.#complete();
      return;
    }
    checkTrailer(line);
    this.#trailerBytes += line.length + 2;
    if (this.#trailerBytes > headBytesMax)
      throw new HttpFault('HPE_HEADER_OVERFLOW', 'the trailers are too long');
  }

  /** @param bytesMax the longest line, with its end */
  #readLine(bytes: Buffer, at: number, bytesMax: number, take: (line: string) => void): number {
    const begun = this.#begun;
    const before = begun?.length ?? 0;
    const found = bytes.indexOf(10, at);
    const end = found < 0 ? bytes.length : found + 1;
    if (before + end - at > bytesMax)
      throw new HttpFault('HPE_INVALID', 'a line of a chunked body is too long');
    const part = bytes.subarray(at, end);
    const all = begun === undefined ? part : Buffer.concat([begun, part]);
    if (found < 0) {
      this.#begun = all;
      return end;
    }
    this.#begun = undefined;
    if (all.length < 2 || all[all.length - 2] !== 13)
      throw new HttpFault('HPE_INVALID', 'a line ends without CR');
    take(all.toString('latin1', 0, all.length - 2));
    return end;
  }

  #complete(): void {
    const request = this.#current as HttpRequest;
    request.complete = true;
    request.onEnd?.();
    this.#endExchange();
  }

  /** The next request is read when this one was answered and has arrived. */
  #endExchange(): void {
    if (!this.#isAnswered || this.#current?.complete !== true) return;
    this.#current = undefined;
    // Drop what comes after the last reply: the kernel would answer unread bytes with a reset, which can overtake the reply.
    if (this.#response?.isLast === true) this.#close();
    else if (this.#buffered.length > 0 || this.#isPaused || this.#hasEnded) this.proceed();
  }

  /** The client sends no more. As in node:http, this ends the connection, unless its last request is torn. */
  #end(): void {
    this.#hasEnded = true;
    if (this.#state === 'over') this.socket.end();
    else if (this.#buffered.length === 0) this.#endTorn();
    else if (this.#state === 'content' && this.#bufferedBytes < this.#left) this.#endTorn();
    // A chunked body that was not read yet may be torn too, but its client has most likely disconnected.
    else this.socket.end();
  }

  #endTorn(): void {
    const isTorn = this.#begun !== undefined || this.#current?.complete === false;
    if (isTorn && !(this.#current !== undefined && this.#isAnswered))
      this.fail(new HttpFault('HPE_INVALID_EOF_STATE', 'the connection ended inside a request'));
    else {
      this.#close();
      this.socket.end();
    }
  }
}

/** Checks the part of a head that has just arrived, so that a head in many parts costs no more than one in one part. */
function checkPart(all: Buffer, checked: number): void {
  if (all.length > headBytesMax) throw new HttpFault('HPE_HEADER_OVERFLOW', 'the head is too long');
  // With the byte before it, which may be the CR of its first LF.
  const from = Math.max(0, checked - 1);
  checkBegin(all.toString('latin1', checked > 0 && all[from] === 10 ? from + 1 : from, all.length));
}
