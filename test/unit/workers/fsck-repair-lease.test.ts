/** Concurrent runs of fsck that change data: they are serialized, and none removes what another one made. */
import { describe, expect, test } from 'vitest';
import { type FsckFinding, type FsckMode, runFsck } from '../../../src/domain/fsck/fsck.ts';
import { type Rebuilt, rebuildIndex } from '../../../src/domain/fsck/rebuild.ts';
import { LeaseLost } from '../../../src/metadata/background/leases.ts';
import { findLiveHead, objectsAt } from '../../../src/metadata/objects/objects.ts';
import { RepairElsewhere, repairAlone, repairAloneSoon } from '../../../src/workers/fsck.ts';
import { leaseTtlMs } from '../../../src/workers/leadership.ts';
import { type DomainWorld, domainWorld, graceMs, storedExtents } from '../../support/domain-world.ts';

const fix: FsckMode = { fix: true, drop: false };
const never = new AbortController().signal;

/** Removes the row of a key, as a failed disk would. */
async function loseRow(world: DomainWorld, key: string): Promise<void> {
  const bucket = await world.bucket();
  const head = await findLiveHead(world.metadata, bucket, key);
  if (head === undefined) throw new Error('no head');
  const { space, slot } = head.row;
  await world.metadata.commit(objectsAt(bucket), [{ remove: { space, key, slot }, expect: head.revision }]);
}
async function fsck(world: DomainWorld, mode: FsckMode = { fix: false, drop: false }) {
  const findings: FsckFinding[] = [];
  await runFsck(world, (finding) => void findings.push(finding), { mode });
  return findings;
}
const rebuild = async (world: Parameters<typeof rebuildIndex>[0]) => {
  const told: Rebuilt[] = [];
  await rebuildIndex(world, { buckets: [], report: (each) => void told.push(each) });
  return told;
};
const sizeOf = async (world: DomainWorld, key: string) =>
  (await findLiveHead(world.metadata, await world.bucket(), key))?.row.size;

/** A run whose process is paused or killed while it holds the lease: its clock stands still, so it does not renew the lease. */
async function pausedTurn(world: DomainWorld) {
  const forever = new Promise<never>(() => {});
  const { promise, resolve } = Promise.withResolvers<() => Promise<void>>();
  const paused = { ...world, clock: { ...world.clock, sleep: () => forever } };
  void repairAlone(paused, never, ({ assertMayRepair }) => {
    resolve(assertMayRepair);
    return forever;
  });
  return promise;
}

test('gc deletes nothing that fsck queued and a rebuild owns by then', async () => {
  const world = await domainWorld();
  await world.process().put('lost', 'content');
  const stored = await storedExtents(world);
  await loseRow(world, 'lost');
  const judged = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  // The rebuild has seen that the bytes are unowned and not queued. Then --fix queues them.
  const guarded = {
    ...world,
    assertMayRepair: async () => {
      judged.resolve();
      await goOn.promise;
    },
  };
  const rebuilding = rebuild(guarded);
  await judged.promise;
  expect((await fsck(world, fix)).map(({ kind, fixed }) => [kind, fixed])).toContainEqual([
    'unowned',
    'queued for deletion',
  ]);
  goOn.resolve();
  expect(await rebuilding).toMatchObject([{ kind: 'rebuilt', key: 'lost' }]);
  await world.cleanUp();
  expect(await storedExtents(world)).toEqual(stored);
  expect(await sizeOf(world, 'lost')).toBe(7);
});

describe('runs that mend', () => {
  test('exclude each other while the holder of the lease lives', async () => {
    const world = await domainWorld();
    const order: string[] = [];
    const goOn = Promise.withResolvers<void>();
    const first = repairAlone(world, never, async () => {
      order.push('first');
      await goOn.promise;
    });
    await expect.poll(() => order).toEqual(['first']);
    const second = repairAloneSoon(world, never, async () => void order.push('second')).catch(
      (cause: unknown) => cause,
    );
    // The holder renews the lease, so the second run does not take it.
    await world.clock.advance(leaseTtlMs);
    expect(await second).toBeInstanceOf(RepairElsewhere);
    goOn.resolve();
    await first;
    await repairAloneSoon(world, never, async () => void order.push('third'));
    expect(order).toEqual(['first', 'third']);
  });

  test('wait for the lease of a process that was killed', async () => {
    const world = await domainWorld();
    await pausedTurn(world);
    let done = false;
    const waiting = repairAloneSoon(world, never, async () => {
      done = true;
    });
    await world.clock.advance(leaseTtlMs / 2);
    expect(done).toBe(false);
    await world.clock.advance(leaseTtlMs);
    await waiting;
    expect(done).toBe(true);
  });

  test('make and queue nothing once a successor has taken over', async () => {
    const world = await domainWorld();
    await world.process().put('lost', 'content');
    await loseRow(world, 'lost');
    for (const work of ['rebuild', 'fix']) {
      const paused = { ...world, assertMayRepair: await pausedTurn(world) };
      await world.clock.advance(leaseTtlMs + 1);
      await repairAlone(world, never, async () => {
        const late = work === 'rebuild' ? rebuild(paused) : fsck(paused, fix);
        await expect(late).rejects.toThrow(LeaseLost);
      });
    }
    expect(await sizeOf(world, 'lost')).toBeUndefined();
    await world.clock.advance(graceMs + 1);
    await world.cleanUp();
    expect(await storedExtents(world)).toHaveLength(1);
  });
});
