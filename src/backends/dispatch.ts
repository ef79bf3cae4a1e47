/** Sends signed requests over an agent: with a body in memory, or one that is read while it is sent. */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type PeerReply, PeerSilent } from '../ports/peer-requests.ts';
import type { guardedAgent, guardedProxy } from './egress.ts';

export type Agent = ReturnType<typeof guardedAgent> | ReturnType<typeof guardedProxy>;

/** A longer answer is refused. */
const answerBytesMax = 256 * 1024;

export async function dispatch(
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
export class Unread extends Error {}

/** Notices a peer that takes nothing more: the time-outs of the client begin when the body is sent. */
export async function sendPieces(
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
