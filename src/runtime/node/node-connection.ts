/** One connection of the Node listener: its requests in sequence, its timeouts, and its end. */

import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { fail } from '../../base/errors.ts';
import type { Gateway } from '../../gateway.ts';
import { DataUnavailable } from '../../ports/object-bytes.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { findRequestId, type Reply } from '../../protocol/reply.ts';
import {
  type Exchange,
  findFault,
  type ListenerRequest,
  NodeIncoming,
  type Peer,
  refusal,
  refuseSocket,
  writeReply,
} from './node-exchange.ts';

/** An unread body up to this size is read and dropped, so that the connection lives on; a longer one ends it. */
const drainedBytesMax = 256 * 1024;
/** How much is read and dropped, and for how long, before a connection with an unread body is cut. */
const lingerBytesMax = 16 * 1024 * 1024;
const lingerMs = 2000;
/** A client that made no progress between this many checks does not read; with more checks where acknowledgements are not visible. */
const looksMax = 2;
const blindLooksMax = 5;
/** Pipelined requests that wait for their turn before the socket is paused. */
const waitingMax = 16;

export interface ConnectionOptions {
  readonly gateway: Pick<Gateway, 'handle'>;
  readonly telemetry: Telemetry;
  readonly listener: Peer['listener'];
  readonly secure: boolean;
  readonly idleTimeoutMs: number;
  /** Whether the server is shutting down: then replies close their connections. */
  readonly isClosing: () => boolean;
}

/** Whether the store of the bytes is unavailable, as in `request/failure.ts`. */
const isAway = (error: unknown): boolean => error instanceof DataUnavailable;

