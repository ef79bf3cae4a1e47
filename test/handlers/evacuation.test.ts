/** Evacuations: every object moves, and nothing changes for readers, writers and locks. @storage */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { findLiveHead, manifestRows, objectsAt } from '../../src/metadata/objects/objects.ts';
import { type ManifestPart, manifestSegmentParts } from '../../src/metadata/tables.ts';
import type { ObjectBytes } from '../../src/ports/object-bytes.ts';
import { evacuate, expectReady, extentsOn, fsckOf, openPair } from '../support/clusters.ts';
import { customer, encryptingSettings, provider, service } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { backends, type GatewayWorld } from '../support/gateway.ts';
import {
  bytesOf,
  complete,
  createUpload,
  MiB,
  md5,
  putPart,
  setVersioning,
} from '../support/gateway-bodies.ts';
import { heldUntil, lockIn } from '../support/locks.ts';

/** Puts an object whose manifest is stored in separate rows, like that of an object with many parts. */
async function putRows({ context, client }: GatewayWorld, key: string): Promise<void> {
  const count = manifestSegmentParts + 6;
  await client.put(`/bucket/${key}`, { body: 'x'.repeat(count) });
  const { metadata, bytes } = context;
  const bucket = await openBucket(context, 'bucket');
  const found = await findLiveHead(metadata, bucket, key);
  if (found === undefined || !('extents' in found.row.manifest)) throw new Error('no object');
  await bytes.remove(found.row.manifest.extents);
  const parts: ManifestPart[] = [];
  for (let number = 1; number <= count; number += 1) {
    const source = (async function* () {
      yield Buffer.from('x');
    })();
    const owner = { bucketId: bucket.id, key };
    parts.push({ number, extent: await bytes.write(source, { cluster: 'a', id: `part${number}`, owner }) });
  }
  await metadata.apply(manifestRows('manifest', parts));
  const manifest = { manifestId: 'manifest', partCount: count, offsets: [0, manifestSegmentParts] };
  const change = { put: { ...found.row, manifest }, expect: found.revision };
  expect((await metadata.commit(objectsAt(bucket), [change])).applied).toBe(true);
}

