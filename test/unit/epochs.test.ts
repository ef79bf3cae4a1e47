/** The ops of a living process that a sweep may abort: those that were given up and never ended. */
import { expect, test } from 'vitest';
import { Epochs } from '../../src/backends/metadata/epochs.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { frozenClock } from '../support/frozen-clock.ts';

const ttlMs = 60_000;

function opened() {
  const clock = frozenClock(0);
  const leases = new Map<string, number>();
  const rows = {
    open: async (id: string) => {
      leases.set(id, clock.time + ttlMs);
      return id;
    },
    remove: async (id: string) => void leases.delete(id),
    renew: async (ids: readonly string[]) => {
      for (const id of ids) leases.set(id, clock.time + ttlMs);
      return [];
    },
  };
  const epochs = new Epochs({ clock, random: systemRandom(), ttlMs, rows });
  return {
    epochs,
    /** The number of epochs whose lease has expired, so that a sweep would take them. */
    lapsed: () => [...leases].filter(([, until]) => until <= clock.time).length,
    left: () => leases.size,
    async pass(ms: number) {
      for (const until = clock.time + ms; clock.time < until; clock.time += ttlMs / 4) await epochs.renew();
    },
  };
}

test('an abandoned op that never ended is found by a sweep, though its process lives', async () => {
  const { epochs, pass, lapsed } = opened();
  const op = await epochs.begin();
  epochs.abort(op.id);
  await pass(10 * ttlMs);
  expect(lapsed()).toBe(1);
});

test('one that continues is not, nor are others of its epoch', async () => {
  const { epochs, pass, lapsed } = opened();
  const [given, going] = [await epochs.begin(), await epochs.begin()];
  epochs.abort(given.id);
  await pass(10 * ttlMs);
  expect(lapsed()).toBe(0);
  epochs.end(going.id);
  await pass(10 * ttlMs);
  expect(lapsed()).toBe(1);
});

test('one that was ended leaves nothing behind', async () => {
  const { epochs, pass, left } = opened();
  const op = await epochs.begin();
  epochs.abort(op.id);
  epochs.end(op.id);
  await pass(2 * ttlMs);
  expect(left()).toBe(0);
});
