/** Checksums of multipart objects, FULL_OBJECT and COMPOSITE (public API "Checking object integrity"), and GetObjectAttributes. @storage */
import { describe, expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { type ChecksumAlgorithm, checksumFacts } from '../../src/domain/content/digests.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, type PartOf } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';

const path = '/bucket/key';
const digest = (algorithm: ChecksumAlgorithm, body: Uint8Array): Buffer => {
  const hash = nodeHasher().create(checksumFacts[algorithm].hash);
  hash.update(body);
  return Buffer.from(hash.digest());
};
const bodies = [bytesOf(5 * MiB, 4), bytesOf(5 * MiB + 3, 5), bytesOf(77, 6)];
const whole = Buffer.concat(bodies);
const composite = (algorithm: ChecksumAlgorithm): string =>
  `${digest(algorithm, Buffer.concat(bodies.map((body) => digest(algorithm, body)))).toString('base64')}-3`;
const full = (algorithm: ChecksumAlgorithm): string => digest(algorithm, whole).toString('base64');

async function upload(client: Client, algorithm: ChecksumAlgorithm, type?: string) {
  await client.put('/bucket');
  const uploadId = await createUpload(client, path, {
    headers: {
      '*-checksum-algorithm': algorithm,
      ...(type === undefined ? {} : { '*-checksum-type': type }),
    },
  });
  const parts: PartOf[] = [];
  const name = `*-checksum-${algorithm.toLowerCase()}`;
  for (const [i, body] of bodies.entries()) {
    const value = digest(algorithm, body).toString('base64');
    const stored = await client.put(path, {
      query: { uploadId, partNumber: String(i + 1) },
      body,
      headers: { [name]: value },
    });
    expect([stored.status, stored.header(name)]).toEqual([200, value]);
    parts.push({
      number: i + 1,
      etag: stored.header('etag') ?? '',
      more: `<Checksum${algorithm}>${value}</Checksum${algorithm}>`,
    });
  }
  return { uploadId, parts, name };
}

const kinds: [ChecksumAlgorithm, string | undefined, 'FULL_OBJECT' | 'COMPOSITE'][] = [
  ['CRC32', undefined, 'COMPOSITE'],
  ['CRC32C', undefined, 'COMPOSITE'],
  ['SHA1', undefined, 'COMPOSITE'],
  ['SHA256', 'COMPOSITE', 'COMPOSITE'],
  ['XXHASH64', undefined, 'COMPOSITE'],
  ['XXHASH3', 'COMPOSITE', 'COMPOSITE'],
  ['XXHASH128', undefined, 'COMPOSITE'],
  ['CRC64NVME', undefined, 'FULL_OBJECT'],
  ['CRC32', 'FULL_OBJECT', 'FULL_OBJECT'],
  ['CRC32C', 'FULL_OBJECT', 'FULL_OBJECT'],
];

describe.each(kinds)('%s of type %s', (algorithm, asked, type) => {
  test('is composed, compared with the one in Complete, stored and returned', async () => {
    await using world = await openGateway();
    const { client } = world;
    const { uploadId, parts, name } = await upload(client, algorithm, asked);
    const value = type === 'COMPOSITE' ? composite(algorithm) : full(algorithm);
    const listed = await client.get(path, { query: { uploadId } });
    expect([
      listed.one('ChecksumAlgorithm'),
      listed.one('ChecksumType'),
      listed.all(`Checksum${algorithm}`).length,
    ]).toEqual([algorithm, type, 3]);
    const wrong = digest(algorithm, Buffer.from('wrong')).toString('base64');
    const refused = await complete(client, path, { uploadId, parts, ask: { headers: { [name]: wrong } } });
    expect([refused.status, refused.code]).toEqual([400, 'BadDigest']);
    const wrongPart = parts.map((part) => ({
      ...part,
      more: `<Checksum${algorithm}>${wrong}</Checksum${algorithm}>`,
    }));
    expect((await complete(client, path, { uploadId, parts: wrongPart })).code).toBe('InvalidPart');
    const otherType = type === 'COMPOSITE' ? 'FULL_OBJECT' : 'COMPOSITE';
    const mismatch = await complete(client, path, {
      uploadId,
      parts,
      ask: { headers: { '*-checksum-type': otherType } },
    });
    expect([mismatch.status, mismatch.code]).toEqual([400, 'InvalidRequest']);
    const headers = { [name]: value, '*-checksum-type': type };
    const done = await complete(client, path, { uploadId, parts, ask: { headers } });
    expect([done.status, done.one(`Checksum${algorithm}`), done.one('ChecksumType')]).toEqual([
      200,
      value,
      type,
    ]);
    const mode = { '*-checksum-mode': 'ENABLED' };
    const head = await client.head(path, { headers: mode });
    expect([head.header(name), head.header('*-checksum-type')]).toEqual([value, type]);
    const part = await client.head(`${path}?partNumber=2`, { headers: mode });
    expect([part.header(name), part.header('*-checksum-type')]).toEqual([
      digest(algorithm, bodies[1] as Uint8Array).toString('base64'),
      type,
    ]);
    const ranged = await client.get(path, { headers: { ...mode, range: 'bytes=0-1' } });
    expect(ranged.header(name)).toBeUndefined();
  });
});

describe('a session', () => {
  test('names an algorithm and a type that belong together', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const create = (headers: Record<string, string>): Promise<Answer> =>
      world.client.post(`${path}?uploads`, { headers });
    const fine = await create({ '*-checksum-algorithm': 'crc32' });
    expect([fine.status, fine.header('*-checksum-algorithm'), fine.header('*-checksum-type')]).toEqual([
      200,
      'CRC32',
      'COMPOSITE',
    ]);
    for (const [algorithm, type] of [
      ['SHA1', 'FULL_OBJECT'],
      ['SHA256', 'FULL_OBJECT'],
      ['XXHASH64', 'FULL_OBJECT'],
      ['XXHASH3', 'FULL_OBJECT'],
      ['XXHASH128', 'FULL_OBJECT'],
      ['CRC64NVME', 'COMPOSITE'],
      ['CRC32', 'WHOLE'],
      ['MD4', 'COMPOSITE'],
    ]) {
      const refused = await create({
        '*-checksum-algorithm': algorithm ?? '',
        '*-checksum-type': type ?? '',
      });
      expect([refused.status, refused.code], `${algorithm} ${type}`).toEqual([400, 'InvalidRequest']);
    }
    expect((await create({ '*-checksum-type': 'FULL_OBJECT' })).code).toBe('InvalidRequest');
  });

  test('refuses parts with another algorithm, and computes missing checksums', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, path, {
      headers: { '*-checksum-algorithm': 'SHA256' },
    });
    const query = { uploadId, partNumber: '1' };
    const body = Buffer.from('content');
    const other = { '*-checksum-crc32': digest('CRC32', body).toString('base64') };
    expect((await world.client.put(path, { query, body, headers: other })).code).toBe('InvalidRequest');
    const bare = await world.client.put(path, { query, body });
    expect(bare.header('*-checksum-sha256')).toBe(digest('SHA256', body).toString('base64'));
    const part = { number: 1, etag: bare.header('etag') ?? '' };
    // The list must have the checksum of each part, as in the public service.
    const unproved = await complete(world.client, path, { uploadId, parts: [part] });
    expect([unproved.code, unproved.one('Message')]).toEqual([
      'InvalidRequest',
      expect.stringContaining('It was missing for part 1'),
    ]);
    const more = `<ChecksumSHA256>${bare.header('*-checksum-sha256')}</ChecksumSHA256>`;
    const parts = [{ ...part, more }];
    const claimed = await complete(world.client, path, { uploadId, parts, ask: { headers: other } });
    expect([claimed.status, claimed.code]).toEqual([400, 'InvalidRequest']);
    expect((await complete(world.client, path, { uploadId, parts })).one('ChecksumSHA256')).toMatch(/-1$/);
  });

  test('without checksums of parts refuses a checksum of the whole', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, path);
    const part = await world.client.put(path, { query: { uploadId, partNumber: '1' }, body: 'content' });
    const parts = [{ number: 1, etag: part.header('etag') ?? '' }];
    const headers = { '*-checksum-crc32': digest('CRC32', Buffer.from('content')).toString('base64') };
    const refused = await complete(world.client, path, { uploadId, parts, ask: { headers } });
    expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
    expect((await complete(world.client, path, { uploadId, parts })).status).toBe(200);
  });

  test('holds each part to its Content-MD5 and checksum', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, path);
    const put = (headers: Record<string, string>) =>
      world.client.put(path, { query: { uploadId, partNumber: '1' }, body: 'content', headers });
    expect((await put({ 'content-md5': Buffer.alloc(16).toString('base64') })).code).toBe('BadDigest');
    expect((await put({ 'content-md5': 'x' })).code).toBe('InvalidDigest');
    expect((await put({ '*-checksum-sha1': Buffer.alloc(20).toString('base64') })).code).toBe('BadDigest');
    expect((await world.client.get(path, { query: { uploadId } })).all('PartNumber')).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });
});

