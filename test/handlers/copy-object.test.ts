/** CopyObject and UploadPartCopy: sources, directives, conditions on the source. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import {
  bytesOf,
  complete,
  createUpload,
  digest64,
  MiB,
  md5,
  putPart,
  setVersioning,
} from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';

const described = {
  'content-type': 'text/x',
  'cache-control': 'no-store',
  '*-meta-color': 'red',
  '*-tagging': 'a=1&b=2',
  '*-website-redirect-location': '/there',
};
const copy = (client: Client, to: string, from: string, headers: Record<string, string> = {}) =>
  client.put(to, { headers: { '*-copy-source': from, ...headers } });

describe.each(backends)('CopyObject on %s', (backend) => {
  test('copies bytes across buckets, in either dialect', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/other');
    const body = bytesOf(5 * MiB);
    await world.client.put('/bucket/a%20b', { body, headers: described });
    for (const [client, source] of [
      [world.client, '/bucket/a%20b'],
      [world.neutral, 'bucket/a%20b'],
    ] as const) {
      const done = await copy(client, '/other/key', source);
      expect([done.status, done.one('ETag')]).toEqual([200, `"${md5(body)}"`]);
      expect(done.one('LastModified')).toMatch(/Z$/);
    }
    await world.client.delete('/bucket/a%20b');
    await world.gc();
    const got = await world.client.get('/other/key');
    expect(Buffer.compare(got.bytes, body)).toBe(0);
    expect(await world.stored()).toEqual(await world.owned('other'));
    expect(await world.usage('other')).toEqual({ bytes: body.length, objects: 1 });
    await copy(world.client, '/other/empty', 'other/key', {});
    await world.client.put('/other/nothing', { body: '' });
    expect((await copy(world.client, '/other/nothing2', 'other/nothing')).status).toBe(200);
    expect((await world.client.get('/other/nothing2')).text).toBe('');
  });

  test('copies one version, and returns its id', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const first = (await world.client.put('/bucket/key', { body: 'first' })).header('*-version-id') ?? '';
    const second = (await world.client.put('/bucket/key', { body: 'second' })).header('*-version-id') ?? '';
    const old = await copy(world.client, '/bucket/copy', `bucket/key?versionId=${first}`);
    expect([old.status, old.header('*-copy-source-version-id')]).toEqual([200, first]);
    expect(old.header('*-version-id')).toMatch(/^[0-9a-f]{32}$/);
    expect((await world.client.get('/bucket/copy')).text).toBe('first');
    expect((await copy(world.client, '/bucket/copy', 'bucket/key')).header('*-copy-source-version-id')).toBe(
      second,
    );
    const marker = (await world.client.delete('/bucket/key')).header('*-version-id') ?? '';
    const gone = await copy(world.client, '/bucket/copy', 'bucket/key');
    expect([gone.status, gone.code]).toEqual([404, 'NoSuchKey']);
    const ofMarker = await copy(world.client, '/bucket/copy', `bucket/key?versionId=${marker}`);
    expect([ofMarker.status, ofMarker.code]).toEqual([400, 'InvalidRequest']);
    const unknown = await copy(world.client, '/bucket/copy', `bucket/key?versionId=${'0'.repeat(32)}`);
    expect([unknown.status, unknown.code]).toEqual([404, 'NoSuchVersion']);
    // An older version may be copied onto its own key: that restores it.
    expect((await copy(world.client, '/bucket/key', `bucket/key?versionId=${first}`)).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('first');
  });
});

describe('directives', () => {
  test('COPY keeps the metadata of the source, REPLACE takes that of the request', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x', headers: described });
    const given = { 'content-type': 'new/type', '*-meta-shape': 'round', '*-tagging': 'c=3' };
    await copy(world.client, '/bucket/kept', 'bucket/key', given);
    const kept = await world.client.head('/bucket/kept');
    expect([
      kept.header('content-type'),
      kept.header('cache-control'),
      kept.header('*-meta-color'),
      kept.header('*-meta-shape'),
      kept.header('*-tagging-count'),
    ]).toEqual(['text/x', 'no-store', 'red', undefined, '2']);
    expect(kept.header('*-website-redirect-location')).toBeUndefined();
    await copy(world.client, '/bucket/new', 'bucket/key', {
      ...given,
      '*-metadata-directive': 'REPLACE',
      '*-tagging-directive': 'REPLACE',
    });
    const replaced = await world.client.head('/bucket/new');
    expect([
      replaced.header('content-type'),
      replaced.header('cache-control'),
      replaced.header('*-meta-color'),
      replaced.header('*-meta-shape'),
      replaced.header('*-tagging-count'),
    ]).toEqual(['new/type', undefined, undefined, 'round', '1']);
    for (const name of ['metadata-directive', 'tagging-directive', 'object-annotation-directive']) {
      const wrong = await copy(world.client, '/bucket/wrong', 'bucket/key', { [`*-${name}`]: 'MERGE' });
      expect([wrong.status, wrong.code]).toEqual([400, 'InvalidArgument']);
    }
  });

  test('a copy onto itself must change something', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content', headers: described });
    const same = await copy(world.client, '/bucket/key', 'bucket/key');
    expect([same.status, same.code]).toEqual([400, 'InvalidRequest']);
    for (const headers of [{ '*-metadata-directive': 'REPLACE' }, { '*-storage-class': 'STANDARD_IA' }]) {
      expect((await copy(world.client, '/bucket/key', 'bucket/key', headers)).status).toBe(200);
      expect((await world.client.get('/bucket/key')).text).toBe('content');
    }
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
  });

  test('a refused condition on the source is named as one', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    const etag = (await client.put('/bucket/key', { body: 'x' })).header('etag') ?? '';
    const past = new Date(Date.now() - 3_600_000).toUTCString();
    const now = (await client.head('/bucket/key')).header('last-modified') ?? '';
    for (const [name, value] of [
      ['If-Match', '"x"'],
      ['If-None-Match', etag],
      ['If-Modified-Since', now],
      ['If-Unmodified-Since', past],
    ] as const) {
      const headers = { [`*-copy-source-${name.toLowerCase()}`]: value };
      const refused = await copy(client, '/bucket/copy', 'bucket/key', headers);
      expect(refused.one('Condition')).toBe(`x-amz-copy-source-${name}`);
    }
  });

  test("a checksum is the source's own kind, or the one asked for", async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', {
      body: 'x',
      headers: { '*-checksum-sha1': digest64('sha1', 'x') },
    });
    expect((await copy(world.client, '/bucket/one', 'bucket/key')).one('ChecksumSHA1')).toBe(
      digest64('sha1', 'x'),
    );
    const other = await copy(world.client, '/bucket/two', 'bucket/key', { '*-checksum-algorithm': 'SHA256' });
    expect(other.one('ChecksumSHA256')).toBe(digest64('sha256', 'x'));
    expect(
      (await copy(world.client, '/bucket/three', 'bucket/key', { '*-checksum-algorithm': 'MD4' })).code,
    ).toBe('InvalidRequest');
  });
});

test('conditions on the source are all 412', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const etag = (await world.client.put('/bucket/key', { body: 'x' })).header('etag') ?? '';
  const past = new Date(Date.now() - 3_600_000).toUTCString();
  const future = new Date(Date.now() + 3_600_000).toUTCString();
  const now = (await world.client.head('/bucket/key')).header('last-modified') ?? '';
  for (const [conditions, status] of [
    [{ 'if-match': etag }, 200],
    [{ 'if-match': '"x"' }, 412],
    [{ 'if-none-match': '"x"' }, 200],
    [{ 'if-none-match': etag }, 412],
    [{ 'if-modified-since': past }, 200],
    [{ 'if-modified-since': now }, 412],
    // Ignored, as in the public service.
    [{ 'if-modified-since': future }, 200],
    [{ 'if-unmodified-since': future }, 200],
    [{ 'if-unmodified-since': past }, 412],
    [{ 'if-match': etag, 'if-unmodified-since': past }, 200],
    [{ 'if-none-match': etag, 'if-modified-since': past }, 412],
  ] as const) {
    const headers = Object.fromEntries(
      Object.entries(conditions).map(([name, value]) => [`*-copy-source-${name}`, value]),
    );
    const done = await copy(world.client, '/bucket/copy', 'bucket/key', headers);
    expect(done.status, JSON.stringify(conditions)).toBe(status);
  }
});

test("another account's source is refused, and so is a wrong owner's guard", async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.bob.put('/bobs');
  await world.bob.put('/bobs/secret', { body: 'secret' });
  expect((await copy(world.client, '/bucket/copy', 'bobs/secret')).status).toBe(403);
  await world.client.put('/bucket/key', { body: 'x' });
  expect(
    (
      await copy(world.client, '/bucket/copy', 'bucket/key', {
        '*-source-expected-bucket-owner': 'bob-account',
      })
    ).status,
  ).toBe(403);
  expect(
    (
      await copy(world.client, '/bucket/copy', 'bucket/key', {
        '*-source-expected-bucket-owner': 'alice-account',
      })
    ).status,
  ).toBe(200);
  expect((await copy(world.client, '/bucket/copy', 'nothing/key')).code).toBe('NoSuchBucket');
  expect((await copy(world.client, '/bucket/copy', 'bucket/nothing')).code).toBe('NoSuchKey');
});

describe.each(backends)('UploadPartCopy on %s', (backend) => {
  test('accepts only a range inside the source', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(6 * MiB);
    await world.client.put('/bucket/source', { body });
    const uploadId = await createUpload(world.client, '/bucket/key');
    const part = (range: string | undefined, number = 1) =>
      world.client.put('/bucket/key', {
        query: { uploadId, partNumber: String(number) },
        headers: {
          '*-copy-source': 'bucket/source',
          ...(range === undefined ? {} : { '*-copy-source-range': range }),
        },
      });
    for (const range of [
      `bytes=0-${6 * MiB}`,
      'bytes=5-4',
      'bytes=-5',
      'bytes=5-',
      'bytes=0-1,2-3',
      '0-1',
      'bytes=a-b',
      '',
    ]) {
      const refused = await part(range);
      expect([refused.status, refused.code], range).toEqual([400, 'InvalidArgument']);
    }
    const first = await part(undefined, 1);
    const second = await part('bytes=1-10', 2);
    expect([first.one('ETag'), second.one('ETag')]).toEqual([
      `"${md5(body)}"`,
      `"${md5(body.subarray(1, 11))}"`,
    ]);
    const parts = [first, second].map((each, i) => ({ number: i + 1, etag: each.one('ETag') ?? '' }));
    expect((await complete(world.client, '/bucket/key', { uploadId, parts })).status).toBe(200);
    const got = await world.client.get('/bucket/key');
    expect(Buffer.compare(got.bytes, Buffer.concat([body, body.subarray(1, 11)]))).toBe(0);
    const own = await createUpload(world.client, '/bucket/key');
    await putPart(world.client, '/bucket/key', { uploadId: own, number: 1, body: 'x' });
  });
});

test.each(['', '/', '//', '?versionId=', '/bucket', '%', '/bucket/key%zz', '/bucket/key?versionId=%'])(
  'a copy source of %j is refused (RGW 72669)',
  async (source) => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    const headers = { '*-copy-source': source };
    const copied = await client.put('/bucket/key', { headers, body: 'y' });
    const uploadId = await createUpload(client, '/bucket/parts');
    const part = await client.put('/bucket/parts', { headers, query: { uploadId, partNumber: '1' } });
    for (const refused of [copied, part])
      expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
    expect((await client.get('/bucket/key')).text).toBe('x');
  },
);
