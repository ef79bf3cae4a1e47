/** The metadata contract on a real Cassandra. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { emptyKeyspace, noCassandra, startCassandra } from '../support/engines/cassandra.ts';
import { metadataStoreContract, type Opened, timed } from './metadata-store.ts';

const random = systemRandom();
const keyspace = 'contract';

async function opened(hosts: readonly string[]): Promise<Opened> {
  await emptyKeyspace(hosts, keyspace);
  const replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
  return timed(60_000, (time) =>
    wideColumnStore({ hosts, localDc: 'dc1', keyspace, replication, random, ...time }),
  );
}

if (noCassandra !== undefined)
  describe('metadata store: wide-column', () => it.skip(`(${noCassandra})`, () => {}));
else {
  const engine = startCassandra();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract('wide-column', async () => opened((await engine).hosts), { runs: 2, patience: 10 });
}
