/** Two collectors never work on one slot: one that was paused past its lease finds the next generation there, and stops. */
import { expect, test } from 'vitest';
import { queueGarbage } from '../../src/domain/common/garbage.ts';
import { backlog } from '../../src/metadata/background/queues.ts';
import { type LeaseRow, leases } from '../../src/metadata/records/processes.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { leaseTtlMs } from '../../src/workers/leadership.ts';
import { domainWorld, storedExtents } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';

const never = new AbortController().signal;

test('a collector that was stopped in the middle of a slot does nothing more when another has taken it', async () => {
  const world = await domainWorld();
  const due = await world.metadata.now();
  for (let each = 0; each < 3; each += 1) {
    const source = (async function* () {
      yield new Uint8Array(10);
    })();
    const owner = { bucketId: 'b', key: 'k' };
    const extent = await world.bytes.write(source, { cluster: 'default', id: `slow${each}`, owner });
    await world.metadata.apply([queueGarbage([extent], { id: 'e', requestId: 'r', due })]);
  }

  // The first collector pauses in its first removal, and so does the renewal of its lease.
  const { promise: stopped, resolve: goOn } = Promise.withResolvers<void>();
  let isStopped = false;
  let later = 0;
  const remove: typeof world.bytes.remove = async (extents) => {
    if (isStopped) later += 1;
    isStopped = true;
    await stopped;
    return world.bytes.remove(extents);
  };
  const commit: typeof world.metadata.commit = async (at, changes, options) => {
    if (isStopped && at.table.name === 'leases') await stopped;
    return world.metadata.commit(at, changes, options);
  };
  const first = collectGarbage({
    ...world,
    bytes: faulty(world.bytes, { remove }),
    metadata: faulty(world.metadata, { commit }),
  });
  const running = first(never);
  await world.clock.settle();
  expect(isStopped).toBe(true);

  const generations = new Map<string, number[]>();
  const watch: typeof world.metadata.commit = async (at, changes, options) => {
    const outcome = await world.metadata.commit(at, changes, options);
    const [change] = changes;
    if (at.table.name !== leases.name || !outcome.applied || change === undefined || !('put' in change))
      return outcome;
    const { name, generation } = change.put as unknown as LeaseRow;
    generations.set(name, [...(generations.get(name) ?? []), generation]);
    return outcome;
  };
  const second = collectGarbage({ ...world, metadata: faulty(world.metadata, { commit: watch }) });
  // The second collector does not work on the slot before the lease has expired.
  await second(never);
  expect(await backlog(world.metadata, 'gc')).toBeGreaterThan(0);
  await world.clock.advance(leaseTtlMs + 1);
  await second(never);
  expect(await backlog(world.metadata, 'gc')).toBe(0);
  expect(await storedExtents(world)).toEqual([]);
  expect([...generations.values()].flat()).toContain(2);

  goOn();
  await running;
  expect(later).toBe(0);
  expect(await backlog(world.metadata, 'gc')).toBe(0);
  expect(await storedExtents(world)).toEqual([]);
});
