/**
 * Keys of a security module, by PKCS#11: AES keys that never leave their token wrap with AES-GCM there. Keys with one label are versions of
 * one key; the one with the highest CKA_ID wraps.
 *
 * Format of a wrapped key: `1 | length of the CKA_ID (1) | CKA_ID | nonce (12) | ciphertext | tag (16)`. The context is
 * authenticated with it.
 */

import type { Clock } from '../../ports/clock.ts';
import { cipherKeyBytes, nonceBytes, tagBytes } from '../../ports/cryptography.ts';
import {
  arnName,
  type KeyContext,
  type KeyDescription,
  KeyFailure,
  type WrappedKey,
} from '../../ports/key-provider.ts';
import type { Random } from '../../ports/random.ts';
import type { CallUse } from '../../ports/trace.ts';
import { codes, type FoundKey, Pkcs11Error } from './cryptoki.ts';
import { bareKeyId, canonicalText } from './key-names.ts';
import { describeKey, type KeyAccountsOptions } from './key-requests.ts';
import { type SecurityModule, type Session, Token } from './pkcs11-token.ts';
import type { RemoteProvider } from './steady-provider.ts';

export interface Pkcs11Options {
  readonly module: SecurityModule;
  /** In the order in which they are tried. */
  readonly tokens: readonly string[];
  readonly sessions: number;
  readonly random: Random;
  readonly clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly timeoutMs: number;
  readonly users: KeyAccountsOptions;
  readPin(): Promise<string>;
}

const format = 1;
const utf8 = new TextEncoder();
const label = /^[\x21-\x7e]{1,128}$/;

interface Wrapped {
  readonly id: Uint8Array;
  readonly nonce: Uint8Array;
  readonly sealed: Uint8Array;
}

type Work<T> = (session: Session, token: Token) => Promise<T>;

/** The first token that is present, has the key, and can use it. */
async function tryTokens<T>(
  tokens: readonly Token[],
  { owner, work }: { readonly owner: string; readonly work: Work<T> },
): Promise<T> {
  let last: KeyFailure | undefined;
  for (const token of tokens) {
    try {
      return await token.use((session) => work(session, token), owner);
    } catch (cause) {
      if (!(cause instanceof KeyFailure) || !passedOn.has(cause.reason)) throw cause;
      // A key that one token lacks, or cannot use, may be in one that does not answer.
      if (last?.reason !== 'unavailable' && cause.reason !== 'unknown-key') last = cause;
      last ??= cause;
    }
  }
  throw last ?? new KeyFailure('unavailable', 'SVC_PKCS11_TOKENS names no token');
}

export function pkcs11({ tokens: labels, random, users, ...options }: Pkcs11Options): RemoteProvider {
  const tokens = labels.map((each) => new Token({ ...options, label: each }));
  const inToken = <T>(owner: string, work: Work<T>): Promise<T> => tryTokens(tokens, { owner, work });
  const aad = (context: KeyContext): Uint8Array => utf8.encode(canonicalText(context));

  async function wrapUnder(
    name: string,
    key: Uint8Array,
    context: KeyContext,
    use?: CallUse,
  ): Promise<WrappedKey> {
    const keyId = assertLabel(bareKeyId(name));
    const nonce = random.bytes(nonceBytes);
    return inToken(findOwner(context, use), async (session, token) => {
      const { handle, id } = newest(await token.findKeys(session, keyId), keyId);
      const sealed = await session.cryptoki.encrypt(
        session.handle,
        { key: handle, iv: nonce, aad: aad(context) },
        key,
      );
      return { keyId, wrapped: new Uint8Array([format, id.length, ...id, ...nonce, ...sealed]) };
    });
  }

  async function unwrap(
    { keyId, wrapped }: WrappedKey,
    context: KeyContext,
    use?: CallUse,
  ): Promise<Uint8Array> {
    const { id, nonce, sealed } = split(wrapped);
    return inToken(findOwner(context, use), async (session, token) => {
      const key = (await token.findKeys(session, keyId)).find((each) => isSame(each.id, id));
      if (key === undefined)
        throw new KeyFailure(
          'unknown-key',
          `no token has version ${Buffer.from(id).toString('hex')} of ${keyId}`,
        );
      const asked = { key, keyId, iv: nonce, aad: aad(context), sealed };
      return decryptIn(token, session, { ...asked, random });
    });
  }

  // Labels are ids here, so the token need not be asked.
  const describeKnown = (name: string): KeyDescription => describeKey(assertLabel(bareKeyId(name)), users);

  return {
    isDistant: true,
    describeKnown,
    describe: async (name) => describeKnown(name),
    async generate(keyId, context, use) {
      const key = random.bytes(cipherKeyBytes);
      return { ...(await wrapUnder(keyId, key, context, use)), key };
    },
    wrap: wrapUnder,
    unwrap,
    async rewrap(wrapped, context, use) {
      const { id } = split(wrapped.wrapped);
      const current = await inToken(findOwner(context, use), async (session, token) =>
        newest(await token.findKeys(session, wrapped.keyId), wrapped.keyId),
      );
      if (isSame(current.id, id)) return undefined;
      return wrapUnder(wrapped.keyId, await unwrap(wrapped, context, use), context, use);
    },
    probe: () => inToken('', (session, token) => token.assertPresent(session.cryptoki)),
    isStuck: () => tokens.some((token) => token.isStuck),
    close: async () => void (await Promise.all(tokens.map((token) => token.close()))),
  };
}

