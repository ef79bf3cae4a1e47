/**
 * Small secrets under named keys: the common part of the master keys and the keys of a key file.
 *
 * Format: `1 | name of the key (8) | salt (32) | ciphertext | tag (16)`. Each secret is encrypted under a separate key, derived from the
 * named key, the salt and the context, because random nonces under one key are safe for 2³² messages only, and a store has more
 * objects than that.
 */

import {
  type Cipher,
  cipherKeyBytes,
  type Hasher,
  nonceBytes,
  type Sealer,
  tagBytes,
} from '../../ports/cryptography.ts';
import type { Random } from '../../ports/random.ts';

const format = 1;
const nameBytes = 8;
const saltBytes = 32;
const headBytes = 1 + nameBytes + saltBytes;
/** A derived key encrypts one text. */
const nonce = new Uint8Array(nonceBytes);
const utf8 = new TextEncoder();

export interface SealingParts {
  readonly cipher: Cipher;
  readonly hasher: Pick<Hasher, 'hmacSha256'>;
  readonly random: Random;
}

export interface NamedKey {
  /** Derived from the key, without revealing anything about it. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

const binaryString = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

export function nameKey({ hasher }: SealingParts, bytes: Uint8Array): NamedKey {
  if (bytes.length !== cipherKeyBytes) throw new Error(`a key has ${cipherKeyBytes} bytes`);
  return { name: binaryString(hasher.hmacSha256(bytes, 'name').subarray(0, nameBytes)), bytes };
}

/** The name of the key that something was sealed under; undefined where it cannot have been sealed here. */
export function sealedUnder(sealed: Uint8Array): string | undefined {
  if (sealed.length < headBytes + tagBytes || sealed[0] !== format) return undefined;
  return binaryString(sealed.subarray(1, 1 + nameBytes));
}

export async function seal(
  parts: SealingParts,
  plain: Uint8Array,
  { key, context }: { readonly key: NamedKey; readonly context: string },
): Promise<Uint8Array> {
  const sealed = new Uint8Array(headBytes + plain.length + tagBytes);
  sealed[0] = format;
  for (let i = 0; i < nameBytes; i++) sealed[1 + i] = key.name.charCodeAt(i);
  const salt = parts.random.bytes(saltBytes);
  sealed.set(salt, 1 + nameBytes);
  const once = await derive(parts, key, { salt, context });
  await once.encrypt(plain, { nonce, into: sealed.subarray(headBytes) });
  return sealed;
}

/** Undefined when it was changed, or sealed under another key or for another context. */
export async function open(
  parts: SealingParts,
  sealed: Uint8Array,
  { key, context }: { readonly key: NamedKey; readonly context: string },
): Promise<Uint8Array | undefined> {
  if (sealedUnder(sealed) !== key.name) return undefined;
  const once = await derive(parts, key, { salt: sealed.subarray(1 + nameBytes, headBytes), context });
  const plain = new Uint8Array(sealed.length - headBytes - tagBytes);
  const isAuthentic = await once.decrypt(sealed.subarray(headBytes), { nonce, into: plain });
  return isAuthentic ? plain : undefined;
}

function derive(
  { cipher, hasher }: SealingParts,
  { bytes }: NamedKey,
  { salt, context }: { readonly salt: Uint8Array; readonly context: string },
) {
  const label = utf8.encode(context);
  const data = new Uint8Array(saltBytes + label.length);
  data.set(salt);
  data.set(label, saltBytes);
  return cipher.ready(hasher.hmacSha256(bytes, data));
}

// The sealer over master keys held in memory.

interface MasterSealerOptions extends SealingParts {
  /** The first one seals; all of them open, so that a key can be replaced. */
  readonly keys: readonly Uint8Array[];
}

export function masterSealer({ keys, ...parts }: MasterSealerOptions): Sealer {
  const [current, ...others] = keys.map((bytes) => nameKey(parts, bytes));
  if (current === undefined) throw new Error('there is no master key');
  const byName = new Map([...others, current].map((key) => [key.name, key]));
  return {
    seal: (plain, context) => seal(parts, plain, { key: current, context }),
    async open(sealed, context) {
      const key = byName.get(sealedUnder(sealed) ?? '');
      return key && open(parts, sealed, { key, context });
    },
    under: (key) => masterSealer({ keys: [key], ...parts }),
  };
}
