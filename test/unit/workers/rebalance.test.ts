/** The worker `rebalance`: what it moves, its progress, its sharing of work, and what it leaves where it is. */
import { expect, test } from 'vitest';
import { changeCluster } from '../../../src/domain/clusters/cluster-states.ts';
import { openBucket } from '../../../src/domain/common/buckets.ts';
import { openPace } from '../../../src/domain/rebalance/pace.ts';
import { rebalanceRows } from '../../../src/metadata/background/clusters.ts';
import { findLiveHead } from '../../../src/metadata/objects/objects.ts';
import { ChunkDamaged, type ObjectBytes } from '../../../src/ports/object-bytes.ts';
import { rebalance } from '../../../src/workers/rebalance.ts';
import { clusterRows, evacuate, extentsOn, fsckOf, openPair } from '../../support/clusters.ts';
import { faulty } from '../../support/faulty.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

const never = new AbortController().signal;

test('bytes move no faster than the rate, however they come', async () => {
  const clock = virtualClock();
  const pace = openPace(clock, 1000);
  let moved = 0;
  const mover = async (piece: number): Promise<void> => {
    for (;;) {
      await pace(piece, never);
      moved += piece;
    }
  };
  void mover(100);
  void mover(7);
  await clock.advance(10_000);
  expect(moved).toBeGreaterThan(9_700);
  expect(moved).toBeLessThan(10_300);
  const stop = new AbortController();
  stop.abort(new Error('stopped'));
  await expect(pace(1_000_000, stop.signal)).rejects.toThrow('stopped');
});

test('weights move what is stored only where a setting asks for it', async () => {
  for (const asked of ['off', 'on'] as const) {
    const { world, admin, clock } = await openPair('memory', { settings: { SVC_REBALANCE_WEIGHTS: asked } });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    for (let i = 0; i < 60; i += 1) await client.put(`/bucket/${i}`, { body: `${i}` });
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    await clock.advance(3_700_000);
    await evacuate(world.context, clock);
    const [onA, onB] = [await extentsOn(world, 'a'), await extentsOn(world, 'b')];
    expect(onA + onB).toBe(60);
    if (asked === 'off') expect(onB).toBe(0);
    else expect(Math.abs(onA - onB)).toBeLessThan(40);
    for (let i = 0; i < 60; i += 1) expect((await client.get(`/bucket/${i}`)).text).toBe(`${i}`);
    // Another pass moves nothing.
    const before = await world.stored();
    await clock.advance(3_700_000);
    await evacuate(world.context, clock);
    expect(await world.stored()).toEqual(before);
  }
});

test('a pass that was stopped goes on where it was', async () => {
  const { world, clock, drain } = await openPair();
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  for (let i = 0; i < 250; i += 1) await client.put(`/bucket/${String(i).padStart(3, '0')}`, { body: 'x' });
  await drain();
  const stop = new AbortController();
  let reads = 0;
  const read: ObjectBytes['read'] = (...given) => {
    reads += 1;
    // Each move reads twice, so this stops the pass in the middle of the second page.
    if (reads === 300) stop.abort();
    return context.bytes.read(...given);
  };
  await rebalance({ ...context, bytes: faulty(context.bytes, { read }) })(stop.signal);
  const left = await extentsOn(world, 'a');
  const open = (await rebalanceRows(context.metadata)).flatMap((row) => row.open ?? []);
  expect(open).toMatchObject([{ bucket: 'bucket', after: { key: '099' } }]);
  await evacuate(context, clock);
  expect(left).toBe(250);
  expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 250]);
  expect(await fsckOf(world)).toEqual([]);
});

test('several workers share the slots, and move everything once', async () => {
  const { world, clock, drain } = await openPair();
  await using _ = world;
  const { client, context } = world;
  for (let i = 0; i < 12; i += 1) {
    await client.put(`/bucket${i}`);
    for (let j = 0; j < 5; j += 1) await client.put(`/bucket${i}/${j}`, { body: `${i} ${j}` });
  }
  await drain();
  let writes = 0;
  const write: ObjectBytes['write'] = (source, options) => {
    writes += 1;
    return context.bytes.write(source, options);
  };
  const counting = { ...context, bytes: faulty(context.bytes, { write }) };
  const workers = Array.from({ length: 4 }, () => rebalance(counting));
  await Promise.all(workers.map((unit) => unit(never)));
  await evacuate(context, clock);
  expect(writes).toBe(60);
  expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 60]);
});

test('a damaged object stays and is reported, and others move', async () => {
  const { world, admin, clock, drain } = await openPair();
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  await client.put('/bucket/1', { body: 'one' });
  await client.put('/bucket/2', { body: 'two' });
  const bucket = await openBucket(context, 'bucket');
  const row = (await findLiveHead(context.metadata, bucket, '1'))?.row;
  const damaged = row !== undefined && 'extents' in row.manifest ? row.manifest.extents[0]?.id : undefined;
  const read: ObjectBytes['read'] = (extent, ...given) => {
    if (extent.id === damaged) throw new ChunkDamaged('flipped');
    return context.bytes.read(extent, ...given);
  };
  await drain();
  await evacuate({ ...context, bytes: faulty(context.bytes, { read }) }, clock);
  expect(await extentsOn(world, 'a')).toBe(1);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
    manifests: 1,
    failed: 1,
    deregisterReady: false,
  });
  expect((await client.get('/bucket/2')).text).toBe('two');
  expect(await fsckOf(world)).toEqual([]);
});

test('a copy that is not what was read is not taken', async () => {
  const { world, clock, drain } = await openPair();
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  await drain();
  const write: ObjectBytes['write'] = (source, options) => {
    async function* flipped() {
      for await (const bytes of source) yield bytes.map((byte) => byte ^ 1);
    }
    return context.bytes.write(flipped(), options);
  };
  await evacuate({ ...context, bytes: faulty(context.bytes, { write }) }, clock);
  expect((await client.get('/bucket/key')).text).toBe('content');
  expect(await world.stored()).toEqual(await world.owned('bucket'));
  await evacuate(context, clock);
  expect([await extentsOn(world, 'a'), (await client.get('/bucket/key')).text]).toEqual([0, 'content']);
});

test('a cluster that was emptied and undrained is in use again, and is counted anew when it is drained again', async () => {
  const { world, admin, clock, drain } = await openPair();
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  await drain();
  await evacuate(context, clock);
  expect((await admin.must('GET', '/clusters/a'))['emptiedAt']).toBeDefined();
  await admin.must('POST', '/clusters/a/undrain');
  expect((await admin.must('GET', '/clusters/a'))['emptiedAt']).toBeUndefined();
  expect(await clusterRows(world)).toEqual(['a live 100', 'b live 100']);
  await changeCluster(context, 'a', { trigger: 'drain evacuate' });
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
    slotsSeen: 0,
    deregisterReady: false,
  });
});
