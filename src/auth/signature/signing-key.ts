/** Remembers the signing keys that proved themselves, and compares signatures in constant time. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Claim } from './claim.ts';

const keysMax = 4096;

/**
 * Derived keys by secret and scope. The secret itself is part of the name, so a rotated or per-bucket secret
 * can never meet the key of another. A key is remembered only once a signature verified under it: strangers
 * cannot push out the keys of real clients by naming regions.
 */
export class SigningKeys {
  readonly #keys = new BoundedCache<Uint8Array>({ name: 'signing-keys', entriesMax: keysMax });

  get(name: string): Uint8Array | undefined {
    return this.#keys.get(name);
  }

  remember(name: string, key: Uint8Array): void {
    this.#keys.set(name, key);
  }
}

/** The scope ends with the dialect's terminator, so the name tells dialects apart. */
export const signingKeyName = (secret: string, claim: Claim): string => `${claim.scope}\n${secret}`;

/** Compares with lower-case digits, in a time that does not depend on where the first difference is. */
export function equalsHex(bytes: Uint8Array, hex: string): boolean {
  if (hex.length !== bytes.length * 2) return false;
  let difference = 0;
  for (let i = 0; i < bytes.length; i++) {
    const high = nibble(hex.charCodeAt(2 * i));
    const low = nibble(hex.charCodeAt(2 * i + 1));
    difference |= ((high << 4) | low) ^ (bytes[i] as number);
  }
  return difference === 0;
}

/** The value of a lower-case hexadecimal digit; anything else gives a value that no byte equals. */
function nibble(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  return 0x1000;
}

export function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= (a[i] as number) ^ (b[i] as number);
  return difference === 0;
}
