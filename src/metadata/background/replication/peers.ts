/** The replication peers of the installation: one partition, read and committed as one. */
import type {
  At,
  Change,
  MetadataStore,
  Outcome,
  SideChange,
  Stored,
} from '../../../ports/metadata-store.ts';
import { type ReplicationPeerRow, replicationPeers } from '../../records/replication-peers.ts';

const peersAt: At<typeof replicationPeers> = { table: replicationPeers, in: { slot: 0 } };

/** The peers by id, at most `count`. */
export const scanReplicationPeers = (
  metadata: Pick<MetadataStore, 'scan'>,
  count: number,
): Promise<readonly Stored<ReplicationPeerRow>[]> => metadata.scan(peersAt).next(count);

export const findReplicationPeer = (
  metadata: Pick<MetadataStore, 'get'>,
  id: string,
): Promise<Stored<ReplicationPeerRow> | undefined> => metadata.get(peersAt, { id });

export const commitReplicationPeer = (
  metadata: Pick<MetadataStore, 'commit'>,
  change: Change<typeof replicationPeers>,
  then: readonly SideChange[],
): Promise<Outcome<typeof replicationPeers>> => metadata.commit(peersAt, [change], { then });