/** Whose turn a call takes: that of the account, or of the bucket that the context names where there is none. */
const findOwner = ({ [arnName]: arn = '' }: KeyContext, use: CallUse | undefined): string =>
  use?.account ?? arn.split('/')[0] ?? '';

const passedOn: ReadonlySet<string> = new Set(['unavailable', 'unknown-key', 'denied']);
const ambiguous: ReadonlySet<number> = new Set([codes.generalError, codes.functionFailed]);
const unauthentic: ReadonlySet<number> = new Set([
  codes.encryptedDataInvalid,
  codes.encryptedDataLength,
  codes.aeadDecryptFailed,
]);

/** @throws KeyFailure `tampered` where the device works, and refuses what it was given */
async function decryptIn(
  token: Token,
  session: Session,
  asked: {
    readonly key: FoundKey;
    readonly keyId: string;
    readonly iv: Uint8Array;
    readonly aad: Uint8Array;
    readonly sealed: Uint8Array;
    readonly random: Random;
  },
): Promise<Uint8Array> {
  const { key, keyId, iv, aad, sealed, random } = asked;
  try {
    return await session.cryptoki.decrypt(session.handle, { key: key.handle, iv, aad }, sealed);
  } catch (cause) {
    if (!(cause instanceof Pkcs11Error)) throw cause;
    // SoftHSM has one code for a wrong tag and for a device that fails.
    if (ambiguous.has(cause.code)) {
      await token.assertPresent(session.cryptoki);
      await assertWraps(session, key, random);
    } else if (!unauthentic.has(cause.code)) throw cause;
    throw new KeyFailure('tampered', `it is not what ${keyId} wrapped`, { cause });
  }
}

/**
 * Wraps and unwraps a random text, which proves that the device works and that a failure before came from what it was given.
 * @throws Pkcs11Error where the device fails
 */
async function assertWraps(
  { cryptoki, handle }: Session,
  { handle: key }: FoundKey,
  random: Random,
): Promise<void> {
  const sealing = { key, iv: random.bytes(nonceBytes), aad: new Uint8Array() };
  const sealed = await cryptoki.encrypt(handle, sealing, random.bytes(cipherKeyBytes));
  await cryptoki.decrypt(handle, sealing, sealed);
}

function assertLabel(keyId: string): string {
  if (label.test(keyId)) return keyId;
  throw new KeyFailure('unknown-key', `${JSON.stringify(keyId)} is not the label of a key`);
}

const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** Ids are compared as numbers. */
function newest(keys: readonly FoundKey[], keyId: string): FoundKey {
  const [found] = keys.toSorted((a, b) => b.id.length - a.id.length || Buffer.compare(b.id, a.id));
  if (found === undefined) throw new KeyFailure('unknown-key', `no token has a key ${keyId}`);
  return found;
}

function split(wrapped: Uint8Array): Wrapped {
  const [version, idLength = 0] = wrapped;
  const at = 2 + idLength;
  if (version !== format || wrapped.length !== at + nonceBytes + cipherKeyBytes + tagBytes)
    throw new KeyFailure('denied', 'it was not wrapped by a security module');
  return {
    id: wrapped.subarray(2, at),
    nonce: wrapped.subarray(at, at + nonceBytes),
    sealed: wrapped.subarray(at + nonceBytes),
  };
}
