/**
 * A request of the listener in the gateway's form, and the writing of its reply. Parts of a request that few need are created on demand; a
 * body of a reply that fails midway never looks complete.
 */
import type { Duplex } from 'node:stream';
import { LoanedArrays } from '../../backends/data/chunked/write-chunks.ts';
import { type ErrorCode, fail } from '../../base/errors.ts';
import { type LoanedRing, loanedRing } from '../../base/loaned-buffers.ts';
import { drawRequestId } from '../../domain/common/ids.ts';
import { systemRandom } from '../../ports/random.ts';
import { isStream, renderHeaders, renderRefusal } from '../../protocol/render.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type Incoming, type Wire, WireHeaders } from '../../protocol/wire.ts';
import { http } from './http.ts';

// What the listener needs of a request and its response. Those of node:http have it too, behind `toNodeHandler`.

export interface ListenerRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: string[];
  /** Whether its last byte has arrived. */
  readonly complete: boolean;
  /** The first listener of `data` starts the body. */
  on(event: 'data', listener: (bytes: Uint8Array) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  pause(): unknown;
  /** Without a listener of `data` the body is dropped. */
  resume(): unknown;
}

export interface ListenerResponse {
  readonly req: Pick<ListenerRequest, 'method'>;
  readonly shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeContinue(): void;
  /** @param flat name, value, name, value */
  writeHead(status: number, flat: string[]): { end(body?: Uint8Array | string): unknown };
  /** @param onWritten called when the kernel has the bytes */
  write(bytes: Uint8Array, onWritten: () => void): unknown;
  end(bytes?: Uint8Array | string, onWritten?: () => void): unknown;
}

export interface Exchange {
  readonly request: ListenerRequest;
  readonly response: ListenerResponse;
  readonly awaitsContinue: boolean;
  /** Called when the reply was written, or will not be: the next request may be read. */
  done?(): void;
}

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

// Writes a reply to the response of the listener; a body that fails midway never looks complete.

/** Name, value, name, value: the form that node:http writes without another look. */
interface Head {
  readonly status: number;
  readonly flat: string[];
  /** The value of Content-Length. */
  readonly length: number | undefined;
}

interface WriteOptions {
  readonly response: ListenerResponse;
  /** Whether this is the last reply of its connection. */
  readonly close: boolean;
  /** The client, which may disconnect. */
  readonly client: Client;
}

interface Client {
  readonly isLost: boolean;
  /** Whether a reply is waiting for the client. */
  isBehind: boolean;
  /** Called when the client disconnects; the last one that was set. */
  onLost: (() => void) | undefined;
}

function buildHead({ status, headers }: Reply, close: boolean): Head {
  const flat: string[] = [];
  let length: number | undefined;
  for (const [name, value] of headers) {
    flat.push(name, value);
    if (name.length === 14 && name.toLowerCase() === 'content-length') length = Number(value);
  }
  if (close) flat.push('Connection', 'close');
  return { status, flat, length };
}

/** Resolves when the response took everything. Rejects when a stream broke: the socket is then the caller's to end. */
export async function writeReply(reply: Reply, options: WriteOptions): Promise<void> {
  const { response, close } = options;
  const { body } = reply;
  const head = buildHead(reply, close);
  if (response.req.method === 'HEAD' || reply.status === 204 || reply.status === 304) {
    response.writeHead(head.status, head.flat).end();
    if (isStream(body)) await leave(body[Symbol.asyncIterator]());
    return;
  }
  if (isStream(body)) return writeStream(body[Symbol.asyncIterator](), head, options);
  const length = countBytes(body);
  if (head.length === undefined) head.flat.push('Content-Length', String(length));
  else if (head.length !== length) throw new LengthFault(head.length, length);
  response.writeHead(head.status, head.flat).end(body);
}

function countBytes(body: Uint8Array | string | undefined): number {
  if (body === undefined) return 0;
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
}

/** Ends a stream that is read no further. */
async function leave(iterator: AsyncIterator<Uint8Array>): Promise<void> {
  await iterator.return?.();
}

