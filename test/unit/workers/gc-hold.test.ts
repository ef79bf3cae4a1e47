/** The hold of a backup on gc, where the clock of the store goes on without the process. */
import { expect, test } from 'vitest';
import { LeaseLost } from '../../../src/metadata/background/leases.ts';
import {
  holdGarbage,
  isGarbageRetained,
  leaseRenewalMs,
  leaseTtlMs,
} from '../../../src/workers/leadership.ts';
import { domainWorld } from '../../support/domain-world.ts';

const never = new AbortController().signal;

test('a hold lasts while it is renewed', async () => {
  const world = await domainWorld();
  const work = holdGarbage(world, never, async ({ assertLeased: assertHeld }) => {
    await world.clock.sleep(10 * leaseTtlMs);
    await assertHeld();
    return isGarbageRetained(world);
  });
  await world.clock.advance(10 * leaseTtlMs);
  expect(await work).toBe(true);
  expect(await isGarbageRetained(world)).toBe(false);
});

test('a hold that ran out while the machine slept is lost at its next renewal, although no other process took it', async () => {
  const world = await domainWorld();
  const work = holdGarbage(world, never, async ({ signal }) => {
    await world.clock.sleep(10 * leaseTtlMs, signal);
    signal.throwIfAborted();
  });
  const lost = expect(work).rejects.toBeInstanceOf(LeaseLost);
  await world.clock.settle();
  world.clock.jump(2 * leaseTtlMs);
  expect(await isGarbageRetained(world)).toBe(false);
  await world.clock.advance(leaseRenewalMs);
  await lost;
});

test('work that ends before the next renewal learns that its hold ran out', async () => {
  const world = await domainWorld();
  const work = holdGarbage(world, never, async ({ assertLeased: assertHeld }) => {
    world.clock.jump(2 * leaseTtlMs);
    await assertHeld();
  });
  await expect(work).rejects.toBeInstanceOf(LeaseLost);
});
