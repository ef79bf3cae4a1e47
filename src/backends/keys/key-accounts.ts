/** The policy of a key: which accounts may encrypt and decrypt with it (docs/adr/0016-accounts-of-keys.md). */
import type { KeyDescription } from '../../ports/crypto/key-provider.ts';

export interface KeyAccountsOptions {
  /** The accounts that each key names, by key id; `*` is every account. */
  readonly accounts?: ReadonlyMap<string, readonly string[]>;
  /** The account that all credentials belong to, where there is only one. */
  readonly soleAccount?: string | undefined;
  /** The id of the key that the operator chose for requests that name none. */
  readonly defaultKeyId?: string | undefined;
}

/**
 * A key without accounts was written before keys could name any. It decrypts what was encrypted then, for callers who have the object's
 * own permissions. It encrypts for the only account; where there are several accounts, for none of them, unless the operator made it the
 * default key of all.
 */
export function describeKey(
  keyId: string,
  { accounts, soleAccount, defaultKeyId }: KeyAccountsOptions,
): KeyDescription {
  const named = accounts?.get(keyId);
  if (named !== undefined) {
    const users = named.includes('*') ? 'every' : new Set(named);
    return { keyId, encryptsFor: users, decryptsFor: users };
  }
  const encryptsFor =
    keyId === defaultKeyId ? 'every' : new Set(soleAccount === undefined ? [] : [soleAccount]);
  return { keyId, encryptsFor, decryptsFor: 'reader' };
}
