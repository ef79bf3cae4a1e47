/** The contract of the metadata port on any Cassandra. */
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { emptyTables, replicatedOver } from '../support/engines/cassandra.ts';
import { contractTables } from './metadata-store/tables.ts';
import { type LawGroup, metadataStoreContract, type Opened, timed } from './metadata-store.ts';

export interface Cluster {
  readonly hosts: () => Promise<readonly string[]>;
  /** A keyspace for this run only. The laws use different partitions, but all of them share the intents. */
  readonly keyspace: string;
  readonly only?: readonly LawGroup[];
}

export function wideColumnContract(name: string, { hosts, keyspace, only }: Cluster): void {
  metadataStoreContract(name, () => opened({ hosts, keyspace }), {
    runs: 2,
    patience: 10,
    ...(only === undefined ? {} : { only }),
  });
}

async function opened({ hosts: hostsOf, keyspace }: Omit<Cluster, 'only'>): Promise<Opened> {
  const hosts = await hostsOf();
  await emptyTables(hosts, { keyspace, tables: ['epochs', 'epoch_lanes'] });
  return timed(60_000, (time) =>
    wideColumnStore({
      hosts,
      localDc: 'dc1',
      keyspace,
      replication: replicatedOver(hosts),
      tables: contractTables,
      random: systemRandom(),
      ...time,
    }),
  );
}
