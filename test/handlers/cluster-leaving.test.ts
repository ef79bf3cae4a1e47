/** Removing a cluster: drained, left out of the settings, remembered by its row. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { clusterRows, evacuate, openClusters } from '../support/clusters.ts';
import { operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** Gateways that are started one after another over one data directory, on one clock. */
async function openRestarts() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-leaving-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const clock = virtualClock();
  const settings = { SVC_DATA_DIR: directory, SVC_REBALANCE_RATE: '1TiB' };
  return { clock, restart: (clusters: string) => openClusters(clusters, { clock, settings }) };
}

test('a cluster that was emptied can be left out, and comes back as a new one', async () => {
  const { clock, restart } = await openRestarts();
  {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    await world.client.put('/bucket');
    for (let i = 0; i < 10; i += 1) await world.client.put(`/bucket/${i}`, { body: `${i}` });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    await evacuate(world.context, clock);
    expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: true });
  }
  {
    const { world } = await restart('b');
    await using _ = world;
    expect(await clusterRows(world)).toEqual(['a removed 100', 'b live 100']);
    expect((await world.anonymous.get('/readyz')).status).toBe(200);
    for (let i = 0; i < 10; i += 1) expect((await world.client.get(`/bucket/${i}`)).text).toBe(`${i}`);
  }
  {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    expect(await clusterRows(world)).toEqual(['a pending 100', 'b live 100']);
    await admin.must('POST', '/clusters/a/activate', { weight: 10 });
    expect(await clusterRows(world)).toEqual(['a live 10', 'b live 100']);
  }
});

test('a cluster that is left out before it is empty is reported, and its objects are readable when it is listed again', async () => {
  const { clock, restart } = await openRestarts();
  {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    await world.client.put('/bucket');
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 }, mode: 'strict' });
    await world.client.put('/bucket/key', { body: 'content' });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    await evacuate(world.context, clock);
    expect((await admin.must('GET', '/clusters/a/drain-progress'))['deregisterReady']).toBe(false);
  }
  {
    const { world, admin } = await restart('b');
    await using _ = world;
    expect((await world.as({ credential: operator }).get('/readyz')).text).toContain('leaves out a');
    await evacuate(world.context, clock);
    // By the rows, the object is still on cluster a.
    expect(await clusterRows(world)).toEqual(['a evacuating 100', 'b live 100']);
    expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
      manifests: 1,
      deregisterReady: false,
    });
    expect((await world.client.get('/bucket/key')).code).toBe('ServiceUnavailable');
  }
  {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    await admin.must('DELETE', '/buckets/bucket/placement');
    await evacuate(world.context, clock);
    expect((await admin.must('GET', '/clusters/a/drain-progress'))['deregisterReady']).toBe(true);
  }
});

test('a cluster that is left out while it is emptied, and becomes empty, needs no operator', async () => {
  const { clock, restart } = await openRestarts();
  {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  }
  const { world } = await restart('b');
  await using _ = world;
  expect((await world.anonymous.get('/readyz')).status).toBe(503);
  await evacuate(world.context, clock);
  expect(await clusterRows(world)).toEqual(['a removed 100', 'b live 100']);
  expect((await world.anonymous.get('/readyz')).status).toBe(200);
});

test('a pending cluster that was listed by mistake can be removed, a live one cannot', async () => {
  const { clock, restart } = await openRestarts();
  {
    const { world } = await restart('a,b');
    await using _ = world;
  }
  {
    const { world } = await restart('a,b,c');
    await using _ = world;
    expect(await clusterRows(world)).toEqual(['a live 100', 'b live 100', 'c pending 100']);
  }
  const { world } = await restart('b');
  await using _ = world;
  await evacuate(world.context, clock);
  expect(await clusterRows(world)).toEqual(['a live 100', 'b live 100', 'c removed 100']);
  const ready = await world.as({ credential: operator }).get('/readyz');
  expect([ready.status, ready.text]).toEqual([
    503,
    expect.stringContaining('"reason":"SVC_POOL_CLUSTERS leaves out a, where chunks may be"'),
  ]);
});
