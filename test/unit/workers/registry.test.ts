import { expect, test } from 'vitest';
import { staticCredentials } from '../../../src/auth/session/credentials.ts';
import { workerNames } from '../../../src/config/workers.ts';
import { classSnapshot } from '../../../src/domain/buckets/class-stats.ts';
import { silentTelemetry } from '../../../src/ports/telemetry.ts';
import { allWorkers, startWorkers } from '../../../src/workers/registry.ts';
import {
  domainWorld,
  graceMs,
  intentTtlMs,
  ownedExtents,
  storedExtents,
} from '../../support/domain-world.ts';
import { onReplace } from '../../support/metric-calls.ts';

const never = new AbortController().signal;
const openWorld = async () => Object.assign(await domainWorld(), { credentials: staticCredentials([]) });

test('every name that the configuration accepts is a worker, and those that lease slots lead themselves', () => {
  expect(Object.keys(allWorkers).sort()).toEqual([...workerNames].sort());
  const unled = Object.entries(allWorkers).filter(([, { leased }]) => !leased);
  expect(unled.map(([name]) => name)).toEqual(['gc', 'rebalance']);
});

test('gc and the sweeper clean up in the background, and stop on request', async () => {
  const world = await openWorld();
  const running = startWorkers(world, ['gc'], never);
  const client = world.process();
  await client.put('key', 'one');
  await client.put('key', 'two');
  // The process dies after it stored its bytes and before its commit.
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
  const world = await openWorld();
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

test('however many processes there are, one samples the buckets, at its start and then by the interval', async () => {
  const world = await openWorld();
  const told: string[] = [];
  const running = ['one', 'two', 'three'].map((name) => {
    const sampled = onReplace({
      svc_storage_class_bytes: (classes) => void told.push(`${name} ${classes.length}`),
    });
    return startWorkers({ ...world, telemetry: { ...silentTelemetry, ...sampled } }, ['bucket-stats'], never);
  });
  await world.process().put('key', 'content');
  await world.clock.advance(1_000);
  expect(told).toHaveLength(1);
  await world.clock.advance(3_600_000);
  expect(told).toHaveLength(2);
  expect(new Set(told.map((each) => each.split(' ')[0])).size).toBe(1);
  expect((await classSnapshot(world))?.classes).toEqual([{ class: 'STANDARD', bytes: 7, objects: 1 }]);
  await Promise.all(running.map((each) => each.stop()));
});
