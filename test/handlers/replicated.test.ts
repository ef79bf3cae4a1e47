/** A change that a replication rule selects is marked and queued in its own commit. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { ReplicationTask } from '../../src/metadata/records/queues.ts';
import { type Backend, backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, deletion, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { tasksOf, tickingClock } from '../support/recorded.ts';
import { awaitDefaultPeer, defaultRole } from '../support/replication-role.ts';

const destination = '<Destination><Bucket>arn:aws:s3:::replica</Bucket></Destination>';
const second = (filter: string, markers = 'Disabled', status = 'Enabled'): string =>
  `<Rule><ID>r</ID><Priority>1</Priority>${filter}<Status>${status}</Status>${destination}<DeleteMarkerReplication><Status>${markers}</Status></DeleteMarkerReplication></Rule>`;
const first = (prefix: string): string =>
  `<Rule><ID>r</ID><Prefix>${prefix}</Prefix><Status>Enabled</Status>${destination}</Rule>`;

async function openWorld(rule: string, backend: Backend = 'memory') {
  const world = await openGateway({ backend, clock: tickingClock() });
  await awaitDefaultPeer(world);
  await world.client.put('/bucket');
  await world.client.put('/bucket/before', { body: 'x' });
  await setVersioning(world.client, 'bucket', 'Enabled');
  const body = `<ReplicationConfiguration><Role>${defaultRole}</Role>${rule}</ReplicationConfiguration>`;
  const put = await world.client.put('/bucket?replication', { body });
  if (put.status !== 200) throw new Error(put.text);
  return world;
}

const tagging = (key: string, value: string): string =>
  `<Tagging><TagSet><Tag><Key>${key}</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

/** The tasks, sorted by version, because the queue sorts by the store's clock, which may return one time twice. */
const replicationTasks = async (context: Context): Promise<readonly ReplicationTask[]> =>
  (await tasksOf<ReplicationTask>(context, 'replication')).toSorted((a, b) =>
    a.version < b.version ? -1 : 1,
  );

describe.each(backends)('on %s', (backend) => {
  test('every write of a version queues it once, and sets its replication status', async () => {
    await using world = await openWorld(second('<Filter><Prefix>a</Prefix></Filter>', 'Enabled'), backend);
    const { client, context } = world;
    const put = await client.put('/bucket/a', { body: 'one' });
    await client.put('/bucket/a-copy', { headers: { '*-copy-source': '/bucket/a' } });
    const uploadId = await createUpload(client, '/bucket/a-parts');
    const parts = [await putPart(client, '/bucket/a-parts', { uploadId, number: 1, body: 'part' })];
    for (const _ of [1, 2]) await complete(client, '/bucket/a-parts', { uploadId, parts });
    await client.put('/bucket/other', { body: 'x' });
    for (const path of ['/bucket/a', '/bucket/a-copy', '/bucket/a-parts']) {
      expect((await client.head(path)).header('*-replication-status')).toBe('PENDING');
      expect((await client.get(path)).header('*-replication-status')).toBe('PENDING');
    }
    for (const path of ['/bucket/other', '/bucket/before'])
      expect((await client.head(path)).header('*-replication-status')).toBeUndefined();
    await client.delete('/bucket/a');
    await client.post('/bucket?delete', { body: deletion(['a-copy', 'other']) });
    await client.delete(`/bucket/a?versionId=${put.header('*-version-id')}`);
    const tasks = await replicationTasks(context);
    expect(tasks.map(({ key, marker }) => `${key}${marker ? ' marker' : ''}`)).toEqual([
      'a',
      'a-copy',
      'a-parts',
      'a marker',
      'a-copy marker',
    ]);
    expect(tasks[0]).toMatchObject({
      bucket: 'bucket',
      version: put.header('*-version-id'),
      isNull: false,
      rule: 'r',
      destination: { Bucket: 'arn:aws:s3:::replica' },
    });
  });

  test('tags that change over there too queue what was replicated, and nothing else', async () => {
    await using world = await openWorld(second('<Filter><Prefix></Prefix></Filter>'), backend);
    const { client, context } = world;
    await client.put('/bucket/a', { body: 'one' });
    for (const key of ['a', 'before'])
      await client.put(`/bucket/${key}?tagging`, { body: tagging('k', 'v') });
    await client.delete('/bucket/before?tagging');
    const tasks = await replicationTasks(context);
    expect(tasks.map(({ key }) => key)).toEqual(['a', 'a']);
  });
});

test('a rule chooses by prefix, tags and status; one that is off chooses nothing', async () => {
  const tag = (value: string): string => `<Tag><Key>k</Key><Value>${value}</Value></Tag>`;
  const and = `<And><Prefix>a/</Prefix>${tag('v')}</And>`;
  for (const [rule, chosen] of [
    [second(`<Filter>${tag('v')}</Filter>`), ['a/tagged', 'tagged']],
    [second(`<Filter>${and}</Filter>`), ['a/tagged']],
    [second('<Filter><Prefix>a/</Prefix></Filter>'), ['a/plain', 'a/tagged']],
    [second('<Filter><Prefix></Prefix></Filter>', 'Disabled', 'Disabled'), []],
    [first('a/'), ['a/plain', 'a/tagged', 'a/tagged']],
  ] as const) {
    await using world = await openWorld(rule);
    for (const key of ['a/plain', 'plain']) await world.client.put(`/bucket/${key}`, { body: 'x' });
    for (const key of ['a/tagged', 'tagged'])
      await world.client.put(`/bucket/${key}`, { body: 'x', headers: { '*-tagging': 'k=v' } });
    for (const key of ['a/tagged', 'tagged']) await world.client.delete(`/bucket/${key}`);
    const tasks = await replicationTasks(world.context);
    expect(tasks.map(({ key }) => key).sort(), rule).toEqual(chosen);
  }
});

test('versioning stays on as long as a bucket is replicated', async () => {
  await using world = await openWorld(first(''));
  const { client } = world;
  expect((await setVersioning(client, 'bucket', 'Suspended')).code).toBe('InvalidBucketState');
  await client.delete('/bucket?replication');
  expect((await setVersioning(client, 'bucket', 'Suspended')).status).toBe(200);
});
