/** ListMultipartUploads and ListParts: pages, prefixes, markers. @storage */
import { describe, expect, test } from 'vitest';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { createUpload, putPart } from '../support/gateway-bodies.ts';
import { tickingClock } from '../support/recorded.ts';

const keys = ['a', 'a', 'b/1', 'b/1', 'b/2', 'c', 'd/x', 'é', '\u{1f600}'];
async function fill(world: GatewayWorld): Promise<string[]> {
  await world.client.put('/bucket');
  const all: string[] = [];
  for (const key of keys)
    all.push(
      `${key} ${await createUpload(world.client, `/bucket/${encodeURIComponent(key).replaceAll('%2F', '/')}`)}`,
    );
  return all;
}
async function walk(world: GatewayWorld, query: Record<string, string>): Promise<string[]> {
  const seen: string[] = [];
  let next: Record<string, string> = {};
  for (let pages = 0; pages < 50; pages += 1) {
    const page = await world.client.get('/bucket?uploads', { query: { ...query, ...next } });
    const ids = page.all('UploadId');
    const rank = (text: string) => Buffer.from(text.split(' ')[0] ?? '');
    const entries = [...page.all('Key').map((key, i) => `${key} ${ids[i]}`), ...page.all('CommonPrefixes')];
    seen.push(...entries.sort((a, b) => Buffer.compare(rank(a), rank(b))));
    if (page.one('IsTruncated') === 'false') return seen;
    expect(entries).toHaveLength(Number(query['max-uploads']));
    next = {
      'key-marker': page.one('NextKeyMarker') ?? '',
      'upload-id-marker': page.one('NextUploadIdMarker') ?? '',
    };
  }
  throw new Error('the listing never ends');
}

describe.each(backends)('on %s', (backend) => {
  test('every open upload is listed once, by key and then by age, however small the page', async () => {
    // A ticking clock, so that two uploads of one key never begin in the same millisecond.
    await using world = await openGateway({ backend, clock: tickingClock() });
    const all = await fill(world);
    for (const size of ['1', '2', '4', '1000']) {
      expect(await walk(world, { 'max-uploads': size })).toEqual(all);
      expect(await walk(world, { 'max-uploads': size, prefix: 'b/' })).toEqual(
        all.filter((each) => each.startsWith('b/')),
      );
      const grouped = [...new Set(all.map((each) => (each.includes('/') ? `${each.split('/')[0]}/` : each)))];
      expect(await walk(world, { 'max-uploads': size, delimiter: '/' })).toEqual(grouped);
    }
  });

  test('parts are returned in order and in pages', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, '/bucket/key');
    for (const number of [10_000, 3, 1, 256, 255])
      await putPart(world.client, '/bucket/key', { uploadId, number, body: 'x' });
    const page = (query: Record<string, string>) =>
      world.client.get('/bucket/key', { query: { uploadId, ...query } });
    expect((await page({})).all('PartNumber')).toEqual(['1', '3', '255', '256', '10000']);
    const first = await page({ 'max-parts': '2' });
    expect([
      first.all('PartNumber'),
      first.one('IsTruncated'),
      first.one('NextPartNumberMarker'),
      first.one('MaxParts'),
    ]).toEqual([['1', '3'], 'true', '3', '2']);
    const second = await page({ 'max-parts': '3', 'part-number-marker': '3' });
    expect([second.all('PartNumber'), second.one('IsTruncated')]).toEqual([['255', '256', '10000'], 'false']);
    const behind = await page({ 'part-number-marker': '10000' });
    expect([behind.all('PartNumber'), behind.one('NextPartNumberMarker')]).toEqual([[], '0']);
    expect((await page({ 'max-parts': '0' })).all('PartNumber')).toEqual([]);
    expect((await page({ 'max-parts': '5000' })).one('MaxParts')).toBe('1000');
    for (const query of [{ 'max-parts': '-1' }, { 'max-parts': 'x' }, { 'part-number-marker': 'x' }])
      expect((await page(query)).code).toBe('InvalidArgument');
  });
});

test('returns the fields of an open upload, and does not list an ended one', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const uploadId = await createUpload(world.client, '/bucket/key', {
    headers: { '*-storage-class': 'GLACIER', '*-checksum-algorithm': 'SHA1' },
  });
  const over = await createUpload(world.client, '/bucket/key');
  await world.client.delete('/bucket/key', { query: { uploadId: over } });
  const page = await world.client.get('/bucket?uploads');
  expect(page.all('UploadId')).toEqual([uploadId]);
  expect([page.one('StorageClass'), page.one('ChecksumAlgorithm'), page.one('ChecksumType')]).toEqual([
    'GLACIER',
    'SHA1',
    'COMPOSITE',
  ]);
  expect([page.all('ID'), page.all('DisplayName')]).toEqual([
    ['alice-account', 'alice-account'],
    ['alice', 'alice'],
  ]);
  const parts = await world.client.get('/bucket/key', { query: { uploadId } });
  expect([parts.all('ID'), parts.all('DisplayName')]).toEqual([
    ['alice-account', 'alice-account'],
    ['alice', 'alice'],
  ]);
  expect(page.one('Initiated')).toMatch(/Z$/);
  // Without a key marker an upload-id marker is ignored.
  expect(
    (await world.client.get(`/bucket?uploads&upload-id-marker=${'f'.repeat(32)}`)).all('UploadId'),
  ).toEqual([uploadId]);
});
