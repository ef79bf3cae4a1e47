/** Parts of the rows of versions and uploads. */
import type { HashName } from '../../ports/cryptography.ts';

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

// The encryption record of a version or an upload.

/**
 * How a content is encrypted: its wrapped object key, and the key that wrapped it (docs/adr/0006-encryption.md). The record reveals
 * nothing without that key.
 */
export type Encryption = {
  /** Base64. */
  readonly wrapped: string;
} & (
  | { readonly by: 'service' }
  | {
      readonly by: 'provider';
      readonly keyId: string;
      /** The client's own context; the ARN is added to it. */
      readonly context?: Readonly<Record<string, string>>;
      readonly bucketKey?: true;
    }
  /** Replies repeat `keyMd5` (base64). */
  | { readonly by: 'customer'; readonly keyMd5: string }
);

/**
 * The value of `x-amz-server-side-encryption` for a content; the encryption of the gateway is the service's own. Undefined: other headers
 * describe it. A new kind of encryption has to choose here.
 */
export const encryptionNames = {
  service: 'AES256',
  gateway: 'AES256',
  provider: 'aws:kms',
  customer: undefined,
} as const satisfies Readonly<
  Record<Encryption['by'] | NonNullable<ReplicaDocument['encryption']>['by'], string | undefined>
>;

// The description of a version that travels between sites beside its content (docs/adr/0020-replicated-versions-keep-their-ids.md).
// `protocol/schemas/replica.ts` reads it.

export interface ReplicaDocument {
  /** The version id, which is the same at every site. */
  readonly version: string;
  readonly isNull: boolean;
  readonly marker: boolean;
  /** In ms since the epoch. */
  readonly modified: number;
  /** Bytes of the plain content. */
  readonly size: number;
  /** Hex, without quotes; `<md5>-<n>` for n parts; '' for a delete marker. */
  readonly etag: string;
  /** The storage class that the destination is to use; '' for a delete marker. */
  readonly storageClass: string;
  readonly headers: ObjectHeaders;
  readonly checksum?: Checksum;
  /** The account that owns the version at the source. */
  readonly owner: string;
  /** Absent: the owner alone has full control. */
  readonly acl?: readonly Grant[];
  readonly lock?: Lock;
  /** Absent: the default of the destination. */
  readonly encryption?: { readonly by: 'gateway' } | { readonly by: 'provider'; readonly keyId?: string };
  /** Orders the changes of tags, ACL and lock of the version; see `src/domain/objects/stamp.ts`. */
  readonly stamp: string;
  /** The sites that are known to have the version, its origin first. */
  readonly trace: readonly string[];
}

/** The largest document, in bytes of its JSON. */
export const replicaDocumentMax = 256 * 1024;

export const encodeReplica = (document: ReplicaDocument): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(document));