export class Connection implements Peer {
  readonly remote: string;
  readonly secure: boolean;
  readonly tlsVersion: string | undefined;
  readonly tlsCipher: string | undefined;
  readonly listener: Peer['listener'];
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  #current: { readonly exchange: Exchange; readonly incoming: NodeIncoming } | undefined;
  #serving = Promise.resolve();
  readonly #waiting: Exchange[] = [];
  /** The progress of a slow client at the last check, and how many checks have found the same progress. */
  #progress = { position: '', looks: 0 };
  /** Set when the bytes after the current request cannot be parsed or will not be read. */
  #isLast = false;
  #isRetired = false;

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.remote = socket.remoteAddress ?? '';
    this.secure = options.secure;
    const isTls = socket instanceof TLSSocket;
    this.tlsVersion = isTls ? (socket.getProtocol() ?? '').replace('TLSv', '') : undefined;
    this.tlsCipher = isTls ? socket.getCipher().standardName : undefined;
    this.listener = options.listener;
  }

  /** Requests of one connection run in sequence: a PUT and a pipelined GET must not race. */
  take(exchange: Exchange): void {
    if (this.#isLast) return;
    if (this.#current === undefined) {
      this.#serving = this.#serve(exchange);
      return;
    }
    this.#waiting.push(exchange);
    if (this.#waiting.length === waitingMax) this.#socket.pause();
  }

  async #serve(exchange: Exchange): Promise<void> {
    const { request, response } = exchange;
    const incoming = new NodeIncoming(request, this, exchange.awaitsContinue ? response : undefined);
    this.#current = { exchange, incoming };
    let reply: Reply | undefined;
    try {
      reply = await this.#answer(incoming, request);
      const close = !response.shouldKeepAlive || this.#mustClose(incoming, request);
      if (close) this.#end(incoming, request);
      await writeReply(reply, { response, close, client: incoming });
      if (!close && !request.complete) drop(incoming, request);
    } catch (error) {
      this.#breakOff(exchange, incoming, { error, reply });
    }
    incoming.end();
    this.#current = undefined;
    exchange.done?.();
    // Unless that has begun the next request.
    if (this.#current === undefined) this.#proceed();
  }

  async #answer(incoming: NodeIncoming, request: ListenerRequest): Promise<Reply> {
    const fault = findFault(request, incoming.wire.headers);
    if (fault !== undefined) {
      this.#isLast = true;
      return refusal('BadRequest', fault);
    }
    try {
      return await this.#options.gateway.handle(incoming);
    } catch (error) {
      this.#options.telemetry.log('ERROR', 'the gateway threw', { error });
      return refusal('InternalError');
    }
  }

  /** Whether the connection can carry another request after this one. */
  #mustClose({ body, announcedBytes }: NodeIncoming, request: ListenerRequest): boolean {
    if (this.#isLast || this.#isRetired || this.#options.isClosing()) return true;
    if (body === undefined || request.complete) return false;
    if (body.awaitsContinue || announcedBytes === undefined) return true;
    return announcedBytes - body.receivedBytes > drainedBytesMax;
  }

  /**
   * Node closes a connection immediately after its last reply. If bytes of an unread body are still arriving, the
   * kernel answers them with a reset, which can overtake the reply: so some more bytes are read and dropped.
   */
  #end(incoming: NodeIncoming, request: ListenerRequest): void {
    this.#isLast = true;
    if (request.complete) return;
    const socket = this.#socket;
    const destroySoon = socket.destroySoon;
    socket.destroySoon = () => {
      if (request.complete) return destroySoon.call(socket);
      socket.end();
      drop(incoming, request);
      const bytesReadMax = socket.bytesRead + lingerBytesMax;
      const deadline = Date.now() + lingerMs;
      const timer = setInterval(() => {
        if (Date.now() > deadline || socket.bytesRead > bytesReadMax) socket.destroy();
        if (socket.destroyed) clearInterval(timer);
      }, 50);
    };
  }

  #breakOff(
    { response }: Exchange,
    incoming: NodeIncoming,
    { error, reply }: { readonly error: unknown; readonly reply: Reply | undefined },
  ): void {
    if (incoming.isLost) return;
    // The gateway has already reported the request, by its status.
    const id = reply && findRequestId(reply);
    this.#options.telemetry.log('ERROR', 'a reply was cut off', { request_id: id, error });
    this.#isLast = true;
    if (response.headersSent) this.#cut();
    else
      void writeReply(refusal(isAway(error) ? 'ServiceUnavailable' : 'InternalError'), {
        response,
        close: true,
        client: incoming,
      });
  }

  /** A reset, where the transport has one: a plain end would complete a body without a length (HTTP/1.0). */
  #cut(): void {
    if (!this.secure) this.#socket.resetAndDestroy();
    // The reset alone waits until everything written has left, which a client that does not read prevents.
    this.#socket.destroy();
  }

  #proceed(): void {
    const next = this.#isLast ? undefined : this.#waiting.shift();
    if (next !== undefined) {
      if (this.#waiting.length === waitingMax - 1) this.#socket.resume();
      this.#serving = this.#serve(next);
    } else if (this.#isLast) this.#waiting.length = 0;
    else if (this.#options.isClosing()) {
      // The head of a streamed reply may have left before the shutdown began. A later request could not be answered.
      this.#isLast = true;
      this.#socket.end();
    }
  }

  /** The next reply whose head has not been sent says that the connection ends with it: its client then connects to another process. */
  retire(): void {
    this.#isRetired = true;
  }

  /** The socket closed. */
  lose(): void {
    this.#isLast = true;
    this.#waiting.length = 0;
    this.#current?.incoming.lose(new Error('the client closed the connection'));
  }

  /** Resolves when the current request has ended, which may be after its socket; undefined while there is none. */
  get serving(): Promise<void> | undefined {
    return this.#current === undefined ? undefined : this.#serving;
  }

  /** Called when nothing was received or sent for the idle time. */
  timeOut(): void {
    const current = this.#current;
    // Bytes of a finished reply may still be in this process and in the kernel.
    if (current?.incoming.isBehind || this.#socket.writableLength > 0) {
      this.#socket.setTimeout(this.#options.idleTimeoutMs);
      void this.#cutUnlessRead();
      return;
    }
    if (current === undefined) {
      // Not a reset: a client that reads slowly still gets the bytes in the kernel.
      this.#socket.destroy();
      return;
    }
    // Unless it is the client that is waited for, the gateway itself takes its time.
    if (current.incoming.body?.isAwaited === true) {
      this.#isLast = true;
      current.incoming.body.fail(fail('RequestTimeout'));
    }
    this.#socket.setTimeout(this.#options.idleTimeoutMs);
  }

  /** Disconnects a client that has taken no byte since the last check, one idle time ago. */
  async #cutUnlessRead(): Promise<void> {
    const socket = this.#socket;
    const unacknowledged = await unacknowledgedBytes(socket);
    const position = `${socket.bytesWritten} ${socket.writableLength} ${unacknowledged}`;
    const { looks } = position === this.#progress.position ? this.#progress : { looks: 0 };
    this.#progress = { position, looks: looks + 1 };
    if (looks + 1 >= (unacknowledged === undefined ? blindLooksMax : looksMax)) this.#cut();
  }

  /** Refuses bytes that are not HTTP, or that end in the middle of a request. */
  refuse(error: Error & { readonly code?: string }): void {
    if (this.#current === undefined) {
      refuseSocket(this.#socket, error);
      return;
    }
    // The current request is answered; if its own body broke, the body's reader gets the error.
    this.#isLast = true;
    const isTorn = error.code === 'HPE_INVALID_EOF_STATE';
    this.#current.incoming.body?.fail(fail(isTorn ? 'IncompleteBody' : 'BadRequest'));
  }
}

