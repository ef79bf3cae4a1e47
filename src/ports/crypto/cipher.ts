/**
 * AES-256-GCM, the only cipher of the service: native where the runtime has it, SubtleCrypto elsewhere (docs/adr/0006-encryption.md).
 * There is no additional data: the context of a text is part of its key.
 */

/** A key, made ready to be used for many texts. */
export interface CipherKey {
  /** @param into `tagBytes` longer than the plain text: takes the ciphertext and its tag, complete once the call is over */
  encrypt(plain: Uint8Array, how: CipherUse): void | Promise<void>;
  /**
   * @param into `tagBytes` shorter than what was encrypted
   * @returns false for what is not authentic; `into` then holds nothing to be used
   */
  decrypt(encrypted: Uint8Array, how: CipherUse): boolean | Promise<boolean>;
}

export interface CipherUse {
  /** `nonceBytes` long. No two texts are encrypted with the same one under one key. */
  readonly nonce: Uint8Array;
  readonly into: Uint8Array;
}

export interface Cipher {
  /** @param key `cipherKeyBytes` long */
  ready(key: Uint8Array): CipherKey | Promise<CipherKey>;
}

export const cipherKeyBytes = 32;
export const nonceBytes = 12;
export const tagBytes = 16;
