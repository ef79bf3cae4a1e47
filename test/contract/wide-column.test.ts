/** The metadata contract on a real Cassandra. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { noCassandra, startCassandra } from '../support/engines/cassandra.ts';
import { wideColumnHealth } from './engine-health.ts';
import { wideColumnContract } from './wide-column.ts';

if (noCassandra !== undefined)
  describe('metadata store: wide-column', () => it.skip(`(${noCassandra})`, () => {}));
else {
  const engine = startCassandra();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  const hosts = async (): Promise<readonly string[]> => (await engine).hosts;
  wideColumnContract('wide-column', { hosts, keyspace: `contract_${randomBytes(4).toString('hex')}` });
  wideColumnHealth(hosts);
}