/** Drops the unread rest of a body, because node parses the next request only after it. */
function drop({ body }: NodeIncoming, request: ListenerRequest): void {
  void body?.return();
  request.resume();
}

// How many bytes of a connection the peer has not acknowledged yet. Node reports progress only when the kernel accepts more bytes, which
// happens when a third of its buffer is free: with a slow reader that is up to a megabyte later. Linux shows the length of each
// connection's queue in /proc/net/tcp and tcp6.

/** One read of these files serves all connections that ask within this time: they list every connection of the machine. */
const freshMs = 500;
const paths = ['/proc/net/tcp', '/proc/net/tcp6'];

type Queues = ReadonlyMap<string, number>;
let look: { readonly at: number; readonly queues: Promise<Queues | undefined> } | undefined;

/** @returns undefined where the platform does not tell */
async function unacknowledgedBytes(socket: Socket): Promise<number | undefined> {
  const { localPort, remotePort, remoteAddress } = socket;
  if (localPort === undefined || remotePort === undefined || remoteAddress === undefined) return undefined;
  const now = performance.now();
  if (look === undefined || now - look.at > freshMs) look = { at: now, queues: readQueues() };
  const queues = await look.queues;
  return queues && (queues.get(`${localPort} ${remotePort} ${addressWords(remoteAddress)}`) ?? 0);
}

/** The connections that have something queued. */
async function readQueues(): Promise<Queues | undefined> {
  const texts = await Promise.all(paths.map((path) => readFile(path, 'latin1').catch(() => undefined)));
  if (texts.every((text) => text === undefined)) return undefined;
  const queues = new Map<string, number>();
  for (const line of texts.flatMap((text) => (text ?? '').split('\n').slice(1))) {
    const [, local = '', remote = '', , sizes = ''] = line.trim().split(' ');
    const bytes = Number.parseInt(sizes, 16);
    if (!(bytes > 0)) continue;
    const [address = '', port = ''] = remote.split(':');
    const localPort = Number.parseInt(local.split(':')[1] ?? '', 16);
    queues.set(`${localPort} ${Number.parseInt(port, 16)} ${stripMapped(address)}`, bytes);
  }
  return queues;
}

/** IPv4 addresses that are mapped to IPv6 count as IPv4, in both files. */
const mapped = '0000000000000000FFFF0000';
const stripMapped = (words: string): string =>
  words.startsWith(mapped) ? words.slice(mapped.length) : words;

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(2, '0');

/** An address as the kernel writes it: words of four bytes, each with its last byte first. */
function addressWords(address: string): string {
  const four = address.split(':').at(-1) ?? '';
  if (four.includes('.')) return four.split('.').map(Number).reverse().map(hex).join('');
  const [head = '', tail] = (address.split('%')[0] as string).split('::');
  const splitGroups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = [splitGroups(head), splitGroups(tail ?? '')];
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0');
  const bytes = [...before, ...zeros, ...after].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
  let words = '';
  for (let at = 0; at < bytes.length; at += 4)
    words += bytes
      .slice(at, at + 4)
      .reverse()
      .map(hex)
      .join('');
  return words;
}
