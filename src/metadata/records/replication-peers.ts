/** The record of a replication peer: another S3 service that versions are replicated to. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

/** An account that may name the peer in its rules. */
export interface PeerAccount {
  /** Its id, or `*` for every account. */
  readonly account: string;
  /** The account that must own the bucket at the peer; absent: one of the same id. */
  readonly bucketOwner?: string;
  /** Names of buckets at the peer, or prefixes with `*` at their end; absent: those that the peer proves to be the account's. */
  readonly buckets?: readonly string[];
  /**
   * Keys of the peer that its rules may name as `ReplicaKmsKeyID`, or prefixes with `*` at their end; absent: none. A gateway of this kind
   * checks itself that a key serves the owner of the bucket.
   */
  readonly keys?: readonly string[];
}

export const replicationPeers = table({
  name: 'replication_peers',
  kind: 'conditional',
  isExported: true,
  partition: ['slot'],
  sort: ['id'],
  columns: {
    /** Always 0: there are few peers, and one scan reads them all. */
    slot: int(),
    id: text(),
    /** `http` or `https`, without a path. */
    endpoint: text(),
    region: text(),
    /** Base64 of the access key, the secret key and the private key of `cert`, sealed under the master key for this id. */
    sealedKeys: text(),
    /** PEM of the certificates that sign the peer's own; absent: those that the runtime trusts. */
    ca: optional(text()),
    /** Store time (ms) of the last PUT. */
    changedAt: int(),
    /** PEM of this gateway's own certificate; its private key is sealed with the other keys. */
    cert: optional(text()),
    /** `http://host:port`. */
    proxy: optional(text()),
    /** Bytes of bodies per second, over all versions that are sent to the peer; absent: no limit. */
    bandwidth: optional(int()),
    /** Absent: the peer was put without a list, and serves the only account, or none of several. */
    accounts: optional(json<readonly PeerAccount[]>()),
  },
});
export interface ReplicationPeerRow extends RowOf<typeof replicationPeers> {}
