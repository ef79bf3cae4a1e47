/** The requests by which another site brings its versions. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { ReplicaDocument } from '../../src/metadata/objects/replica.ts';
import { findSite } from '../../src/metadata/site.ts';
import { openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { documentOf, rowsOf, sendObject, sendState } from '../support/replicas.ts';

async function openSite() {
  const world = await openGateway();
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  return world;
}

const md5 = (text: string): string => createHash('md5').update(text).digest('hex');

/** A version that was drawn at a time at a site named `elsewhere`. */
const versionAt = (ms: number, tail = '0'): string =>
  `${ms.toString(16).padStart(12, '0')}0000${tail.padStart(16, '0')}`;

function written(content: string, more: Partial<ReplicaDocument> = {}): ReplicaDocument {
  const version = more.version ?? versionAt(Date.now());
  return {
    version,
    isNull: false,
    marker: false,
    modified: Number.parseInt(version.slice(0, 12), 16),
    size: content.length,
    etag: md5(content),
    storageClass: 'STANDARD',
    headers: {},
    owner: 'alice-account',
    stamp: version.slice(0, 16),
    trace: ['elsewhere'],
    ...more,
  };
}

const markerAt = (version: string): ReplicaDocument =>
  written('', { version, marker: true, etag: '', storageClass: '' });

test('ReplicateObject keeps version id, ETag, time, headers, tags and checksum, and says REPLICA', async () => {
  await using source = await openSite();
  await using target = await openSite();
  const put = await source.client.put('/bucket/key', {
    body: 'content',
    headers: {
      '*-meta-a': 'b',
      '*-tagging': 't=1',
      'content-type': 'text/x',
      '*-checksum-sha256': createHash('sha256').update('content').digest('base64'),
    },
  });
  expect(put.status, put.text).toBe(200);
  const [row] = await rowsOf(source.context, 'bucket', 'key');
  if (row === undefined) throw new Error('no row');
  const document = await documentOf(source.context, row);
  const sent = await sendObject(target.client, '/bucket/key', document, 'content');
  expect([sent.status, sent.header('*-replica-outcome')], sent.text).toEqual([200, 'stored']);
  expect(sent.header('*-replica-site')).toBe(await findSite(target.context));
  const got = await target.client.get('/bucket/key', { headers: { '*-checksum-mode': 'ENABLED' } });
  const kept = await source.client.get('/bucket/key', { headers: { '*-checksum-mode': 'ENABLED' } });
  for (const name of [
    '*-version-id',
    'etag',
    'last-modified',
    '*-meta-a',
    'content-type',
    '*-checksum-sha256',
    '*-tagging-count',
  ])
    expect([name, got.header(name)]).toEqual([name, kept.header(name)]);
  expect(got.text).toBe('content');
  expect(got.header('*-replication-status')).toBe('REPLICA');
  const again = await sendObject(target.client, '/bucket/key', document, 'content');
  expect([again.status, again.header('*-replica-outcome')]).toEqual([200, 'present']);
  expect(await target.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
});

test('a replica that is older than the current version becomes a noncurrent version at its place', async () => {
  await using target = await openSite();
  const now = Date.now();
  const ids = [30_000, 10_000, 20_000].map((ago) => versionAt(now - ago));
  const local = await target.client.put('/bucket/key', { body: 'local' });
  for (const version of ids) {
    const sent = await sendObject(target.client, '/bucket/key', written(version, { version }), version);
    expect(sent.status, sent.text).toBe(200);
  }
  const listed = await target.client.get('/bucket?versions');
  const expected = [local.header('*-version-id'), ...ids.toSorted().reverse()];
  expect(listed.all('VersionId')).toEqual(expected);
  expect(listed.all('IsLatest')).toEqual(['true', 'false', 'false', 'false']);
  for (const version of ids)
    expect((await target.client.get(`/bucket/key?versionId=${version}`)).text).toBe(version);
  expect((await target.client.get('/bucket/key')).text).toBe('local');
  expect(await target.usage('bucket')).toEqual({ bytes: 5 + 96, objects: 4 });
});

test('ReplicateState inserts a delete marker at its place', async () => {
  await using target = await openSite();
  const now = Date.now();
  const [first, second, third] = [9000, 6000, 3000].map((ago) => versionAt(now - ago)) as [
    string,
    string,
    string,
  ];
  expect((await sendState(target.client, '/bucket/key', markerAt(third))).header('*-replica-outcome')).toBe(
    'stored',
  );
  expect((await target.client.get('/bucket/key')).status).toBe(404);
  await sendObject(target.client, '/bucket/key', written('x', { version: second }), 'x');
  await sendState(target.client, '/bucket/key', markerAt(first));
  const listed = await target.client.get('/bucket?versions');
  expect([...listed.all('VersionId')].sort()).toEqual([first, second, third]);
  expect((await target.client.get('/bucket/key')).header('*-delete-marker')).toBe('true');
  await target.client.delete(`/bucket/key?versionId=${third}`);
  expect((await target.client.get('/bucket/key')).text).toBe('x');
});
