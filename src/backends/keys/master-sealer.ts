/**
 * The sealer over master keys held in memory: AES-256-GCM by SubtleCrypto, on every runtime.
 *
 * Sealed is `1 | name of the master key (8) | salt (16) | nonce (12) | ciphertext | tag (16)`. Each secret is encrypted
 * under a key of its own, derived from the master key and the salt, because random nonces under one key are safe for
 * 2³² messages only, and a store has more objects than that.
 */
import type { Hasher } from '../../ports/hasher.ts';
import type { Random } from '../../ports/random.ts';
import { masterKeyBytes, type Sealer } from '../../ports/sealer.ts';

const format = 1;
const nameBytes = 8;
const saltBytes = 16;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + nameBytes + saltBytes + nonceBytes;

export interface MasterSealerOptions {
  /** The first one seals; all of them open, so that a key can be replaced. */
  readonly keys: readonly Uint8Array[];
  readonly hasher: Pick<Hasher, 'hmacSha256'>;
  readonly random: Random;
}

interface MasterKey {
  readonly name: string;
  readonly bytes: Uint8Array;
}

const utf8 = new TextEncoder();
const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

export function masterSealer({ keys, hasher, random }: MasterSealerOptions): Sealer {
  const [current, ...others] = keys.map((bytes): MasterKey => {
    if (bytes.length !== masterKeyBytes) throw new Error(`a master key has ${masterKeyBytes} bytes`);
    return { name: textOf(hasher.hmacSha256(bytes, 'name').subarray(0, nameBytes)), bytes };
  });
  if (current === undefined) throw new Error('there is no master key');
  const byName = new Map([...others, current].map((key) => [key.name, key]));

  const derive = (key: MasterKey, salt: Uint8Array): Promise<CryptoKey> => {
    const raw = hasher.hmacSha256(key.bytes, salt) as BufferSource;
    return crypto.subtle.importKey('raw', raw, 'AES-GCM', false, ['encrypt', 'decrypt']);
  };

  return {
    async seal(plain, context) {
      const head = new Uint8Array(headBytes);
      head[0] = format;
      for (let i = 0; i < nameBytes; i++) head[1 + i] = current.name.charCodeAt(i);
      head.set(random.bytes(saltBytes + nonceBytes), 1 + nameBytes);
      const { salt, how } = partsOf(head, context);
      const body = await crypto.subtle.encrypt(how, await derive(current, salt), plain as BufferSource);
      const sealed = new Uint8Array(headBytes + body.byteLength);
      sealed.set(head);
      sealed.set(new Uint8Array(body), headBytes);
      return sealed;
    },
    async open(sealed, context) {
      if (sealed.length < headBytes + tagBytes || sealed[0] !== format) return undefined;
      const { name, salt, how } = partsOf(sealed, context);
      const key = byName.get(name);
      if (key === undefined) return undefined;
      const body = sealed.subarray(headBytes) as BufferSource;
      const derived = await derive(key, salt);
      return crypto.subtle.decrypt(how, derived, body).then(
        (plain) => new Uint8Array(plain),
        () => undefined,
      );
    },
  };
}

/** The head is authenticated by what is derived from it. */
function partsOf(sealed: Uint8Array, context: string) {
  const salt = sealed.subarray(1 + nameBytes, 1 + nameBytes + saltBytes);
  const iv = sealed.subarray(1 + nameBytes + saltBytes, headBytes) as BufferSource;
  const additionalData = utf8.encode(context);
  return {
    name: textOf(sealed.subarray(1, 1 + nameBytes)),
    salt,
    how: { name: 'AES-GCM', iv, additionalData },
  };
}
