/** A node:http request as the gateway sees it; the parts that few requests need are made when asked for. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Incoming, type Wire, WireHeaders } from '../../protocol/request/wire.ts';
import { NodeBody } from './node-body.ts';
import type { Client } from './node-reply.ts';

/** What all requests of a connection have in common. */
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
  readonly listener?: 'admin' | 'storage';
  /** Bytes of body that were announced; undefined where the length is not known. */
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
  }

  /** An AbortController costs more than a small reply: it is made for those who look. */
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

  /** The client went away. */
  lose(reason: Error): void {
    this.#lost = reason;
    this.body?.fail(reason);
    this.#abort?.abort(reason);
    this.onLost?.();
  }
}

/** What a proxy sends in absolute form addresses the same thing. */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const origin = /^https?:\/\/[^/?#]*/i.exec(target);
  if (origin === null) return target;
  const local = target.slice(origin[0].length);
  return local.startsWith('/') ? local : `/${local}`;
}

/**
 * Why a request is refused before the gateway sees it, where Node is more lenient than safe: two opinions
 * about its host would let it pass one check under one name and the next under another (RFC 9112, 3.2),
 * and a body in a coding that we do not know has no end that both sides agree on.
 */
export function faultOf(
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
