/**
 * Keys of a transit secrets engine, as OpenBao and Vault have it (https://openbao.org/api-docs/secret/transit/).
 *
 * The text that is encrypted there is the key and the SHA-256 of its context. So a wrapped key cannot be used in another place, also where
 * the engine's key is not `derived` and the engine ignores the context.
 */

import { cipherKeyBytes, type Hasher } from '../../ports/cryptography.ts';
import {
  type KeyContext,
  type KeyDescription,
  KeyFailure,
  type WrappedKey,
} from '../../ports/key-provider.ts';
import type { Random } from '../../ports/random.ts';
import type { Cause } from '../../ports/trace.ts';
import { assertName, type EngineOptions, openEngine } from './engine.ts';
import { bareKeyId, canonicalText } from './key-names.ts';
import { describeKey, type KeyAccountsOptions } from './key-requests.ts';
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
    cause?: Cause,
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
    async generate(keyId, context, cause) {
      const key = random.bytes(cipherKeyBytes);
      return { ...(await wrapUnder(keyId, key, context, cause)), key };
    },
    wrap: wrapUnder,
    async unwrap({ keyId, wrapped }, context, cause) {
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
    async rewrap({ keyId, wrapped }, context, cause) {
      const ciphertext = decodeCiphertext(wrapped);
      const body = { ciphertext, context: encodeContext(context) };
      const answer = await engine.ask('rewrap', keyId, { body, cause });
      const next = readCiphertext(answer);
      return versionOf(decodeCiphertext(next)) === versionOf(ciphertext)
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

const versionOf = (ciphertext: string): string => ciphertextPattern.exec(ciphertext)?.[1] ?? '';

function decodeCiphertext(wrapped: Uint8Array): string {
  const text = new TextDecoder().decode(wrapped);
  if (ciphertextPattern.test(text)) return text;
  throw new KeyFailure('denied', 'it was not wrapped by a transit engine');
}

function readCiphertext({ ciphertext }: Readonly<Record<string, unknown>>): Uint8Array {
  if (typeof ciphertext === 'string' && ciphertextPattern.test(ciphertext)) return utf8.encode(ciphertext);
  throw new KeyFailure('unavailable', 'the transit engine answered without a ciphertext');
}
