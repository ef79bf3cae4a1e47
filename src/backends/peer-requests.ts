/** Signed requests to replication peers: single ones with connections of their own, and those of the replicator over pools. */

import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { memoizeEach, memoizeLast } from '../base/bounded-cache.ts';
import { toHex } from '../base/text/hex.ts';
import type { Clock } from '../ports/clock.ts';
import type { Hasher } from '../ports/cryptography.ts';
import {
  type PeerAccess,
  type PeerReply,
  type PeerRequests,
  type PeerSending,
  PeerSilent,
} from '../ports/peer-requests.ts';
import { amz } from '../protocol/dialect.ts';
import { type Signer, signer } from '../signing/sign-request.ts';
import { encode } from '../signing/signing-key.ts';
import { guardedAgent, guardedProxy, type MayReach } from './egress.ts';

export interface PeerRequestOptions {
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'now'>;
  readonly mayReach: MayReach;
  /** How long a whole request may take. */
  readonly timeoutMs: number;
}

/**
 * Connections of a pool. The replicator shares 85 turns of a peer out among accounts, and sends up to 5 large contents
 * beside these; the other connections are for checks of rules and peers.
 */
const connectionsMax = 128;
/** Pools that are kept: peers are few, and a changed certificate makes another pool. */
const poolsMax = 128;

/** The agents of peers: one of its own for a single request, or the pool of its peer. */
class Agents {
  readonly #options: PeerRequestOptions;
  readonly #pools = new Map<string, Agent>();
  readonly #nameOf = memoizeLast(({ endpoint, ca, cert, key, proxy }: PeerAccess) =>
    JSON.stringify([endpoint, ca, cert, key, proxy]),
  );

  constructor(options: PeerRequestOptions) {
    this.#options = options;
  }

  /** @throws EgressRefused for a proxy whose address may not be reached */
  open({ endpoint, ca, cert, key, proxy }: PeerAccess, connections: number): Agent {
    const { mayReach, timeoutMs } = this.#options;
    const options = { mayReach, timeoutMs, connections, ca, cert, key };
    return proxy === undefined ? guardedAgent(options) : guardedProxy({ ...options, proxy, endpoint });
  }

  pool(access: PeerAccess): Agent {
    const name = this.#nameOf(access);
    const found = this.#pools.get(name);
    if (found !== undefined) return found;
    const [oldest] = this.#pools.keys();
    if (this.#pools.size >= poolsMax && oldest !== undefined) {
      void this.#pools.get(oldest)?.close();
      this.#pools.delete(oldest);
    }
    const agent = this.open(access, connectionsMax);
    this.#pools.set(name, agent);
    return agent;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((agent) => agent.destroy()));
    this.#pools.clear();
  }
}

export const peerRequests = (options: PeerRequestOptions): PeerRequests => {
  const agents = new Agents(options);
  const { hasher, clock, timeoutMs } = options;
  // A signer derives its key once a day.
  const openSigner = memoizeEach(({ accessKey, secretKey, region }: PeerAccess) =>
    signer({ hasher, clock, accessKey, secretKey, region }),
  );
  const signedRequest = (access: PeerAccess, request: PeerSending) =>
    toSigned(hasher, request, { endpoint: access.endpoint, sign: openSigner(access) });
  return {
    async ask(access, request) {
      const signed = signedRequest(access, request);
      const signal = AbortSignal.timeout(timeoutMs);
      let agent: Agent | undefined;
      try {
        agent = agents.open(access, 1);
        return await dispatch(agent, signed, signal);
      } catch (cause) {
        throw new PeerSilent(
          signal.aborted ? `no whole answer within ${timeoutMs} ms` : describe(cause, timeoutMs),
          {
            cause,
          },
        );
      } finally {
        await agent?.destroy();
      }
    },
    async send(access, request, signal) {
      const signed = signedRequest(access, request);
      const { body } = request;
      const pool = agents.pool(access);
      try {
        const reply =
          body !== undefined && 'pieces' in body
            ? await sendPieces(pool, signed, { pieces: body.pieces, signal, timeoutMs })
            : await dispatch(pool, signed, signal);
        return { ...reply, headers: unprefixed(reply.headers) };
      } catch (cause) {
        signal.throwIfAborted();
        if (cause instanceof Unread) throw cause.cause;
        throw cause instanceof PeerSilent ? cause : new PeerSilent(describe(cause, timeoutMs), { cause });
      }
    },
    close: () => agents.close(),
  };
};

const unsigned = 'UNSIGNED-PAYLOAD';

const parseEndpoint = memoizeLast((endpoint: string) => {
  const { origin, host } = new URL(endpoint);
  return { origin, host };
});

