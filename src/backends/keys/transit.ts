/**
 * Keys of a transit secrets engine, as OpenBao and Vault have it (https://openbao.org/api-docs/secret/transit/).
 *
 * The text that is encrypted there is the key and the SHA-256 of its context. So a wrapped key cannot be used in another place, also where
 * the engine's key is not `derived` and the engine ignores the context.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Clock } from '../../ports/clock.ts';
import { cipherKeyBytes, type Hasher } from '../../ports/cryptography.ts';
import {
  type KeyContext,
  type KeyDescription,
  KeyFailure,
  type WrappedKey,
} from '../../ports/key-provider.ts';
import type { Random } from '../../ports/random.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { CallUse, Cause } from '../../ports/trace.ts';
import { bareKeyId, canonicalText } from './key-names.ts';
import { describeKey, type KeyAccountsOptions, type KeyReply, readObject } from './key-requests.ts';
import { type Lease, loginFailure, type TransitAuth, type TransitCalls } from './login.ts';
import type { RemoteProvider } from './steady-provider.ts';

export interface TransitOptions extends EngineOptions {
  readonly hasher: Pick<Hasher, 'once'>;
  readonly random: Random;
  readonly users: KeyAccountsOptions;
  close(): Promise<void>;
}

const utf8 = new TextEncoder();
const ciphertextPattern = /^vault:v(\d{1,10}):[A-Za-z0-9+/=]{1,4096}$/;

export function transit(options: TransitOptions): RemoteProvider {
  const { hasher, random, users } = options;
  const engine = openEngine(options);
  const digest = (context: KeyContext): Uint8Array =>
    hasher.once('sha256', utf8.encode(canonicalText(context)));

  async function wrapUnder(
    name: string,
    key: Uint8Array,
    context: KeyContext,
    { cause }: CallUse = {},
  ): Promise<WrappedKey> {
    const keyId = bareKeyId(name);
    await engine.assertExists(keyId, cause);
    const plain = new Uint8Array([...key, ...digest(context)]);
    const body = { plaintext: encode(plain), context: encodeContext(context) };
    const answer = await engine.ask('encrypt', keyId, { body, cause });
    return { keyId, wrapped: readCiphertext(answer) };
  }

  // Names are ids here, so the engine need not be asked.
  const describeKnown = (name: string): KeyDescription => describeKey(assertName(bareKeyId(name)), users);

  return {
    isDistant: true,
    describeKnown,
    describe: async (name) => describeKnown(name),
    async generate(keyId, context, use) {
      const key = random.bytes(cipherKeyBytes);
      return { ...(await wrapUnder(keyId, key, context, use)), key };
    },
    wrap: wrapUnder,
    async unwrap({ keyId, wrapped }, context, { cause } = {}) {
      const body = { ciphertext: decodeCiphertext(wrapped), context: encodeContext(context) };
      const answer = await engine.ask('decrypt', keyId, { body, cause });
      const plain = decode(answer['plaintext']);
      const requested = digest(context);
      if (plain.length !== cipherKeyBytes + requested.length)
        throw new KeyFailure('tampered', `what ${keyId} decrypted is not a key of this service`);
      const bound = plain.subarray(cipherKeyBytes);
      if (!requested.every((byte, i) => byte === bound[i]))
        throw new KeyFailure('tampered', `${keyId} wrapped it for another place`);
      return plain.slice(0, cipherKeyBytes);
    },
    async rewrap({ keyId, wrapped }, context, { cause } = {}) {
      const ciphertext = decodeCiphertext(wrapped);
      const body = { ciphertext, context: encodeContext(context) };
      const answer = await engine.ask('rewrap', keyId, { body, cause });
      const next = readCiphertext(answer);
      return wrappedVersion(decodeCiphertext(next)) === wrappedVersion(ciphertext)
        ? undefined
        : { keyId, wrapped: next };
    },
    probe: () => engine.probe(),
    async close() {
      engine.close();
      await options.close();
    },
  };
}

const encode = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
const encodeContext = (context: KeyContext): string => encode(utf8.encode(canonicalText(context)));

function decode(text: unknown): Uint8Array {
  if (typeof text === 'string') return new Uint8Array(Buffer.from(text, 'base64'));
  throw new KeyFailure('unavailable', 'the transit engine answered without a plaintext');
}

const wrappedVersion = (ciphertext: string): string => ciphertextPattern.exec(ciphertext)?.[1] ?? '';

function decodeCiphertext(wrapped: Uint8Array): string {
  const text = decodeUtf8(wrapped);
  if (ciphertextPattern.test(text)) return text;
  throw new KeyFailure('denied', 'it was not wrapped by a transit engine');
}

function readCiphertext({ ciphertext }: Readonly<Record<string, unknown>>): Uint8Array {
  if (typeof ciphertext === 'string' && ciphertextPattern.test(ciphertext)) return utf8.encode(ciphertext);
  throw new KeyFailure('unavailable', 'the transit engine answered without a ciphertext');
}

// Calls of the engine's operations, with a token that is replaced when it is refused, and its errors as failures of the port.

interface EngineOptions extends SessionOptions {
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

function openEngine(options: EngineOptions): TransitEngine {
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
        loginFailure(status),
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
        loginFailure(status),
        `lookup-self was answered with ${status}${status === 200 ? ' and another text' : ''}`,
      );
    },
    close: () => session.close(),
  };
}

/** A name that is no name of a key here could be another path of the server. */
function assertName(keyId: string): string {
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
  throw new KeyFailure(loginFailure(status), `the transit engine answered ${status}: ${said}`);
}

