/**
 * AES-256-GCM, the only cipher of the service: native where the runtime has it, SubtleCrypto elsewhere (docs/adr/0006-encryption.md).
 * There is no additional authenticated data, because the context of a text is part of its key.
 */

/** A prepared key, for any number of texts. */
export interface CipherKey {
  /** @param into `tagBytes` longer than the plain text; holds the ciphertext and its tag when the call has ended */
  encrypt(plain: Uint8Array, how: CipherUse): Promise<void>;
  /**
   * @param into `tagBytes` shorter than the encrypted text
   * @returns false when authentication fails; the content of `into` must then not be used
   */
  decrypt(encrypted: Uint8Array, how: CipherUse): Promise<boolean>;
}

export interface CipherUse {
  /** `nonceBytes` long. A nonce must not be used twice under one key. */
  readonly nonce: Uint8Array;
  readonly into: Uint8Array;
}

export interface Cipher {
  /** @param key `cipherKeyBytes` long */
  ready(key: Uint8Array): Promise<CipherKey>;
}

export const cipherKeyBytes = 32;
export const nonceBytes = 12;
export const tagBytes = 16;
