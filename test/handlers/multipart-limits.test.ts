/** The limits of multipart uploads: 10,000 parts, sizes, session data, a completion that loses a race. */
import { describe, expect, test } from 'vitest';
import { findSession, findSessionPart, uploadAt } from '../../src/metadata/objects/uploads.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
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
    ['-7', 'InvalidRequest'],
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
    // Write the rows of the other parts directly, because hashing 10,000 × 5 MiB would take minutes.
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

const GiB = 1024 * MiB;

/**
 * Writes the rows of the parts 2 to 10,000 directly, each of 5 GiB, as if that many bytes had been sent. The store of these tests
 * keeps no bytes.
 */
async function fillWithLargest(world: GatewayWorld, uploadId: string): Promise<void> {
  const { metadata } = world.context;
  const first = await findSessionPart(metadata, uploadId, 1);
  const stored = first?.row.stored;
  if (first === undefined || stored === undefined) throw new Error('no part');
  for (let start = 1; start <= 10_000; start += 50) {
    const numbers = Array.from({ length: Math.min(50, 10_001 - start) }, (_, i) => start + i);
    await metadata.commit(
      uploadAt(uploadId),
      numbers.map((part) => ({
        put: {
          uploadId,
          part,
          stored: {
            ...stored,
            extent: { ...stored.extent, id: `${stored.extent.id}-${part}`, size: 5 * GiB },
          },
          requestId: 'r',
        },
        expect: part === 1 ? first.revision : 'absent',
      })),
    );
  }
}

/** The backends with `noop` in place of their data store, which keeps no bytes; an upstream would have to store them. */
const withoutUpstream = backends.filter((backend) => backend !== 'upstream-store');

test.each(withoutUpstream)('10,000 parts of 5 GiB are one object of 48.8 TiB on %s', async (backend) => {
  await using world = await openGateway({ backend, settings: { SVC_DATA_BACKEND: 'noop' } });
  const { client } = world;
  const checksummed = { '*-checksum-algorithm': 'CRC64NVME' };
  const uploadId = await openUpload(world, checksummed);
  const { etag } = await part(world, uploadId, 1, 'x');
  await fillWithLargest(world, uploadId);
  const parts = Array.from({ length: 10_000 }, (_, i) => ({ number: i + 1, etag }));
  const size = 10_000 * 5 * GiB;
  const headers = { '*-mp-object-size': String(size) };
  const done = await complete(client, path, { uploadId, parts, ask: { headers } });
  expect([done.status, done.one('ETag'), done.one('ChecksumType')]).toEqual([
    200,
    compositeEtag(parts),
    'FULL_OBJECT',
  ]);
  expect((await client.head(path)).header('content-length')).toBe(String(size));
  const last = await client.head(`${path}?partNumber=10000`);
  expect([last.header('content-length'), last.header('content-range')]).toEqual([
    String(5 * GiB),
    `bytes ${size - 5 * GiB}-${size - 1}/${size}`,
  ]);
  for (const range of [`bytes=${size - 3}-`, `bytes=${size - 3}-${size + 9}`, 'bytes=-3']) {
    const tail = await client.get(path, { headers: { range } });
    expect([tail.status, tail.bytes.length, tail.header('content-range')]).toEqual([
      206,
      3,
      `bytes ${size - 3}-${size - 1}/${size}`,
    ]);
  }
  const behind = await client.get(path, { headers: { range: `bytes=${size}-` } });
  expect([behind.status, behind.one('ActualObjectSize')]).toEqual([416, String(size)]);
  expect((await client.get('/bucket?list-type=2')).one('Size')).toBe(String(size));
  expect(await world.usage('bucket')).toEqual({ bytes: size, objects: 1 });
  const copy = await client.put('/bucket/copy', { headers: { '*-copy-source': path } });
  expect([copy.status, copy.code]).toEqual([400, 'InvalidRequest']);
  // The copied range may reach to the end of the source, but a part has at most 5 GiB.
  const query = { uploadId: await createUpload(client, '/bucket/copy'), partNumber: '1' };
  const copyPart = (range?: string) =>
    client.put('/bucket/copy', {
      query,
      headers: {
        '*-copy-source': path,
        ...(range === undefined ? {} : { '*-copy-source-range': `bytes=${range}` }),
      },
    });
  expect((await copyPart(`${size - 3}-${size - 1}`)).status).toBe(200);
  expect((await copyPart(`${size - 3}-${size}`)).code).toBe('InvalidArgument');
  expect((await copyPart(`${size}-${size + 1}`)).code).toBe('InvalidRequest');
  // The public service's refusal of a copy, of a whole source, a range or a part.
  const tooLarge = 'larger than the maximum allowable size for a copy source: 5368709120';
  for (const range of [`0-${5 * GiB}`, undefined]) {
    const refused = await copyPart(range);
    expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
    expect(refused.one('Message')).toContain(tooLarge);
  }
  await client.delete(path);
  expect((await world.usage('bucket')).bytes).toBe(0);
});
