/** The metadata contract on a real PD with a TiKV-protocol store. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noTikv, startTikv } from '../support/engines/tikv.ts';
import { metadataStoreContract, type Opened, timed } from './metadata-store.ts';

const random = systemRandom();

/** A store under a prefix of its own, which is as good as a fresh one. */
const opened = (endpoints: readonly string[]): Promise<Opened> =>
  timed(60_000, async (time) =>
    orderedKvStore({
      endpoints,
      prefix: `${Buffer.from(random.bytes(8)).toString('hex')}/`,
      random,
      ...time,
    }),
  );

if (noTikv !== undefined) describe('metadata store: ordered-kv', () => it.skip(`(${noTikv})`, () => {}));
else {
  const engine = startTikv();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract('ordered-kv', async () => opened((await engine).endpoints), {
    runs: 10,
    patience: 5,
  });
}
