/** Signed requests to replication peers. Each has connections of its own, which end with it. */
import type { Dispatcher } from 'undici';
import { toHex } from '../../base/text/hex.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import {
  type PeerAccess,
  type PeerReply,
  type PeerRequest,
  type PeerRequests,
  PeerSilent,
} from '../../ports/peer-requests.ts';
import { encode } from '../../signing/encode.ts';
import { signer } from '../../signing/sign-request.ts';
import { guardedAgent, type MayReach } from '../egress/guarded-agent.ts';

export interface PeerRequestOptions {
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'now'>;
  readonly mayReach: MayReach;
  /** How long a whole request may take. */
  readonly timeoutMs: number;
}

/** A longer answer is refused. */
const answerBytesMax = 256 * 1024;

export const peerRequests = (options: PeerRequestOptions): PeerRequests => ({
  async ask(access, request) {
    const { mayReach, timeoutMs } = options;
    const signed = signedRequest(options, access, request);
    const signal = AbortSignal.timeout(timeoutMs);
    let agent: ReturnType<typeof guardedAgent> | undefined;
    try {
      agent = guardedAgent({ mayReach, timeoutMs, connections: 1, ca: access.ca });
      return await dispatch(agent, signed, signal);
    } catch (cause) {
      throw new PeerSilent(signal.aborted ? `no whole answer within ${timeoutMs} ms` : describe(cause), {
        cause,
      });
    } finally {
      await agent?.destroy();
    }
  },
});

function signedRequest(
  { hasher, clock }: PeerRequestOptions,
  { endpoint, accessKey, secretKey, region }: PeerAccess,
  { method, bucket, key, query = [], body }: PeerRequest,
) {
  const { origin, host } = new URL(endpoint);
  const place = key === undefined ? '' : `/${key.split('/').map(encode).join('/')}`;
  const hash = hasher.create('sha256');
  hash.update(body ?? new Uint8Array(0));
  const sign = signer({ hasher, clock, accessKey, secretKey, region });
  const { target, headers } = sign({
    method,
    path: `/${encode(bucket)}${place}`,
    query,
    headers: { host },
    payloadHash: toHex(hash.digest()),
  });
  return { origin, method, path: target, headers, body: body ?? null };
}

async function dispatch(
  agent: Pick<ReturnType<typeof guardedAgent>, 'request'>,
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
