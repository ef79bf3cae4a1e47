/** A node:http request in the gateway's form; parts that few requests need are created on demand. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type LentRing, lentRing } from '../../backends/data/chunked/buffers.ts';
import { type Incoming, type Wire, WireHeaders } from '../../protocol/request/wire.ts';
import { NodeBody } from './node-body.ts';
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
  readonly pieces: LentRing | undefined;
  readonly listener?: 'admin' | 'storage';
  /** The declared length of the body; undefined where it is not known. */
  readonly announcedBytes: number | undefined;
  onLost: (() => void) | undefined;
  isBehind = false;
  #abort: AbortController | undefined;
  #lost: Error | undefined;

  constructor(request: IncomingMessage, peer: Peer, awaitsContinue: ServerResponse | undefined) {
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
    this.pieces = isLarge && joined < joinedMax ? lentRing(2) : undefined;
    if (this.pieces !== undefined) joined += 1;
  }

  /** The request has ended: nothing reads its body any more. */
  end(): void {
    if (this.pieces === undefined) return;
    this.pieces.release();
    joined -= 1;
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
function originForm(target: string): string {
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
  { httpVersionMajor, httpVersionMinor, url }: IncomingMessage,
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
