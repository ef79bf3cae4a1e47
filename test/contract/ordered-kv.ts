/** An ordered-kv store for the contract, over any TiKV-protocol server. */
import { orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { type Opened, timed } from './metadata-store.ts';

const random = systemRandom();

/** A store under a fresh prefix, which stands for an empty store. */
export function openedOrderedKv(endpoints: readonly string[]): Promise<Opened> {
  const prefix = `${Buffer.from(random.bytes(8)).toString('hex')}/`;
  return timed(60_000, async (time) => orderedKvStore({ endpoints, prefix, random, ...time }));
}
