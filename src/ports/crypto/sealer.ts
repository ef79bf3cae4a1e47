/** Sealing small secrets under the service's master key: object keys, secrets of access keys, session tokens. */
export interface Sealer {
  /**
   * Encrypts and authenticates. The result differs each time and reveals only the length and the key's id.
   * @param context the place of the secret; it can be opened only with the same context
   */
  seal(plain: Uint8Array, context: string): Promise<Uint8Array>;
  /** `undefined` for a text that was sealed under an unknown master key or for another context, or that was changed. */
  open(sealed: Uint8Array, context: string): Promise<Uint8Array | undefined>;
  /** A sealer that uses the given key instead of the master key. @param key `cipherKeyBytes` long */
  under(key: Uint8Array): Sealer;
}
