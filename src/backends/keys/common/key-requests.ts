/** Requests to a key provider over HTTP: the address is checked at each connect, redirects are not followed, answers are bounded. */

import { KeyFailure } from '../../../ports/crypto/key-provider.ts';
import { type EgressOptions, guardedAgent } from '../../egress/guarded-agent.ts';

export interface KeyRequest {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface KeyReply {
  readonly status: number;
  readonly text: string;
  /** The `Date` header. */
  readonly date: string | undefined;
}

export interface KeyRequests {
  /** @throws KeyFailure `unavailable` where there is no whole answer, and for a redirect */
  ask(request: KeyRequest): Promise<KeyReply>;
  close(): Promise<void>;
}

/** A longer answer is refused. */
const answerBytesMax = 64 * 1024;
const connections = 16;

export function keyRequests(options: Omit<EgressOptions, 'connections'>): KeyRequests {
  const agent = guardedAgent({ ...options, connections });
  return {
    async ask(request) {
      const signal = AbortSignal.timeout(options.timeoutMs);
      const { origin } = request;
      try {
        const reply = await agent.request({ ...request, signal });
        const text = await readBounded(reply.body);
        if (reply.statusCode >= 300 && reply.statusCode < 400)
          throw new Error(`it answered ${reply.statusCode}, a redirect, which is not followed`);
        return { status: reply.statusCode, text, date: reply.headers['date']?.toString() };
      } catch (cause) {
        const why = signal.aborted ? `no whole answer within ${options.timeoutMs} ms` : describe(cause);
        throw new KeyFailure('unavailable', `${origin}: ${why}`, { cause });
      }
    },
    close: () => agent.destroy(),
  };
}

async function readBounded(body: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    size += piece.length;
    if (size > answerBytesMax) throw new Error(`an answer of more than ${answerBytesMax} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

/** An error of several attempts to connect has no message of its own. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === '')
    return cause.errors.map((each) => describe(each)).join('; ');
  return cause instanceof Error ? cause.message : String(cause);
}

/** The members of a JSON object; undefined where the text is anything else. */
export function readObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
