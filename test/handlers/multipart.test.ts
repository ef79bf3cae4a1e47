/** Multipart uploads from CreateMultipartUpload to completion or abort. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import {
  bytesOf,
  complete,
  completion,
  createUpload,
  MiB,
  type PartOf,
  putPart,
  setVersioning,
} from '../support/gateway-bodies.ts';
import { big, compositeEtag, openUpload, part, path } from '../support/gateway-upload.ts';
import { jittering } from '../support/jitter.ts';

describe.each(backends)('on %s', (backend) => {
  test('parts in any order become one object, its ETag composed of theirs', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world, {
      'content-type': 'text/x',
      '*-meta-a': 'b',
      '*-storage-class': 'STANDARD_IA',
      '*-tagging': 'c=d',
    });
    const tail = bytesOf(1000, 3);
    const parts = [await part(world, uploadId, 7, tail), await part(world, uploadId, 2, big)].reverse();
    const listed = await world.client.get(path, { query: { uploadId } });
    expect(listed.all('PartNumber')).toEqual(['2', '7']);
    expect(listed.all('Size')).toEqual([String(5 * MiB), '1000']);
    expect((await world.client.head(path)).status).toBe(404);
    const done = await complete(world.client, path, { uploadId, parts });
    expect([done.status, done.one('ETag'), done.one('Key'), done.one('Bucket')]).toEqual([
      200,
      compositeEtag(parts),
      'key',
      'bucket',
    ]);
    expect(done.one('Location')).toBe('http://localhost/bucket/key');
    const got = await world.client.get(path);
    expect(Buffer.compare(got.bytes, Buffer.concat([big, tail]))).toBe(0);
    expect([
      got.header('etag'),
      got.header('content-type'),
      got.header('*-meta-a'),
      got.header('*-storage-class'),
      got.header('*-tagging-count'),
    ]).toEqual([compositeEtag(parts), 'text/x', 'b', 'STANDARD_IA', '1']);
    const across = await world.client.get(path, {
      headers: { range: `bytes=${5 * MiB - 2}-${5 * MiB + 1}` },
    });
    expect(Buffer.compare(across.bytes, Buffer.concat([big.subarray(-2), tail.subarray(0, 2)]))).toBe(0);
    expect((await world.client.get('/bucket?uploads')).all('UploadId')).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await world.usage('bucket')).toEqual({ bytes: 5 * MiB + 1000, objects: 1 });
  });

  test('a part sent again replaces the former; parts left out are deleted', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    await part(world, uploadId, 1, 'first');
    const again = await part(world, uploadId, 1, 'second');
    await part(world, uploadId, 2, 'left out');
    expect((await complete(world.client, path, { uploadId, parts: [again] })).status).toBe(200);
    expect((await world.client.get(path)).text).toBe('second');
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await world.stored()).toHaveLength(1);
  });

  test('an object that is deleted before gc has cleared its upload stays readable for SVC_GC_GRACE', async () => {
    await using world = await openGateway({ backend, settings: { SVC_GC_GRACE: '1h' } });
    const uploadId = await openUpload(world);
    const parts = [await part(world, uploadId, 1, big), await part(world, uploadId, 2, 'tail')];
    await complete(world.client, path, { uploadId, parts });
    const extents = await world.owned('bucket');
    // An upstream joins the parts.
    expect(extents).toHaveLength(backend === 'upstream-store' ? 1 : 2);
    // A read that began before this one goes on.
    expect((await world.client.delete(path)).status).toBe(204);
    await world.gc();
    expect(await world.stored()).toEqual(extents);
  });

  test('partNumber reads one part; HEAD tells its size, the count and the composite ETag', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    const bodies = [big, bytesOf(5 * MiB, 9), 'tail'];
    const parts = [];
    for (const [i, body] of bodies.entries()) parts.push(await part(world, uploadId, i + 1, body));
    await complete(world.client, path, { uploadId, parts });
    let start = 0;
    for (const [i, body] of bodies.entries()) {
      const got = await world.client.get(`${path}?partNumber=${i + 1}`);
      expect([got.status, got.header('*-mp-parts-count'), got.header('etag')]).toEqual([
        206,
        '3',
        compositeEtag(parts),
      ]);
      expect(Buffer.compare(got.bytes, Buffer.from(body as Uint8Array))).toBe(0);
      const head = await world.client.head(`${path}?partNumber=${i + 1}`);
      expect(head.header('content-length')).toBe(String(body.length));
      expect(head.header('content-range')).toBe(`bytes ${start}-${start + body.length - 1}/${10 * MiB + 4}`);
      expect(head.header('etag')).toBe(compositeEtag(parts));
      start += body.length;
    }
    for (const [number, status, code] of [
      [0, 400, 'InvalidArgument'],
      [4, 416, 'InvalidPartNumber'],
      [10_000, 416, 'InvalidPartNumber'],
      [10_001, 400, 'InvalidArgument'],
    ] as const) {
      const refused = await world.client.get(`${path}?partNumber=${number}`);
      expect([refused.status, refused.code], `part ${number}`).toEqual([status, code]);
      expect([refused.one('ActualPartCount'), refused.one('PartNumberRequested')]).toEqual(
        status === 416 ? ['3', String(number)] : [undefined, undefined],
      );
      const head = await world.client.head(`${path}?partNumber=${number}`);
      expect([head.status, head.header('content-range')], `part ${number}`).toEqual([status, undefined]);
    }
    expect((await world.client.head(path)).header('*-mp-parts-count')).toBeUndefined();
  });

  test('an empty last part is a part', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    const parts = [await part(world, uploadId, 1, big), await part(world, uploadId, 2, '')];
    expect((await complete(world.client, path, { uploadId, parts })).status).toBe(200);
    const empty = await world.client.get(`${path}?partNumber=2`);
    expect([empty.bytes.length, empty.header('content-length'), empty.header('*-mp-parts-count')]).toEqual([
      0,
      '0',
      '2',
    ]);
    expect((await world.client.get(path)).bytes).toHaveLength(5 * MiB);
    const only = await createUpload(world.client, '/bucket/empty');
    const none = await putPart(world.client, '/bucket/empty', { uploadId: only, number: 1, body: '' });
    expect((await complete(world.client, '/bucket/empty', { uploadId: only, parts: [none] })).status).toBe(
      200,
    );
    expect((await world.client.get('/bucket/empty')).bytes).toHaveLength(0);
    await world.gc();
    expect((await world.client.get(path)).bytes).toHaveLength(5 * MiB);
  });

  test('the part list is held to order, existence, ETags and sizes, and changes nothing when refused', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    const [one, two, three] = [
      await part(world, uploadId, 1, big),
      await part(world, uploadId, 2, 'small'),
      await part(world, uploadId, 3, 'tail'),
    ];
    const refusals: [PartOf[], string][] = [
      [[two, one], 'InvalidPartOrder'],
      [[one, one], 'InvalidPartOrder'],
      [[one, { ...two, number: 9 }], 'InvalidPart'],
      [[{ ...one, etag: two.etag }], 'InvalidPart'],
      [[{ ...one, number: 0 }], 'InvalidPart'],
      [[{ ...one, number: 10_001 }], 'InvalidPart'],
      [[one, two, three], 'EntityTooSmall'],
      [[], 'MalformedXML'],
    ];
    for (const [parts, code] of refusals) {
      const refused = await complete(world.client, path, { uploadId, parts });
      expect([refused.status, refused.code], code).toEqual([400, code]);
    }
    for (const body of [
      '',
      '<CompleteMultipartUpload/>',
      '<x/>',
      '<CompleteMultipartUpload>',
      completion([{ number: 1, etag: one.etag, more: '<PartNumber>2</PartNumber>' }]),
    ]) {
      const refused = await world.client.post(path, { query: { uploadId }, body });
      expect([refused.status, refused.code]).toEqual([400, 'MalformedXML']);
    }
    expect((await world.client.head(path)).status).toBe(404);
    const bare = [{ ...one, etag: one.etag.replaceAll('"', '') }, three];
    expect((await complete(world.client, path, { uploadId, parts: bare })).status).toBe(200);
  });

  test('part numbers run from 1 to 10,000', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    for (const number of ['1', '10000'])
      expect(
        (await world.client.put(path, { query: { uploadId, partNumber: number }, body: 'x' })).status,
      ).toBe(200);
    for (const number of ['0', '10001', '-1', 'x', '', '1.5', '99999999999']) {
      const refused = await world.client.put(path, { query: { uploadId, partNumber: number }, body: 'x' });
      expect([refused.status, refused.code], number).toEqual([400, 'InvalidArgument']);
    }
  });

  test('a retried Complete gets the stored result; another part list and Abort get NoSuchUpload', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const uploadId = await openUpload(world);
    const [one, two] = [await part(world, uploadId, 1, big), await part(world, uploadId, 2, 'x')];
    const first = await complete(world.client, path, { uploadId, parts: [one, two] });
    await world.gc();
    await world.client.put(path, { body: 'newer' });
    const again = await complete(world.client, path, { uploadId, parts: [one, two] });
    expect([again.status, again.one('ETag'), again.header('*-version-id')]).toEqual([
      200,
      first.one('ETag'),
      first.header('*-version-id'),
    ]);
    expect((await world.client.get(path)).text).toBe('newer');
    expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
    expect((await complete(world.client, path, { uploadId, parts: [one] })).code).toBe('NoSuchUpload');
    expect((await world.client.delete(path, { query: { uploadId } })).code).toBe('NoSuchUpload');
    expect((await world.client.put(path, { query: { uploadId, partNumber: '3' }, body: 'x' })).code).toBe(
      'NoSuchUpload',
    );
    expect((await world.client.get(path, { query: { uploadId } })).code).toBe('NoSuchUpload');
  });

  test('Abort is idempotent and deletes the parts; an id that was never issued is 404', async () => {
    await using world = await openGateway({ backend });
    const uploadId = await openUpload(world);
    const parts = [await part(world, uploadId, 1, 'x')];
    for (let time = 0; time < 3; time += 1) {
      const aborted = await world.client.delete(path, { query: { uploadId } });
      expect([aborted.status, aborted.text]).toEqual([204, '']);
      await world.gc();
    }
    expect(await world.stored()).toEqual([]);
    expect((await complete(world.client, path, { uploadId, parts })).code).toBe('NoSuchUpload');
    expect((await world.client.put(path, { query: { uploadId, partNumber: '1' }, body: 'x' })).code).toBe(
      'NoSuchUpload',
    );
    const unknown = await world.client.delete(path, { query: { uploadId: '0'.repeat(32) } });
    expect([unknown.status, unknown.code]).toEqual([404, 'NoSuchUpload']);
    // The upload id of another key, and of another bucket.
    const other = await createUpload(world.client, '/bucket/other');
    expect((await world.client.delete(path, { query: { uploadId: other } })).code).toBe('NoSuchUpload');
    await world.client.put('/bucket2');
    expect((await world.client.delete('/bucket2/other', { query: { uploadId: other } })).code).toBe(
      'NoSuchUpload',
    );
    expect((await world.client.delete('/bucket/other', { query: { uploadId: other } })).status).toBe(204);
  });

  test('of concurrent Completes one commits, and all 200 replies are equal', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const uploadId = await openUpload(world);
    const parts = [await part(world, uploadId, 1, big), await part(world, uploadId, 2, 'x')];
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => complete(world.client, path, { uploadId, parts })),
    );
    const done = replies.filter((reply) => reply.status === 200);
    expect(done.length).toBeGreaterThan(0);
    expect(new Set(done.map((reply) => reply.header('*-version-id'))).size).toBe(1);
    for (const reply of replies)
      if (reply.status !== 200) expect([reply.status, reply.code]).toEqual([404, 'NoSuchUpload']);
    expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(1);
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect((await world.client.get(path)).bytes).toHaveLength(5 * MiB + 1);
  });

  test.each(['complete', 'abort'] as const)(
    'a part that is late for %s is refused or was in time, and leaks nothing',
    async (end) => {
      await using world = await openGateway({ backend, wrap: jittering(end === 'abort' ? 5 : 6) });
      await world.client.put('/bucket');
      for (let round = 0; round < 20; round += 1) {
        const uploadId = await createUpload(world.client, path);
        const first = await part(world, uploadId, 1, `first of ${round}`);
        const [late, over] = await Promise.all([
          world.client.put(path, { query: { uploadId, partNumber: '1' }, body: `second of ${round}` }),
          end === 'abort'
            ? world.client.delete(path, { query: { uploadId } })
            : complete(world.client, path, { uploadId, parts: [first] }),
        ]);
        expect([200, 404], late.text).toContain(late.status);
        // 400: the part was replaced before the list was checked, so its ETag differs from the listed one.
        expect([200, 204, 400], over.text).toContain(over.status);
        if (end === 'complete' && over.status === 200)
          expect((await world.client.get(path)).text).toBe(`first of ${round}`);
        if (over.status === 400) {
          expect(over.code).toBe('InvalidPart');
          await world.client.delete(path, { query: { uploadId } });
        }
      }
      await world.gc();
      expect(await world.stored()).toEqual(await world.owned('bucket'));
    },
  );
});
