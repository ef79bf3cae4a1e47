/** Parts of the rows of versions and uploads. */
import type { HashName } from '../../ports/crypto/hasher.ts';

/** A checksum of the content as the protocol shows it: base64, composite ones with `-<parts>`. */
export interface Checksum {
  readonly algorithm: Uppercase<HashName>;
  readonly type: 'FULL_OBJECT' | 'COMPOSITE';
  readonly value: string;
}

/** User metadata and the system headers that are stored and returned unchanged. */
export interface ObjectHeaders {
  readonly user?: Readonly<Record<string, string>>;
  readonly system?: Readonly<Record<string, string>>;
  readonly tags?: readonly (readonly [string, string])[];
}

/** One grant of an ACL. The `id` of a user is the canonical user id of an account. */
export interface Grant {
  readonly grantee:
    | { readonly is: 'user'; readonly id: string }
    | { readonly is: 'group'; readonly group: 'AllUsers' | 'AuthenticatedUsers' | 'LogDelivery' };
  readonly permission: 'READ' | 'WRITE' | 'READ_ACP' | 'WRITE_ACP' | 'FULL_CONTROL';
}

/** The Object Lock of a version; times in ms since the epoch. */
export interface Lock {
  readonly mode?: 'GOVERNANCE' | 'COMPLIANCE';
  readonly retainUntil?: number;
  readonly legalHold?: boolean;
}
