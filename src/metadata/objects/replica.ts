/**
 * The description of a version that travels between sites beside its content (docs/adr/0020-replicated-versions-keep-their-ids.md).
 * `protocol/schemas/object/replica.ts` reads it.
 */
import type { Checksum, Grant, Lock, ObjectHeaders } from './properties.ts';

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
  /** Orders the changes of tags, ACL and lock of the version; see `src/domain/objects/replica/stamp.ts`. */
  readonly stamp: string;
  /** The sites that are known to have the version, its origin first. */
  readonly trace: readonly string[];
}

/** The largest document, in bytes of its JSON. */
export const replicaDocumentMax = 256 * 1024;

export const encodeReplica = (document: ReplicaDocument): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(document));
