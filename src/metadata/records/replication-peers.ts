/** The record of a replication peer: another S3 service that versions are replicated to. */
import { table } from '../../ports/metadata-store.ts';

/** What a task counts: rows, versions or the like, and bytes where it knows them. */
export interface PeerAccount {
  /** Its id, or `*` for every account. */
  readonly account: string;
  /** The account that must own the bucket at the peer; absent: one of the same id. */
  readonly bucketOwner?: string;
  /** Names of buckets at the peer, or prefixes with `*` at their end; absent: those that the peer proves to be the account's. */
  readonly buckets?: readonly string[];
}

export interface ReplicationPeerRow {
  /** Always 0: there are few peers, and one scan reads them all. */
  readonly slot: number;
  readonly id: string;
  /** `http` or `https`, without a path. */
  readonly endpoint: string;
  readonly region: string;
  /** Base64 of the access key, the secret key and the private key of `cert`, sealed under the master key for this id. */
  readonly sealedKeys: string;
  /** PEM of the certificates that sign the peer's own; absent: those that the runtime trusts. */
  readonly ca?: string;
  /** Store time (ms) of the last PUT. */
  readonly changedAt: number;
  /** PEM of this gateway's own certificate; its private key is sealed with the other keys. */
  readonly cert?: string;
  /** `http://host:port`. */
  readonly proxy?: string;
  /** Bytes of bodies per second, over all versions that are sent to the peer; absent: no limit. */
  readonly bandwidth?: number;
  /** Absent: the peer was put without a list, and serves the only account, or none of several. */
  readonly accounts?: readonly PeerAccount[];
}

export const replicationPeers = table<ReplicationPeerRow>()({
  name: 'replication_peers',
  kind: 'conditional',
  partition: ['slot'],
  sort: ['id'],
  columns: {
    slot: 'int',
    id: 'text',
    endpoint: 'text',
    region: 'text',
    sealedKeys: 'text',
    ca: 'text',
    changedAt: 'int',
    cert: 'text',
    proxy: 'text',
    bandwidth: 'int',
    accounts: 'json',
  },
});
