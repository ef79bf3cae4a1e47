import { expect, test } from 'vitest';
import { workerNames } from '../../../src/config/workers.ts';
import { startWorkers, workers } from '../../../src/workers/registry.ts';
import {
  domainWorld,
  graceMs,
  intentTtlMs,
  ownedExtents,
  storedExtents,
} from '../../support/domain-world.ts';

const never = new AbortController().signal;

test('every name that the configuration accepts is a worker, and gc alone leads itself', () => {
  expect(Object.keys(workers).sort()).toEqual([...workerNames].sort());
  expect(Object.entries(workers).filter(([, { leased }]) => !leased)).toMatchObject([['gc', {}]]);
});

test('gc and the sweep clean up by themselves as time passes, and stop when told to', async () => {
  const world = await domainWorld();
  const running = startWorkers(world, ['gc'], never);
  const client = world.process();
  await client.put('key', 'one');
  await client.put('key', 'two');
  // Dies with its bytes stored and nothing committed.
  void world.process({ call: 4, when: 'before' }).put('key', 'three');
  await world.clock.settle();
  expect(await storedExtents(world)).toHaveLength(3);
  await world.clock.advance(graceMs + intentTtlMs * 3);
  expect(await storedExtents(world)).toEqual(await ownedExtents(world));
  await running.stop();
  await client.put('key', 'four');
  await world.clock.advance(graceMs * 2);
  expect(await storedExtents(world)).toHaveLength(2);
});

test('without named workers the sweep runs all the same, and gc does not', async () => {
  const world = await domainWorld();
  const stop = new AbortController();
  const running = startWorkers(world, [], stop.signal);
  void world.process({ call: 4, when: 'before' }).put('key', 'one');
  await world.clock.settle();
  expect(await storedExtents(world)).toHaveLength(1);
  await world.clock.advance(intentTtlMs * 3);
  expect(await world.metadata.abandoned()).toEqual([]);
  expect(await storedExtents(world)).toHaveLength(1);
  stop.abort();
  await running.stop();
});
