/** A metadata store for tests that look at its keys in the cluster. */
import { randomBytes } from 'node:crypto';
import { Keys } from '../../src/backends/metadata/ordered-kv/keys.ts';
import { type OrderedKvOptions, orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { RowCodec } from '../../src/backends/metadata/row-codec.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { heads, tallies } from '../contract/metadata-store/tables.ts';
import { frozenClock } from '../support/frozen-clock.ts';

/** A metadata store with a test clock, and the keys of its rows in the cluster. */
export function openedStore(
  endpoints: readonly string[],
  options: Pick<OrderedKvOptions, 'timeoutMs' | 'gcAgeMs' | 'intentTtlMs'> = {},
) {
  const prefix = `${randomBytes(6).toString('hex')}/`;
  const clock = frozenClock();
  const keys = new Keys(prefix);
  return {
    clock,
    store: orderedKvStore({
      endpoints,
      prefix,
      clock,
      random: systemRandom(),
      storeClock: async () => clock.time,
      ...options,
    }),
    keyOf: (bucket: string, key: string) =>
      keys.row(new RowCodec(heads, 4096).key({ bucket }, { key, slot: '~' })),
    tallyKeyOf: (bucket: string, className: string) =>
      keys.row(new RowCodec(tallies, 4096).key({ bucket, part: 0 }, { className })),
    expiring: keys.expired(Number.MAX_SAFE_INTEGER),
    keys,
  };
}
