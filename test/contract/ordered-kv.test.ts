/** The metadata contract on a real PD with a TiKV-protocol store. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { noTikv, startTikv } from '../support/engines/tikv.ts';
import { orderedKvHealth } from './engine-health.ts';
import { metadataStoreContract } from './metadata-store.ts';
import { openedOrderedKv } from './ordered-kv.ts';

if (noTikv !== undefined) describe('metadata store: ordered-kv', () => it.skip(`(${noTikv})`, () => {}));
else {
  const engine = startTikv();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract('ordered-kv', async () => openedOrderedKv((await engine).endpoints), {
    runs: 10,
    patience: 5,
  });
  orderedKvHealth(async () => (await engine).endpoints);
}