interface SessionOptions {
  readonly calls: TransitCalls;
  readonly auth: TransitAuth;
  readonly clock: Clock;
  readonly telemetry: Pick<Telemetry, 'log'>;
}

/** A shorter life than this part of the first one says that the token nears its maximum: log in again. */
const shortened = 1 / 3;
/** The pause after a renewal that failed for want of an answer, and the shortest one between renewals. */
const pauseMs = 5_000;
const pauseMinMs = 500;
/** A token that can be renewed is renewed at least this often, however long its life is, because the engine may shorten it meanwhile. */
const renewalMsMax = 24 * 60 * 60_000;

/**
 * The token for a transit engine: obtained by a login, renewed in the background at two thirds of its life, and replaced by a new login
 * once it cannot be renewed or is refused.
 */
class TransitSession {
  readonly #options: SessionOptions;
  readonly #closing = new AbortController();
  #lease: { readonly value: Lease; readonly until: number } | undefined;
  #login: Promise<string> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** A token that has not expired. Callers that arrive together wait for one login. */
  async token(): Promise<string> {
    const lease = this.#lease;
    if (lease !== undefined && this.#options.clock.elapsed() < lease.until) return lease.value.token;
    return this.#logIn();
  }

  /** @returns another token than the refused one; undefined where that is valid, so it was refused for the sake of its policies */
  async replace(refused: string): Promise<string | undefined> {
    if (this.#lease !== undefined && this.#lease.value.token !== refused) return this.token();
    if (this.#login === undefined) {
      const { status } = await this.#options.calls.ask('GET', 'auth/token/lookup-self', { token: refused });
      if (status === 200) return undefined;
    }
    const next = await this.#logIn();
    return next === refused ? undefined : next;
  }

  close(): void {
    this.#closing.abort();
  }

  #logIn(): Promise<string> {
    this.#login ??= this.#options.auth
      .login(this.#options.calls)
      .then((lease) => {
        this.#keep(lease, lease.lifeMs);
        return lease.token;
      })
      .finally(() => {
        this.#login = undefined;
      });
    return this.#login;
  }

  #keep(value: Lease, firstLifeMs: number): void {
    const { clock } = this.#options;
    const { lifeMs, isRenewable } = value;
    const current = { value, until: clock.elapsed() + lifeMs };
    this.#lease = current;
    if (lifeMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.min((lifeMs * 2) / 3, isRenewable ? renewalMsMax : Number.POSITIVE_INFINITY);
    void this.#renewAfter(waitMs, current, firstLifeMs);
  }

  async #renewAfter(
    ms: number,
    current: { readonly value: Lease; readonly until: number },
    firstLifeMs: number,
  ) {
    const { clock, telemetry } = this.#options;
    await clock.sleep(Math.max(pauseMinMs, ms), this.#closing.signal);
    if (this.#closing.signal.aborted || this.#lease !== current) return;
    try {
      const next = await this.#renew(current.value);
      if (next !== undefined && next.lifeMs >= firstLifeMs * shortened) this.#keep(next, firstLifeMs);
      else await this.#logIn();
    } catch (cause) {
      telemetry.log('WARN', 'the token of the key provider could not be renewed', { cause });
      if (clock.elapsed() + pauseMs < current.until) void this.#renewAfter(pauseMs, current, firstLifeMs);
    }
  }

  /** Undefined where the token cannot be renewed any more. @throws KeyFailure where there is no answer */
  async #renew({ token, isRenewable }: Lease): Promise<Lease | undefined> {
    if (!isRenewable) return undefined;
    const { calls } = this.#options;
    const reply = await calls.ask('POST', 'auth/token/renew-self', { token, body: {} });
    if (reply.status >= 500 || reply.status === 429)
      throw new KeyFailure(loginFailure(reply.status), `a renewal was answered with ${reply.status}`);
    return reply.status === 200 ? calls.leaseIn(reply.text) : undefined;
  }
}
