/**
 * The metadata contract on the fault injector, while regions split, merge and change their leaders all the time: no caller of the client
 * may notice.
 */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { noDouble, startDouble } from '../support/engines/tikv-double.ts';
import { metadataStoreContract } from './metadata-store.ts';
import { openedOrderedKv } from './ordered-kv.ts';

/** A change of regions this often. */
const everyMs = 15;
/** Its first start here may have to build it. */
const buildMs = 600_000;

if (noDouble !== undefined)
  describe('metadata store: ordered-kv under moving regions', () => it.skip(`(${noDouble})`, () => {}));
else {
  const engine = startDouble();
  beforeAll(async () => (await engine).chaos(everyMs), buildMs);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract(
    'ordered-kv under moving regions',
    async () => openedOrderedKv((await engine).endpoints),
    { runs: 5, patience: 5 },
  );
}
