/** Requests to a key provider over HTTP: the address is checked at each connect, redirects are not followed, answers are bounded. */
import { type KeyDescription, KeyFailure } from '../../ports/key-provider.ts';
import { type EgressOptions, guardedAgent } from '../egress.ts';
import { keyTurnsMax } from './steady-provider.ts';

interface KeyRequest {
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
/** More than there are calls at a time, so that log-ins and probes wait for none of them. */
const connections = keyTurnsMax + 3;

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

// The policy of a key: which accounts may encrypt and decrypt with it (docs/adr/0016-accounts-of-keys.md).

export interface KeyAccountsOptions {
  /** The accounts that each key names, by key id; `*` is every account. */
  readonly accounts?: ReadonlyMap<string, readonly string[]>;
  /** The account that all credentials belong to, where there is only one. */
  readonly soleAccount?: string | undefined;
  /** The id of the key that the operator chose for requests that name none. */
  readonly defaultKeyId?: string | undefined;
}

/**
 * A key without accounts was written before keys could name any. It decrypts what was encrypted then, for callers who have the object's
 * own permissions. It encrypts for the only account; where there are several accounts, for none of them, unless the operator made it the
 * default key of all.
 */
export function describeKey(
  keyId: string,
  { accounts, soleAccount, defaultKeyId }: KeyAccountsOptions,
): KeyDescription {
  const named = accounts?.get(keyId);
  if (named !== undefined) {
    const users = named.includes('*') ? 'every' : new Set(named);
    return { keyId, encryptsFor: users, decryptsFor: users };
  }
  const encryptsFor =
    keyId === defaultKeyId ? 'every' : new Set(soleAccount === undefined ? [] : [soleAccount]);
  return { keyId, encryptsFor, decryptsFor: 'reader' };
}
