/** The bounds of multipart uploads: 10,000 parts, sizes, what a session carries, a lost completion (issue, item 5). */
import { describe, expect, test } from 'vitest';
import { findSession, findSessionPart, uploadAt } from '../../src/metadata/uploads.ts';
import { openGateway } from '../support/gateway.ts';
import { complete, createUpload, MiB, type PartOf } from '../support/gateway-bodies.ts';
import { big, compositeEtag, openUpload, part, path } from '../support/gateway-upload.ts';
import { jittering } from '../support/jitter.ts';

test('every session carries the NUL-separated handle that binds it to its cluster', async () => {
  await using world = await openGateway();
  const uploadId = await openUpload(world);
  const found = await findSession(world.context.metadata, uploadId);
  expect(found?.row.session.backendUploadId.split('\0')).toEqual(['default', 'bucket', 'key', uploadId]);
});

test('mp-object-size must be the sum of the parts', async () => {
  await using world = await openGateway();
  const uploadId = await openUpload(world);
  const parts = [await part(world, uploadId, 1, 'content')];
  for (const [size, code] of [
    ['6', 'InvalidRequest'],
    ['8', 'InvalidRequest'],
    ['x', 'InvalidArgument'],
    ['-7', 'InvalidArgument'],
  ] as const) {
    const refused = await complete(world.client, path, {
      uploadId,
      parts,
      ask: { headers: { '*-mp-object-size': size } },
    });
    expect([refused.status, refused.code]).toEqual([400, code]);
  }
  expect(
    (await complete(world.client, path, { uploadId, parts, ask: { headers: { '*-mp-object-size': '7' } } }))
      .status,
  ).toBe(200);
});

test('a Complete that loses against a PUT in an unversioned bucket shows the winner, and leaks nothing', async () => {
  await using world = await openGateway({ wrap: jittering(13) });
  await world.client.put('/bucket');
  for (let round = 0; round < 20; round += 1) {
    const uploadId = await createUpload(world.client, path);
    const parts: PartOf[] = [];
    for (let number = 1; number <= 2; number += 1)
      parts.push(await part(world, uploadId, number, number === 1 ? big : 'x'));
    const [done, put] = await Promise.all([
      complete(world.client, path, { uploadId, parts }),
      world.client.put(path, { body: `put ${round}` }),
    ]);
    expect([done.status, put.status]).toEqual([200, 200]);
  }
  await world.gc();
  expect(await world.stored()).toEqual(await world.owned('bucket'));
  expect((await world.usage('bucket')).objects).toBe(1);
});

describe('10,000 parts', () => {
  test('are completed, read by part and range, listed in pages, and go with the object', async () => {
    await using world = await openGateway({ settings: { SVC_DATA_BACKEND: 'noop' } });
    const uploadId = await openUpload(world);
    const body = new Uint8Array(5 * MiB);
    const first = await part(world, uploadId, 1, body);
    // The rest by the back door: 10,000 × 5 MiB would be hashed for minutes.
    const stored = (await findSessionPart(world.context.metadata, uploadId, 1))?.row.stored;
    if (stored === undefined) throw new Error('no part');
    for (let start = 2; start <= 10_000; start += 50) {
      const numbers = Array.from({ length: Math.min(50, 10_001 - start) }, (_, i) => start + i);
      await world.context.metadata.commit(
        uploadAt(uploadId),
        numbers.map((number) => ({
          put: {
            uploadId,
            part: number,
            stored: { ...stored, extent: { ...stored.extent, id: `${stored.extent.id}-${number}` } },
            requestId: 'r',
          },
          expect: 'absent',
        })),
      );
    }
    const parts = Array.from({ length: 10_000 }, (_, i) => ({ number: i + 1, etag: first.etag }));
    const tooMany = await complete(world.client, path, {
      uploadId,
      parts: [...parts, { number: 10_000, etag: first.etag }],
    });
    expect([tooMany.status, tooMany.code]).toEqual([400, 'MalformedXML']);
    const numbers: string[] = [];
    let marker = '0';
    for (let pages = 0; pages < 20; pages += 1) {
      const page = await world.client.get(path, { query: { uploadId, 'part-number-marker': marker } });
      expect(page.all('PartNumber').length).toBeLessThanOrEqual(1000);
      numbers.push(...page.all('PartNumber'));
      if (page.one('IsTruncated') === 'false') break;
      marker = page.one('NextPartNumberMarker') ?? '';
    }
    expect(numbers).toEqual(parts.map(({ number }) => String(number)));
    const done = await complete(world.client, path, { uploadId, parts });
    expect([done.status, done.one('ETag')]).toEqual([200, compositeEtag(parts)]);
    const size = 50_000 * MiB;
    const head = await world.client.head(`${path}?partNumber=9999`);
    expect([head.header('content-range'), head.header('*-mp-parts-count')]).toEqual([
      `bytes ${9998 * 5 * MiB}-${9999 * 5 * MiB - 1}/${size}`,
      '10000',
    ]);
    const ranged = await world.client.get(path, { headers: { range: `bytes=${size - 3}-` } });
    expect([ranged.status, ranged.bytes.length]).toEqual([206, 3]);
    expect((await world.usage('bucket')).bytes).toBe(size);
    const attributes = await world.client.get(`${path}?attributes`, {
      headers: { '*-object-attributes': 'ObjectParts,ObjectSize' },
    });
    expect([attributes.one('PartsCount'), attributes.one('ObjectSize')]).toEqual(['10000', String(size)]);
    await world.client.delete(path);
    await world.gc();
    expect((await findSession(world.context.metadata, uploadId))?.row.session.state).toBe('completed');
  });
});