describe.each(backends)('GetObjectAttributes on %s', (backend) => {
  test('returns the requested attributes only', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    const put = await client.put('/bucket/simple', {
      body: 'content',
      headers: { '*-checksum-sha1': digest('SHA1', Buffer.from('content')).toString('base64') },
    });
    const ask = (names: string, path = '/bucket/simple') =>
      client.get(`${path}?attributes`, { headers: { '*-object-attributes': names } });
    const all = await ask('ETag,Checksum, ObjectParts,StorageClass,ObjectSize');
    expect([all.one('ETag'), all.one('StorageClass'), all.one('ObjectSize'), all.one('ObjectParts')]).toEqual(
      [put.header('etag')?.replaceAll('"', ''), 'STANDARD', '7', undefined],
    );
    expect([all.one('ChecksumSHA1'), all.one('ChecksumType')]).toEqual([
      digest('SHA1', Buffer.from('content')).toString('base64'),
      'FULL_OBJECT',
    ]);
    expect(all.header('last-modified')).toMatch(/GMT$/);
    const size = await ask('ObjectSize');
    expect([size.one('ETag'), size.one('ObjectSize')]).toEqual([undefined, '7']);
    expect((await client.get('/bucket/simple?attributes')).code).toBe('InvalidRequest');
    expect((await ask('Everything')).code).toBe('InvalidArgument');
    expect((await ask('ETag', '/bucket/none')).code).toBe('NoSuchKey');
  });

  test('lists parts with checksums in pages', async () => {
    await using world = await openGateway({ backend });
    const { uploadId, parts } = await upload(world.client, 'CRC32C');
    await complete(world.client, path, { uploadId, parts });
    const page = (marker: number, max: number) =>
      world.client.get(`${path}?attributes`, {
        headers: {
          '*-object-attributes': 'ObjectParts',
          '*-max-parts': String(max),
          '*-part-number-marker': String(marker),
        },
      });
    const first = await page(0, 2);
    expect([
      first.all('PartNumber'),
      first.one('PartsCount'),
      first.one('IsTruncated'),
      first.one('NextPartNumberMarker'),
      first.one('MaxParts'),
    ]).toEqual([['1', '2'], '3', 'true', '2', '2']);
    expect(first.all('ChecksumCRC32C')).toEqual(
      bodies.slice(0, 2).map((body) => digest('CRC32C', body).toString('base64')),
    );
    const second = await page(2, 2);
    expect([second.all('PartNumber'), second.all('Size'), second.one('IsTruncated')]).toEqual([
      ['3'],
      ['77'],
      'false',
    ]);
    expect((await page(2, 1)).one('IsTruncated')).toBe('false');
    // A client that follows the marker would ask for the same page for ever.
    const empty = await page(0, 0);
    expect([empty.all('PartNumber'), empty.one('IsTruncated')]).toEqual([[], 'false']);
  });
});
