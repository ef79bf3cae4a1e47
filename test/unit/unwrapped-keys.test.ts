/** The cache of object keys that a key provider outside of the process unwrapped. */
import { expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { TimedFlights } from '../../src/domain/content/named-keys.ts';
import { unwrapKey } from '../../src/domain/content/provider-key.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('names of the cache are short for any encryption context, and differ with it', async () => {
  const names = new Set<string>();
  const caches = new Caches();
  const of = caches.of.bind(caches);
  caches.of = (kind) => {
    const cache = of(kind) as TimedFlights<Uint8Array>;
    const find = cache.find.bind(cache);
    cache.find = (name, ...rest) => {
      names.add(name);
      return find(name, ...rest);
    };
    return cache as never;
  };
  const keys = {
    isDistant: true,
    describe: async () => ({}),
    unwrap: async () => new Uint8Array(32),
  };
  const ctx = {
    caches,
    keys,
    clock: virtualClock(),
    hasher: nodeHasher(),
    config: { SVC_DEK_CACHE_TTL: 60_000 },
    telemetry: silentTelemetry,
  } as never;
  const place = { bucket: { name: 'bucket', id: 'id' }, key: 'key' } as never;
  const user = { account: 'alice', assertMayUse: async () => undefined };
  for (const value of ['', 'x'.repeat(8_000), 'y'.repeat(8_000)])
    await unwrapKey(ctx, place, {
      stored: { by: 'provider', keyId: 'key', wrapped: 'AAAA', context: { value } },
      user,
    });
  expect([...names].map(({ length }) => length)).toEqual([64, 64, 64]);
});