describe.each(backends)('on %s', (backend) => {
  test('everything that a client can store moves, and reads as before', async () => {
    const { world, admin, clock, drain } = await openPair(backend, { settings: await encryptingSettings() });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    const large = bytesOf(9 * MiB, 3);
    await client.put('/bucket/small', {
      body: 'small',
      headers: { '*-meta-colour': 'blue', '*-tagging': 'a=b' },
    });
    await client.put('/bucket/large', { body: large });
    await client.put('/bucket/empty', { body: '' });
    await client.put('/bucket/sealed', { body: 'sealed', headers: service });
    await client.put('/bucket/customer', { body: large, headers: customer() });
    await client.put('/bucket/provider', { body: 'provider', headers: provider('alias/main') });
    await client.put('/bucket/ia', { body: 'ia', headers: { '*-storage-class': 'STANDARD_IA' } });
    await client.put('/bucket/versions', { body: 'one' });
    const old = (await client.head('/bucket/versions')).header('*-version-id') ?? '';
    await client.put('/bucket/versions', { body: 'two' });
    await client.delete('/bucket/versions');
    const held = heldUntil('COMPLIANCE', clock.now() + 86_400_000);
    const lockedVersion = (await client.put('/bucket/held', { body: 'held', headers: held })).header(
      '*-version-id',
    );
    for (const [key, headers, last] of [
      ['parts', {}, 'last'],
      ['empty-part', {}, ''],
      ['sealed-parts', service, 'last'],
      ['provider-parts', provider('alias/main'), 'last'],
    ] as const) {
      const uploadId = await createUpload(client, `/bucket/${key}`, { headers });
      const parts = [
        await putPart(client, `/bucket/${key}`, { uploadId, number: 1, body: large.subarray(0, 5 * MiB) }),
        await putPart(client, `/bucket/${key}`, { uploadId, number: 2, body: last }),
      ];
      expect((await complete(client, `/bucket/${key}`, { uploadId, parts })).status).toBe(200);
    }
    await putRows(world, 'rows');
    await world.gc();

    const asRead = async (): Promise<readonly unknown[]> => {
      const paths = [
        'small',
        'large',
        'empty',
        'sealed',
        'provider',
        'ia',
        `versions?versionId=${old}`,
        'held',
        'parts',
        'empty-part',
        'rows',
        'sealed-parts',
        'provider-parts',
      ];
      const answers = await Promise.all(paths.map((path) => client.get(`/bucket/${path}`)));
      answers.push(await client.get('/bucket/customer', { headers: customer() }));
      answers.push(await client.get('/bucket?versions'));
      const ranged = await client.get('/bucket/sealed-parts', {
        headers: { range: 'bytes=5242875-5242882' },
      });
      return [...answers, ranged].map(({ status, bytes, headers }) => [
        status,
        md5(bytes),
        headers.filter(([name]) => /etag|modified|version|meta|tagging|class|lock|encryption/i.test(name)),
      ]);
    };
    const before = await asRead();
    const usage = await world.usage('bucket');
    expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([86, 0]);

    await drain();
    await evacuate(world.context, clock);

    expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 86]);
    expect(await asRead()).toEqual(before);
    expect(await world.usage('bucket')).toEqual(usage);
    expect(await fsckOf(world)).toEqual([]);
    expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
      cluster: 'a',
      state: 'evacuating',
      manifests: 0,
      chunks: 0,
      gcQueue: 0,
      openUploads: 0,
    });
    await expectReady(world, { admin, backend });
    // Object Lock still protects the moved version.
    const path = `/bucket/held?versionId=${lockedVersion}`;
    expect((await client.delete(path, { headers: { '*-bypass-governance-retention': 'true' } })).code).toBe(
      'AccessDenied',
    );
    expect(lockIn(await client.head(path))[0]).toBe('COMPLIANCE');
    // Move everything back: moved objects can be moved again, encrypted ones too.
    await admin.must('POST', '/clusters/a/undrain');
    await admin.must('POST', '/clusters/b/drain', { mode: 'evacuate' });
    await evacuate(world.context, clock);
    expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([86, 0]);
    expect(await asRead()).toEqual(before);
  });

  test('an open upload stays where it began, and keeps the cluster until it is over', async () => {
    const { world, admin, clock, drain } = await openPair(backend);
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    const uploadId = await createUpload(client, '/bucket/key');
    const one = await putPart(client, '/bucket/key', { uploadId, number: 1, body: bytesOf(5 * MiB, 1) });
    await drain();
    await evacuate(world.context, clock);
    expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
      openUploads: 1,
      deregisterReady: false,
      reasons: expect.arrayContaining([
        '1 open upload is bound to it, and must be completed or aborted.',
        '2 chunks are stored on it.',
      ]),
    });
    const two = await putPart(client, '/bucket/key', { uploadId, number: 2, body: 'two' });
    expect((await complete(client, '/bucket/key', { uploadId, parts: [one, two] })).status).toBe(200);
    await evacuate(world.context, clock);
    expect(await extentsOn(world, 'a')).toBe(0);
    expect((await client.get('/bucket/key')).bytes.length).toBe(5 * MiB + 3);
    await expectReady(world, { admin, backend });
  });

  test('versions that no other cluster may hold are reported, and move as soon as one may', async () => {
    const { world, admin, clock, drain } = await openPair(backend);
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    await client.put('/other');
    await client.put('/other/key', { body: 'content' });
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 }, mode: 'strict' });
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    expect(await admin.must('GET', '/clusters/a/drain-impact')).toEqual({
      cluster: 'a',
      buckets: expect.arrayContaining([
        {
          bucket: 'bucket',
          manifests: 1,
          bytes: 7,
          stuck: 1,
          openUploads: 0,
          refusesWrites: true,
          atLeast: false,
        },
        {
          bucket: 'other',
          manifests: 1,
          bytes: 7,
          stuck: 0,
          openUploads: 0,
          refusesWrites: false,
          atLeast: false,
        },
      ]),
    });
    await drain();
    await evacuate(world.context, clock);
    expect(await extentsOn(world, 'a')).toBe(1);
    expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
      manifests: 1,
      bytes: 7,
      stuck: 1,
      deregisterReady: false,
    });
    await admin.must('DELETE', '/buckets/bucket/placement');
    await evacuate(world.context, clock);
    expect(await extentsOn(world, 'a')).toBe(0);
    await expectReady(world, { admin, backend });
  });

  test('a client that writes while its object is moved wins, and the copy goes', async () => {
    for (const act of ['put', 'delete', 'tag', 'version'] as const) {
      const { world, clock, drain } = await openPair(backend);
      await using _ = world;
      const { client, context } = world;
      await client.put('/bucket');
      if (act === 'version') await setVersioning(client, 'bucket', 'Enabled');
      await client.put('/bucket/key', { body: 'before' });
      await drain();
      let isStruck = false;
      const write: ObjectBytes['write'] = async (source, options) => {
        const extent = await context.bytes.write(source, options);
        if (isStruck) return extent;
        isStruck = true;
        if (act === 'delete') await client.delete('/bucket/key');
        else if (act === 'tag')
          await client.put('/bucket/key?tagging', {
            body: '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>',
          });
        else await client.put('/bucket/key', { body: 'after' });
        return extent;
      };
      await evacuate({ ...context, bytes: faulty(context.bytes, { write }) }, clock);
      expect(isStruck).toBe(true);
      const got = await client.get('/bucket/key');
      expect(act === 'delete' ? got.code : got.text, act).toBe(
        act === 'delete' ? 'NoSuchKey' : act === 'tag' ? 'before' : 'after',
      );
      if (act === 'tag') expect(got.header('*-tagging-count')).toBe('1');
      expect(await extentsOn(world, 'a'), act).toBe(0);
      expect(await world.stored(), act).toEqual(await world.owned('bucket'));
      expect(await fsckOf(world)).toEqual([]);
    }
  });
});
