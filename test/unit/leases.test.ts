import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import {
  acquireLease,
  leaderLease,
  releaseLease,
  renewLease,
  slotLease,
} from '../../src/metadata/background/leases.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const ttlMs = 15_000;

function world() {
  const clock = virtualClock();
  const metadata = memoryStore({ clock, random: systemRandom() });
  const acquire = (holder: string, name = 'w-leader') => acquireLease(metadata, { name, holder, ttlMs });
  return { clock, metadata, acquire };
}

test('a lease is named by the spec', () => {
  expect(leaderLease('quota-reconcile')).toBe('quota-reconcile-leader');
  expect(slotLease('gc', 3)).toBe('gc-3');
});

test('gives a lease to exactly one of many concurrent callers', async () => {
  const { acquire } = world();
  const got = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((holder) => acquire(holder)));
  expect(got.filter((lease) => lease !== undefined)).toHaveLength(1);
});

test('keeps others out until the very moment of its expiry', async () => {
  const { clock, acquire } = world();
  await acquire('a');
  await clock.advance(ttlMs - 1);
  expect(await acquire('b')).toBeUndefined();
  await clock.advance(1);
  expect(await acquire('b')).toMatchObject({ holder: 'b', generation: 2 });
});

test('leases of different names do not know each other', async () => {
  const { acquire } = world();
  expect(await acquire('a', 'gc-1')).toBeDefined();
  expect(await acquire('b', 'gc-2')).toBeDefined();
});

test('lives on when renewed, in the same generation', async () => {
  const { clock, metadata, acquire } = world();
  let lease = await acquire('a');
  for (let each = 0; each < 5; each += 1) {
    await clock.advance(ttlMs - 1);
    expect(await acquire('b')).toBeUndefined();
    if (lease) lease = await renewLease(metadata, lease, ttlMs);
  }
  expect(lease?.generation).toBe(1);
});

test('is free immediately when released, and the generation grows', async () => {
  const { metadata, acquire } = world();
  for (let generation = 1; generation <= 4; generation += 1) {
    const lease = await acquire(`holder ${generation}`);
    expect(lease?.generation).toBe(generation);
    if (lease) await releaseLease(metadata, lease);
  }
});

test('a paused holder finds its lease lost, and cannot disturb the next one', async () => {
  const { clock, metadata, acquire } = world();
  const paused = await acquire('a');
  await clock.advance(ttlMs);
  const next = await acquire('b');
  if (!paused || !next) throw new Error('both should have led');
  expect(next.generation).toBeGreaterThan(paused.generation);
  expect(await renewLease(metadata, paused, ttlMs)).toBeUndefined();
  await releaseLease(metadata, paused);
  expect(await acquire('c')).toBeUndefined();
  expect(await renewLease(metadata, next, ttlMs)).toMatchObject({ holder: 'b', generation: 2 });
});

test('a holder that was paused while no other asked continues', async () => {
  const { clock, metadata, acquire } = world();
  const lease = await acquire('a');
  if (!lease) throw new Error('should lead');
  await clock.advance(10 * ttlMs);
  expect(await renewLease(metadata, lease, ttlMs)).toMatchObject({ generation: 1 });
  expect(await acquire('b')).toBeUndefined();
});
