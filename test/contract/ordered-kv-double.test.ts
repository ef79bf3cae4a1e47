/**
 * The metadata contract on the fault injector, while regions split, merge and change their leaders continuously. The client must hide
 * these changes from its callers.
 */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { noDouble, startDouble } from '../support/engines/tikv-double.ts';
import { metadataStoreContract } from './metadata-store.ts';
import { openedOrderedKv } from './ordered-kv.ts';

/** The interval between changes of regions. */
const everyMs = 15;
/** The first start on a machine may have to build the fault injector. */
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
