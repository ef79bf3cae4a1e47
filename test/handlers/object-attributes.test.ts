/** GetObjectAttributes: the chosen attributes, of a version, with its parts in pages. @storage */
import { describe, expect, test } from 'vitest';
import { setPolicy } from '../support/bucket-policy.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, setVersioning } from '../support/gateway-bodies.ts';
import { big, compositeEtag, openUpload, part, path } from '../support/gateway-upload.ts';

const asking = (names: string, more: Record<string, string> = {}) => ({
  headers: { '*-object-attributes': names, ...more },
});

describe.each(backends)('on %s', (backend) => {
  test('each version has its own attributes, the ETag without quotes; a delete marker has none', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const headers = { '*-checksum-algorithm': 'SHA256', '*-storage-class': 'STANDARD_IA' };
    const older = await client.put('/bucket/key', { body: 'older', headers });
    const newer = await client.put('/bucket/key', { body: 'the newer' });
    const all = asking('ETag,Checksum, ObjectParts ,StorageClass,ObjectSize');
    const first = await client.get(`/bucket/key?attributes&versionId=${older.header('*-version-id')}`, all);
    expect(['ETag', 'StorageClass', 'ObjectSize', 'ObjectParts'].map(first.one)).toEqual([
      older.header('etag')?.replaceAll('"', ''),
      'STANDARD_IA',
      '5',
      undefined,
    ]);
    expect(first.header('*-version-id')).toBe(older.header('*-version-id'));
    expect(first.header('last-modified')).toMatch(/GMT$/);
    const second = await client.get('/bucket/key?attributes', asking('ObjectSize'));
    expect([second.one('ObjectSize'), second.one('ETag')]).toEqual(['9', undefined]);
    expect(second.header('*-version-id')).toBe(newer.header('*-version-id'));

    const marker = (await client.delete('/bucket/key')).header('*-version-id');
    const gone = await client.get('/bucket/key?attributes', all);
    expect([gone.status, gone.code, gone.header('*-delete-marker')]).toEqual([404, 'NoSuchKey', 'true']);
    const marked = await client.get(`/bucket/key?attributes&versionId=${marker}`, all);
    expect([marked.status, marked.code]).toEqual([405, 'MethodNotAllowed']);
    expect((await client.get(`/bucket/key?attributes&versionId=${'0'.repeat(32)}`, all)).code).toBe(
      'NoSuchVersion',
    );
  });

  test('parts with checksums are returned in pages, each once and in order', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    const uploadId = await openUpload(world, { '*-checksum-algorithm': 'CRC32C' });
    const sizes = [big, big, new Uint8Array(7)];
    const numbers = [2, 5, 9];
    const parts = [];
    for (const [i, number] of numbers.entries())
      parts.push(await part(world, uploadId, number, sizes[i] ?? ''));
    const checksums = (await client.get(path, { query: { uploadId } })).all('ChecksumCRC32C');
    const listed = parts.map((each, i) => ({
      ...each,
      more: `<ChecksumCRC32C>${checksums[i]}</ChecksumCRC32C>`,
    }));
    expect((await complete(client, path, { uploadId, parts: listed })).status).toBe(200);
    const whole = await client.get(`${path}?attributes`, asking('ETag,Checksum,ObjectParts'));
    expect([whole.one('ETag'), whole.one('ChecksumType')]).toEqual([
      compositeEtag(parts).replaceAll('"', ''),
      'COMPOSITE',
    ]);
    // HEAD shows the number of parts behind the checksum, and attributes do not (public API).
    const head = await client.head(path, { headers: { '*-checksum-mode': 'ENABLED' } });
    expect(head.header('*-checksum-crc32c')).toBe(`${whole.one('ChecksumCRC32C')}-3`);
    expect([whole.one('PartsCount'), whole.one('IsTruncated'), whole.all('PartNumber')]).toEqual([
      '3',
      'false',
      numbers.map(String),
    ]);
    const seen: (readonly string[])[] = [];
    let marker = '0';
    for (let page = 0; page < 3; page += 1) {
      const more = { '*-max-parts': '1', '*-part-number-marker': marker };
      const told = await client.get(`${path}?attributes`, asking('ObjectParts', more));
      expect([told.one('MaxParts'), told.one('PartNumberMarker')]).toEqual(['1', marker]);
      expect(told.one('IsTruncated')).toBe(page < 2 ? 'true' : 'false');
      seen.push(['PartNumber', 'Size', 'ChecksumCRC32C'].map((name) => told.one(name) ?? ''));
      marker = told.one('NextPartNumberMarker') ?? '';
    }
    expect(seen).toEqual(
      numbers.map((number, i) => [String(number), String(sizes[i]?.length), checksums[i]]),
    );
  });
});

test('attributes require the permissions to read the object and its attributes, also of a version', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const status = async (version: string) =>
    (await bob.get(`/bucket/key?attributes${version}`, asking('ETag'))).status;
  for (const [Action, latest, byId] of [
    ['s3:GetObjectAttributes', 403, 403],
    ['s3:GetObject', 403, 403],
    [['s3:GetObject', 's3:GetObjectAttributes'], 200, 403],
    [['s3:GetObjectVersion', 's3:GetObjectVersionAttributes'], 403, 200],
  ] as const) {
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action }]);
    expect([await status(''), await status('&versionId=null')]).toEqual([latest, byId]);
  }
});

test('a choice that is empty or unknown is refused', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  for (const [headers, code] of [
    [{}, 'InvalidRequest'],
    [{ '*-object-attributes': ' , ' }, 'InvalidRequest'],
    [{ '*-object-attributes': 'ETag,Owner' }, 'InvalidArgument'],
  ] as const)
    expect((await client.get('/bucket/key?attributes', { headers })).code).toBe(code);
});
