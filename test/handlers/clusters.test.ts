/** The life cycle of a cluster: added, activated, drained, removed. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openClusterStates } from '../../src/domain/clusters/cluster-states.ts';
import { DataUnavailable, type ObjectBytes } from '../../src/ports/object-bytes.ts';
import { clusterRows, extentsOn, openClusters } from '../support/clusters.ts';
import { openGateway, operator } from '../support/gateway.ts';

/** Gateways that are started one after another over one data directory. */
describe('over restarts', () => {
  let directory = '';
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sluice-clusters-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));
  const restart = (clusters: string) => openClusters(clusters, { settings: { SVC_DATA_DIR: directory } });

  test('the first boot takes every listed cluster as live, later ones wait', async () => {
    const { world, admin } = await restart('a');
    await using _ = world;
    expect(await admin.must('GET', '/clusters')).toMatchObject({
      clusters: [{ id: 'a', state: 'live', weight: 100, listed: true }],
    });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
  });

  test('a cluster that is added is pending until it is activated', async () => {
    const { world, admin } = await restart('a,b');
    await using _ = world;
    expect(await admin.must('GET', '/clusters/b')).toMatchObject({ id: 'b', state: 'pending' });
    for (let i = 0; i < 10; i += 1) await world.client.put(`/bucket/${i}`, { body: 'x' });
    expect(await extentsOn(world, 'b')).toBe(0);
    expect((await admin.ask('PUT', '/clusters/b/weight', { weight: 5 })).status).toBe(409);
    expect((await admin.ask('POST', '/clusters/b/drain', { mode: 'evacuate' })).status).toBe(409);
    const client = world.as({ credential: operator });
    const before = (await client.get('/admin/v1/clusters/b')).header('etag') ?? '';
    const activate = async (weight: number, match: string) =>
      (
        await client.post('/admin/v1/clusters/b/activate', {
          headers: { 'if-match': match },
          body: JSON.stringify({ weight }),
        })
      ).status;
    expect([await activate(60, '"x"'), await activate(60, before), await activate(50, before)]).toEqual([
      412, 200, 412,
    ]);
    expect(await admin.must('PUT', '/clusters/b/weight', { weight: 70 })).toMatchObject({
      state: 'live',
      weight: 70,
    });
    expect(await admin.must('POST', '/clusters/b/drain', { mode: 'readonly' })).toMatchObject({
      state: 'draining_readonly',
    });
    await admin.must('POST', '/clusters/b/drain', { mode: 'readonly' });
    await admin.must('POST', '/clusters/b/drain', { mode: 'evacuate' });
    const back = await admin.ask('POST', '/clusters/b/drain', { mode: 'readonly' });
    expect([back.status, back.json['message']]).toEqual([
      409,
      'Cluster b is evacuating; drain readonly applies to: live, draining_readonly.',
    ]);
    expect(await admin.must('POST', '/clusters/b/undrain')).toMatchObject({ state: 'live', weight: 70 });
  });

  test('one that is left out keeps readiness away, by its name', async () => {
    const { world, admin } = await restart('b');
    await using _ = world;
    const ready = await world.as({ credential: operator }).get('/readyz');
    expect([ready.status, ready.text]).toEqual([
      503,
      expect.stringContaining('"reason":"SVC_POOL_CLUSTERS leaves out a, where chunks may be"'),
    ]);
    expect(await admin.must('GET', '/clusters/a')).toMatchObject({ state: 'live', listed: false });
    const warning = 'SVC_POOL_CLUSTERS leaves out a, where chunks may be: list it again';
    expect(await admin.must('GET', '/status')).toMatchObject({ ok: false, warnings: [warning] });
    expect(await admin.must('GET', '/storage/health')).toMatchObject({ ok: false, warnings: [warning] });
    const answer = await world.client.get('/bucket/key');
    expect([answer.status, answer.code]).toEqual([503, 'ServiceUnavailable']);
  });

  test('with both listed again everything is there', async () => {
    const { world } = await restart('a,b');
    await using _ = world;
    expect((await world.anonymous.get('/readyz')).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    expect(await clusterRows(world)).toEqual(['a live 100', 'b live 70']);
  });
});

test('a cluster that is new to the rows and holds chunks is live', async () => {
  await using world = await openGateway({ settings: { SVC_POOL_CLUSTERS: 'a,b' } });
  const { bytes } = world.context;
  const source = (async function* () {
    yield new Uint8Array([1]);
  })();
  await bytes.write(source, { cluster: 'b', id: 'x', owner: { bucketId: 'other', key: 'key' } });
  const boot = (clusters: readonly string[]) =>
    openClusterStates({ ...world.context, bytes: { ...bytes, clusters } }).view();
  await boot(['a']);
  expect(await clusterRows({ context: world.context })).toEqual(['a live 100']);
  await boot(['a', 'b']);
  expect(await clusterRows({ context: world.context })).toEqual(['a live 100', 'b live 100']);
});

test('a new cluster that does not answer is pending', async () => {
  await using world = await openGateway({ settings: { SVC_POOL_CLUSTERS: 'a,b' } });
  const { bytes } = world.context;
  const holdsAnything: ObjectBytes['holdsAnything'] = async (cluster) => {
    if (cluster === 'b') throw new DataUnavailable('b is away');
    return bytes.holdsAnything(cluster);
  };
  await openClusterStates({ ...world.context, bytes: { ...bytes, clusters: ['a'] } }).view();
  const { closed } = await openClusterStates({ ...world.context, bytes: { ...bytes, holdsAnything } }).view();
  expect(await clusterRows(world)).toEqual(['a live 100', 'b pending 100']);
  expect([...closed]).toEqual([]);
});

test('processes that boot together agree', async () => {
  const { world } = await openClusters('a,b,c');
  await using _ = world;
  const views = await Promise.all(
    Array.from({ length: 8 }, async () => openClusterStates(world.context).view()),
  );
  for (const { states } of views) expect([...states.values()]).toEqual(['live', 'live', 'live']);
  expect(await clusterRows(world)).toEqual(['a live 100', 'b live 100', 'c live 100']);
});
