/** Calls of the engine's operations, with a token that is replaced when it is refused, and its errors as failures of the port. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { KeyFailure } from '../../ports/key-provider.ts';
import type { Cause } from '../../ports/trace.ts';
import { type KeyReply, readObject } from './key-requests.ts';
import { reasonOf } from './login.ts';
import { type SessionOptions, TransitSession } from './session.ts';

export interface EngineOptions extends SessionOptions {
  /** Where the engine is mounted. */
  readonly mount: string;
}

interface EngineQuestion {
  readonly body: object;
  readonly cause: Cause | undefined;
}

interface TransitEngine {
  /** @returns the `data` of the answer */
  ask(
    action: 'encrypt' | 'decrypt' | 'rewrap',
    keyId: string,
    question: EngineQuestion,
  ): Promise<Readonly<Record<string, unknown>>>;
  assertExists(keyId: string, cause: Cause | undefined): Promise<void>;
  probe(): Promise<void>;
  close(): void;
}

/** How long a key that was found counts as existing. */
const foundMs = 5 * 60_000;
const foundMax = 256;
const keyName = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,254}[A-Za-z0-9_])?$/;

export function openEngine(options: EngineOptions): TransitEngine {
  const { calls, clock, mount, telemetry } = options;
  const session = new TransitSession(options);
  // The first request then does not wait for the login. A gateway whose provider is down starts all the same.
  session
    .token()
    .catch((cause: unknown) => telemetry.log('WARN', 'the key provider does not answer yet', { cause }));

  async function ask(
    action: 'encrypt' | 'decrypt' | 'rewrap',
    keyId: string,
    { body, cause }: EngineQuestion,
  ): Promise<Readonly<Record<string, unknown>>> {
    const path = `${mount}/${action}/${assertName(keyId)}`;
    const send = (token: string): Promise<KeyReply> => calls.ask('POST', path, { token, body, cause });
    const token = await session.token();
    let reply = await send(token);
    if (reply.status === 403) {
      const next = await session.replace(token);
      if (next !== undefined) reply = await send(next);
    }
    return readAnswer(reply, keyId);
  }

  const found = new BoundedCache<number>({ name: 'transit-keys', entriesMax: foundMax });
  /** Checks that a key exists, because the engine would create a missing one if the token may do that. The answer is cached. */
  async function assertExists(keyId: string, cause: Cause | undefined): Promise<void> {
    if (clock.elapsed() < (found.get(keyId) ?? 0)) return;
    const path = `${mount}/keys/${assertName(keyId)}`;
    const { status, text } = await calls.ask('GET', path, { token: await session.token(), cause });
    // A mount that does not exist has a 404 with a reason.
    if (status === 404 && saidIn(text) === '')
      throw new KeyFailure('unknown-key', `the transit engine has no key ${keyId}`);
    // A token that may not read keys may not create them either, if its policy is the one of docs/operations/keys.md.
    if (status === 200 || status === 403) found.set(keyId, clock.elapsed() + foundMs);
    else
      throw new KeyFailure(
        reasonOf(status),
        `the transit engine answered ${status} for the key ${keyId}: ${saidIn(text)}`,
      );
  }

  return {
    ask,
    assertExists,
    async probe() {
      const token = await session.token();
      const { status, text } = await calls.ask('GET', 'auth/token/lookup-self', { token });
      if (status === 200 && typeof Object(readObject(text)?.['data']).ttl === 'number') return;
      if (status === 403 && (await session.replace(token)) !== undefined) return;
      throw new KeyFailure(
        reasonOf(status),
        `lookup-self was answered with ${status}${status === 200 ? ' and another text' : ''}`,
      );
    },
    close: () => session.close(),
  };
}

/** A name that is no name of a key here could be another path of the server. */
export function assertName(keyId: string): string {
  if (keyName.test(keyId)) return keyId;
  throw new KeyFailure('unknown-key', `${JSON.stringify(keyId)} is not the name of a transit key`);
}

/** The engine's errors have texts only. */
const errors = [
  [/key not found/, 'unknown-key', 'the transit engine has no key'],
  [/too old/, 'denied', 'the version of the key is below min_decryption_version:'],
  [
    /too new/,
    'denied',
    'the transit engine has no such version of the key, so it is not the one that wrapped this:',
  ],
  [
    /authentication failed|invalid ciphertext|unable to decrypt|could not decode/,
    'tampered',
    'the wrapped key is not what was wrapped under',
  ],
] as const;

const saidMax = 200;
function saidIn(text: string): string {
  const errors = readObject(text)?.['errors'];
  return Array.isArray(errors) ? errors.join('; ').slice(0, saidMax) : '';
}

function readAnswer({ status, text }: KeyReply, keyId: string): Readonly<Record<string, unknown>> {
  const answer = readObject(text);
  if (status === 200) {
    const data = answer?.['data'];
    if (typeof data === 'object' && data !== null) return data as Record<string, unknown>;
    throw new KeyFailure('unavailable', 'the transit engine answered 200 without data');
  }
  if (status === 403) throw new KeyFailure('denied', `the token may not use the transit key ${keyId}`);
  const said = saidIn(text);
  const known = status === 400 ? errors.find(([pattern]) => pattern.test(said)) : undefined;
  if (known !== undefined) throw new KeyFailure(known[1], `${known[2]} ${keyId}`);
  // Such as "key type ed25519 does not support encryption". A 400 without a reason is not the engine's.
  if (status === 400 && said !== '')
    throw new KeyFailure('denied', `the transit engine refused this use of ${keyId}: ${said}`);
  throw new KeyFailure(reasonOf(status), `the transit engine answered ${status}: ${said}`);
}
