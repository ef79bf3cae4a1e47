/** Sealing small secrets under the service's master key: object keys, secrets of access keys, session tokens. */
export interface Sealer {
  /**
   * Encrypts and authenticates; the result differs each time and tells nothing but the length and which key it was.
   * @param context where the secret belongs; it opens nowhere else
   */
  seal(plain: Uint8Array, context: string): Promise<Uint8Array>;
  /** `undefined` for what was not sealed under a master key that we hold, was sealed for another context, or was changed. */
  open(sealed: Uint8Array, context: string): Promise<Uint8Array | undefined>;
  /** The same under the given key instead of the master key. @param key `cipherKeyBytes` long */
  under(key: Uint8Array): Sealer;
}
