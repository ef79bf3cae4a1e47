/** A request of the listener in the gateway's form; parts that few requests need are created on demand. */
import { type LoanedRing, loanedRing } from '../../backends/data/chunked/buffers.ts';
import { LoanedArrays } from '../../backends/data/chunked/write-chunks.ts';
import { type Incoming, type Wire, WireHeaders } from '../../protocol/wire.ts';
import type { ListenerRequest, ListenerResponse } from './http-exchange.ts';
import type { Client } from './node-reply.ts';

/** Bodies that are joined at a time, two pieces each. Further ones are read as they arrive, so that many slow uploads hold little. */
const joinedMax = 64;
let joined = 0;
/** What Node reads from a socket at once. */
const arrayBytes = 64 * 1024;

/** The facts that all requests of a connection share. */
export interface Peer {
  readonly remote: string;
  readonly secure: boolean;
  readonly tlsVersion: string | undefined;
  readonly tlsCipher: string | undefined;
  readonly listener: 'admin' | 'storage' | undefined;
}

export class NodeIncoming implements Incoming, Client {
  readonly wire: Wire;
  readonly body: NodeBody | undefined;
  readonly pieces: LoanedRing | undefined;
  readonly listener?: 'admin' | 'storage';
  /** The declared length of the body; undefined where it is not known. */
  readonly announcedBytes: number | undefined;
  onLost: (() => void) | undefined;
  isBehind = false;
  #abort: AbortController | undefined;
  #lost: Error | undefined;

  constructor(request: ListenerRequest, peer: Peer, awaitsContinue: ListenerResponse | undefined) {
    const headers = new WireHeaders(request.rawHeaders);
    this.wire = {
      method: request.method as string,
      target: originForm(request.url as string),
      headers,
      remote: peer.remote,
      secure: peer.secure,
      tlsVersion: peer.tlsVersion,
      tlsCipher: peer.tlsCipher,
    };
    if (peer.listener !== undefined) this.listener = peer.listener;
    const length = headers.get('content-length');
    const isChunked = headers.has('transfer-encoding');
    // The parser has refused lengths that are not plain numbers and requests that have both.
    this.announcedBytes = isChunked ? undefined : Number(length ?? 0);
    this.body = this.announcedBytes === 0 ? undefined : new NodeBody(request, awaitsContinue);
    const isLarge = (this.announcedBytes ?? Number.POSITIVE_INFINITY) > arrayBytes;
    this.pieces = isLarge && joined < joinedMax ? loanedRing(2) : undefined;
    if (this.pieces !== undefined) joined += 1;
  }

  /** The request has ended: nothing reads its body any more. */
  end(): void {
    if (this.pieces === undefined) return;
    this.pieces.release();
    joined -= 1;
    this.body?.free();
  }

  /** Created on demand, because an AbortController costs more than a small reply. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#lost !== undefined) this.#abort.abort(this.#lost);
    }
    return this.#abort.signal;
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** The client has disconnected. */
  lose(reason: Error): void {
    this.#lost = reason;
    this.body?.fail(reason);
    this.#abort?.abort(reason);
    this.onLost?.();
  }
}

/** Proxies send targets in absolute form. */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const origin = /^https?:\/\/[^/?#]*/i.exec(target);
  if (origin === null) return target;
  const local = target.slice(origin[0].length);
  return local.startsWith('/') ? local : `/${local}`;
}

/**
 * Why a request is refused before the gateway sees it, where Node is more lenient than safe: with two hosts a request could pass one
 * check under one name and the next under another (RFC 9112, 3.2), and a body in an unknown transfer coding has no end that both
 * sides agree on.
 */
export function findFault(
  { httpVersionMajor, httpVersionMinor, url }: ListenerRequest,
  headers: WireHeaders,
): string | undefined {
  const host = headers.get('host');
  if (host === undefined && (httpVersionMajor > 1 || httpVersionMinor > 0))
    return 'The Host header is missing.';
  if (host?.includes(',')) return 'There is more than one Host header.';
  const coding = headers.get('transfer-encoding');
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return 'The only transfer coding is chunked.';
  const target = url as string;
  if (target.startsWith('/')) return undefined;
  const named = /^https?:\/\/([^/?#]*)/i.exec(target)?.[1];
  if (named === undefined || named.toLowerCase() === host?.toLowerCase()) return undefined;
  return 'The Host header and the host of the request target differ.';
}

// The body of a request as an iterable that is pulled: what is not read stays in the kernel.

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
const loanedArraysMax = 3;

interface Waiter {
  resolve(result: IteratorResult<Uint8Array>): void;
  reject(error: unknown): void;
}

/** Single use. An array is valid until three large ones after it have been returned. */
class NodeBody implements AsyncIterableIterator<Uint8Array> {
  readonly #request: ListenerRequest;
  /** Set while the client still waits for `100 Continue`. */
  #continue: ListenerResponse | undefined;
  readonly #queue: Uint8Array[] = [];
  readonly #loaned = new LoanedArrays(loanedArraysMax);
  #waiter: Waiter | undefined;
  #state: 'unread' | 'flowing' | 'paused' | 'ended' | 'left' = 'unread';
  #failure: Error | undefined;
  #receivedBytes = 0;

  constructor(request: ListenerRequest, awaitsContinue: ListenerResponse | undefined) {
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
      this.#loaned.lend(queued);
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

  /** Frees the arrays that are valid still. Nothing reads them any more. */
  free(): void {
    this.#loaned.free();
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
      this.#loaned.lend(chunk);
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