function toSigned(
  hasher: Hasher,
  { method, bucket, key, query = [], headers: input = {}, body, cause }: PeerSending,
  { endpoint, sign }: { readonly endpoint: string; readonly sign: Signer },
) {
  const { origin, host } = parseEndpoint(endpoint);
  const place = key === undefined ? '' : `/${key.split('/').map(encode).join('/')}`;
  const isStreamed = body !== undefined && 'pieces' in body;
  const { target, headers } = sign({
    method,
    path: `/${encode(bucket)}${place}`,
    query,
    headers: { ...prefixed(input), host, ...(isStreamed ? { 'content-length': String(body.length) } : {}) },
    payloadHash: isStreamed ? unsigned : hashBody(hasher, body),
  });
  const sent = cause === undefined ? headers : { ...headers, traceparent: cause.traceparent };
  return { origin, method, path: target, headers: sent, body: isStreamed ? null : (body ?? null) };
}

const prefixed = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.replace(/^\*-/, amz.headerPrefix), value]),
  );

const unprefixed = (headers: PeerReply['headers']): PeerReply['headers'] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.startsWith(amz.headerPrefix) ? `*-${name.slice(amz.headerPrefix.length)}` : name,
      value,
    ]),
  );

function hashBody(hasher: Hasher, body: Uint8Array | undefined): string {
  const hash = hasher.create('sha256');
  hash.update(body ?? new Uint8Array(0));
  return toHex(hash.digest());
}

/** What operators can read of the errors of the HTTP client, by their code. */
const clientErrors: Readonly<Record<string, (timeoutMs: number) => string>> = {
  UND_ERR_CONNECT_TIMEOUT: (ms) => `no connection within ${ms} ms`,
  UND_ERR_HEADERS_TIMEOUT: (ms) => `no answer within ${ms} ms`,
  UND_ERR_BODY_TIMEOUT: (ms) => `the answer stopped in its middle for ${ms} ms`,
  UND_ERR_SOCKET: () => 'the peer closed the connection before its answer was complete',
};

/** An error of several attempts to connect has no message of its own. */
function describe(cause: unknown, timeoutMs: number): string {
  if (cause instanceof AggregateError && cause.message === '')
    return cause.errors.map((each) => describe(each, timeoutMs)).join('; ');
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return clientErrors[code]?.(timeoutMs) ?? (cause instanceof Error ? cause.message : String(cause));
}

type Agent = ReturnType<typeof guardedAgent> | ReturnType<typeof guardedProxy>;

/** A longer answer is refused. */
const answerBytesMax = 256 * 1024;

/** Sends signed requests over an agent: with a body in memory, or one that is read while it is sent. */
async function dispatch(
  agent: Agent,
  request: Dispatcher.RequestOptions,
  signal: AbortSignal,
): Promise<PeerReply> {
  const reply = await agent.request({ ...request, signal });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of reply.body) {
    size += piece.length;
    if (size > answerBytesMax) throw new Error(`an answer of more than ${answerBytesMax} bytes`);
    pieces.push(piece);
  }
  const headers = Object.entries(reply.headers).map(([name, value]) => [name, String(value)]);
  return { status: reply.statusCode, headers: Object.fromEntries(headers), body: Buffer.concat(pieces) };
}

/** The content of a body could not be read; the connection is not at fault. */
class Unread extends Error {}

/** Notices a peer that takes nothing more: the time-outs of the client begin when the body is sent. */
async function sendPieces(
  pool: Agent,
  signed: Dispatcher.RequestOptions,
  {
    pieces,
    signal,
    timeoutMs,
  }: {
    readonly pieces: AsyncIterable<Uint8Array>;
    readonly signal: AbortSignal;
    readonly timeoutMs: number;
  },
): Promise<PeerReply> {
  let unread: Unread | undefined;
  const stalled = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  async function* watched(): AsyncGenerator<Uint8Array> {
    try {
      for await (const piece of pieces) {
        timer = setTimeout(() => stalled.abort(), timeoutMs);
        yield piece;
        clearTimeout(timer);
      }
    } catch (cause) {
      unread = new Unread('the body could not be read', { cause });
      throw cause;
    } finally {
      clearTimeout(timer);
    }
  }
  try {
    const request = { ...signed, body: Readable.from(watched()) };
    return await dispatch(pool, request, AbortSignal.any([signal, stalled.signal]));
  } catch (cause) {
    if (stalled.signal.aborted)
      throw new PeerSilent(`the peer took nothing of the body for ${timeoutMs} ms`, { cause });
    throw unread ?? cause;
  }
}
