/** Rows of data clusters: few, in one partition. */
import type { At, MetadataStore, Outcome, SideChange, Stored } from '../../ports/metadata-store.ts';
import { type ClusterRow, clusterState } from '../records/clusters.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan'>;

const clustersAt: At<typeof clusterState> = { table: clusterState, in: { slot: 0 } };

/** The largest number of rows, tombstones of removed clusters included. */
const clustersMax = 10_000;

export const everyCluster = (metadata: Metadata): Promise<readonly Stored<ClusterRow>[]> =>
  metadata.scan(clustersAt).next(clustersMax);

export const findCluster = (metadata: Metadata, id: string): Promise<Stored<ClusterRow> | undefined> =>
  metadata.get(clustersAt, { id });

/** One change of a row, with the row that it was based on; absent when there was none. */
export interface ClusterPut {
  readonly row: Omit<ClusterRow, 'slot'>;
  readonly found: Stored<ClusterRow> | undefined;
}

/** Applies all changes or none. */
export const putClusters = (
  metadata: Pick<MetadataStore, 'commit'>,
  puts: readonly ClusterPut[],
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof clusterState>> =>
  metadata.commit(
    clustersAt,
    puts.map(({ row, found }) => ({ put: { ...row, slot: 0 }, expect: found?.revision ?? 'absent' })),
    { then },
  );
