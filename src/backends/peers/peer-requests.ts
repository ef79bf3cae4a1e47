/** Signed requests to replication peers: single ones with connections of their own, and those of the replicator over pools. */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { toHex } from '../../base/text/hex.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import {
  type PeerAccess,
  type PeerReply,
  type PeerRequests,
  type PeerSending,
  PeerSilent,
} from '../../ports/peer-requests.ts';
import { amz } from '../../protocol/dialect.ts';
import { encode } from '../../signing/encode.ts';
import { signer } from '../../signing/sign-request.ts';
import { guardedAgent, type MayReach } from '../egress/guarded-agent.ts';
import { guardedProxy } from '../egress/guarded-proxy.ts';

export interface PeerRequestOptions {
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'now'>;
  readonly mayReach: MayReach;
  /** How long a whole request may take. */
  readonly timeoutMs: number;
}

/** A longer answer is refused. */
const answerBytesMax = 256 * 1024;

/** Connections of a pool; the replicator has fewer requests in flight. */
const connectionsMax = 64;
/** Pools that are kept: peers are few, and a changed certificate makes another pool. */
const poolsMax = 128;

/** The agents of peers: one of its own for a single request, or the pool of its peer. */
class Agents {
  readonly #options: PeerRequestOptions;
  readonly #pools = new Map<string, Agent>();

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
    const { endpoint, ca, cert, key, proxy } = access;
    const name = JSON.stringify([endpoint, ca, cert, key, proxy]);
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
  const { timeoutMs } = options;
  return {
    async ask(access, request) {
      const signed = signedRequest(options, access, request);
      const signal = AbortSignal.timeout(timeoutMs);
      let agent: Agent | undefined;
      try {
        agent = agents.open(access, 1);
        return await dispatch(agent, signed, signal);
      } catch (cause) {
        throw new PeerSilent(signal.aborted ? `no whole answer within ${timeoutMs} ms` : describe(cause), {
          cause,
        });
      } finally {
        await agent?.destroy();
      }
    },
    async send(access, request, signal) {
      let unread: { readonly cause: unknown } | undefined;
      const stalled = new AbortController();
      let timer: ReturnType<typeof setTimeout> | undefined;
      /**
       * Remembers that the content failed and not the connection, and notices a peer that takes nothing more: the time-outs of the client
       * begin when the body is sent.
       */
      async function* watched(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
        try {
          for await (const piece of pieces) {
            timer = setTimeout(() => stalled.abort(), timeoutMs);
            yield piece;
            clearTimeout(timer);
          }
        } catch (cause) {
          unread = { cause };
          throw cause;
        } finally {
          clearTimeout(timer);
        }
      }
      const signed = signedRequest(options, access, request);
      const { body } = request;
      const isStreamed = body !== undefined && 'pieces' in body;
      try {
        const reply = await dispatch(
          agents.pool(access),
          isStreamed ? { ...signed, body: Readable.from(watched(body.pieces)) } : signed,
          AbortSignal.any([signal, stalled.signal]),
        );
        return { ...reply, headers: unprefixed(reply.headers) };
      } catch (cause) {
        signal.throwIfAborted();
        if (stalled.signal.aborted)
          throw new PeerSilent(`the peer took nothing of the body for ${timeoutMs} ms`, { cause });
        if (unread !== undefined) throw unread.cause;
        throw new PeerSilent(describe(cause), { cause });
      }
    },
    close: () => agents.close(),
  };
};

type Agent = ReturnType<typeof guardedAgent> | ReturnType<typeof guardedProxy>;

const unsigned = 'UNSIGNED-PAYLOAD';

function signedRequest(
  { hasher, clock }: PeerRequestOptions,
  { endpoint, accessKey, secretKey, region }: PeerAccess,
  { method, bucket, key, query = [], headers: given = {}, body, cause }: PeerSending,
) {
  const { origin, host } = new URL(endpoint);
  const place = key === undefined ? '' : `/${key.split('/').map(encode).join('/')}`;
  const isStreamed = body !== undefined && 'pieces' in body;
  const sign = signer({ hasher, clock, accessKey, secretKey, region });
  const { target, headers } = sign({
    method,
    path: `/${encode(bucket)}${place}`,
    query,
    headers: { ...prefixed(given), host, ...(isStreamed ? { 'content-length': String(body.length) } : {}) },
    payloadHash: isStreamed ? unsigned : hashOf(hasher, body),
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

function hashOf(hasher: Hasher, body: Uint8Array | undefined): string {
  const hash = hasher.create('sha256');
  hash.update(body ?? new Uint8Array(0));
  return toHex(hash.digest());
}

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

/** An error of several attempts to connect has no message of its own. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === '')
    return cause.errors.map((each) => describe(each)).join('; ');
  return cause instanceof Error ? cause.message : String(cause);
}