/**
 * An array is valid until the array after the next is requested. So one array may be on its way to the kernel when the next is
 * requested, and none when that may be the end: a stream that ends may release its buffers.
 */
async function writeStream(
  iterator: AsyncIterator<Uint8Array>,
  head: Head,
  { response, client }: WriteOptions,
): Promise<void> {
  const pipe = new Pipe(response, client);
  let sentBytes = 0;
  try {
    // The head waits for the first array: both are sent together, and a stream that fails immediately becomes an error reply.
    let next = await iterator.next();
    if (!client.isLost) response.writeHead(head.status, head.flat);
    for (; next.done !== true; next = await iterator.next()) {
      if (client.isLost) return await leave(iterator);
      sentBytes += next.value.byteLength;
      if (head.length !== undefined && sentBytes > head.length) throw new LengthFault(head.length, sentBytes);
      if (sentBytes === head.length) pipe.end(next.value);
      else if (next.value.byteLength > 0) pipe.write(next.value);
      await pipe.holdsAtMost(sentBytes === head.length ? 0 : 1);
    }
  } catch (error) {
    await leave(iterator).catch(() => {});
    throw error;
  }
  if (head.length !== undefined && sentBytes < head.length) throw new LengthFault(head.length, sentBytes);
  if (!response.writableEnded) response.end();
}

/** Counts the arrays that are not yet in the kernel. */
class Pipe {
  readonly #response: ListenerResponse;
  readonly #client: Client;
  #buffered = 0;
  #wake: (() => void) | undefined;

  constructor(response: ListenerResponse, client: Client) {
    this.#response = response;
    this.#client = client;
    // A write that the end of its socket finds under way may never call back.
    client.onLost = () => this.#wake?.();
  }

  write(bytes: Uint8Array): void {
    this.#buffered += 1;
    this.#response.write(bytes, this.#onWritten);
  }

  /** Together with the last bytes, which spares a small reply a second write. */
  end(bytes: Uint8Array): void {
    if (this.#response.writableEnded) return;
    this.#buffered += 1;
    this.#response.end(bytes, this.#onWritten);
  }

  readonly #onWritten = (): void => {
    this.#buffered -= 1;
    this.#wake?.();
  };

  async holdsAtMost(count: number): Promise<void> {
    while (this.#buffered > count && !this.#client.isLost) {
      this.#client.isBehind = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#client.isBehind = false;
  }
}

/** A bug of the handler: sending the body as it is would shift the next reply of the connection. */
class LengthFault extends Error {
  constructor(announced: number, sent: number) {
    super(`the reply announced ${announced} bytes and has ${sent < announced ? 'only' : 'at least'} ${sent}`);
  }
}

// Replies of the Node listener itself, to what never becomes a request: an error like any other, then the end.

const random = systemRandom();

/** An invalid request has no dialect, so the reply has the request id under both names. */
export function refusal(code: ErrorCode, message?: string): Reply {
  const requestId = drawRequestId(random);
  const refused = message === undefined ? fail(code) : fail(code, message);
  const reply = renderRefusal(refused, { requestId, resource: '', isHead: false, format: 'xml' });
  return { ...reply, headers: renderHeaders([['*-request-id', requestId], ...reply.headers], undefined) };
}

/** Long enough for a client that is still sending to see the reply before the reset. */
const lingerMs = 500;

/** Writes to the socket directly, because what arrived is no request. */
export function refuseSocket(socket: Duplex, error: Error & { readonly code?: string }): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const { status, headers, body } = buildRefusal(error);
  const length = ['Content-Length', String(Buffer.byteLength(body as string))];
  const lines = [...headers, ['Connection', 'close'], length].map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'));
  setTimeout(() => socket.destroy(), lingerMs);
}

/** node's `code` of a clientError → the refusal that the client gets. */
function buildRefusal(error: { readonly code?: string }): Reply {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return refusal('RequestHeaderSectionTooLarge');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refusal('RequestTimeout', 'The headers of the request did not arrive in time.');
    default:
      return refusal('BadRequest');
  }
}
