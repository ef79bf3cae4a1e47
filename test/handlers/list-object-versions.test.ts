/** ListObjectVersions: order, markers of both kinds, delimiter, pages. @storage */
import { describe, expect, test } from 'vitest';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';

/** `key version` of every entry in order; a common prefix stands alone. */
async function walk(world: GatewayWorld, query: Record<string, string>): Promise<string[]> {
  const seen: string[] = [];
  let next: Record<string, string> = {};
  for (let pages = 0; pages < 200; pages += 1) {
    const page = await world.client.get('/bucket?versions', { query: { ...query, ...next } });
    expect(page.status, page.text).toBe(200);
    const ids = page.all('VersionId');
    const entries = [
      ...page.all('Key').map((key, i) => `${key} ${ids[i]}`),
      ...page.all('CommonPrefixes'),
    ].sort(byKey);
    seen.push(...entries);
    if (page.one('IsTruncated') === 'false') return seen;
    expect(entries).toHaveLength(Number(query['max-keys']));
    next = { 'key-marker': page.one('NextKeyMarker') ?? '' };
    const version = page.one('NextVersionIdMarker');
    if (version !== undefined) next['version-id-marker'] = version;
  }
  throw new Error('the listing never ends');
}
const byKey = (a: string, b: string): number => {
  const [x = '', y = ''] = [a.split(' ')[0], b.split(' ')[0]];
  return x < y ? -1 : x > y ? 1 : 0;
};

/** Keys with histories of every shape; the expected listing in order. */
async function fill(world: GatewayWorld): Promise<string[]> {
  await world.client.put('/bucket');
  const expected = new Map<string, string[]>();
  const add = (key: string, id: string) => expected.set(key, [id, ...(expected.get(key) ?? [])]);
  const keys = ['a', 'b/1', 'b/2', 'c', 'd/1', 'e'];
  for (const key of ['a', 'b/2', 'e']) {
    await world.client.put(`/bucket/${key}`, { body: 'null' });
    add(key, 'null');
  }
  await setVersioning(world.client, 'bucket', 'Enabled');
  for (const key of keys) {
    for (let i = 0; i < 3; i += 1) {
      const reply =
        i === 1 && key !== 'c'
          ? await world.client.delete(`/bucket/${key}`)
          : await world.client.put(`/bucket/${key}`, { body: 'x' });
      add(key, reply.header('*-version-id') ?? '');
    }
  }
  const marker = await world.client.delete('/bucket/d/1');
  add('d/1', marker.header('*-version-id') ?? '');
  return [...expected]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, ids]) => ids.map((id) => `${key} ${id}`));
}

describe.each(backends)('on %s', (backend) => {
  test('returns every version and delete marker once, by key and then the newest first, with any page size', async () => {
    await using world = await openGateway({ backend });
    const expected = await fill(world);
    for (const size of ['1', '2', '3', '5', '1000']) {
      expect(await walk(world, { 'max-keys': size })).toEqual(expected);
      expect(await walk(world, { 'max-keys': size, prefix: 'b/' })).toEqual(
        expected.filter((each) => each.startsWith('b/')),
      );
      const grouped = [
        ...new Set(expected.map((each) => (each.includes('/') ? `${each.split('/')[0]}/` : each))),
      ];
      expect(await walk(world, { 'max-keys': size, delimiter: '/' })).toEqual(grouped);
    }
  });

  test('resumes after the null version also when that was removed meanwhile', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const old = (await world.client.put('/bucket/key', { body: 'old' })).header('*-version-id');
    await setVersioning(world.client, 'bucket', 'Suspended');
    await world.client.put('/bucket/key', { body: 'null' });
    const page = await world.client.get('/bucket?versions&max-keys=1');
    expect([page.one('VersionId'), page.one('IsTruncated')]).toEqual(['null', 'true']);
    await world.client.delete('/bucket/key?versionId=null');
    const query = {
      'key-marker': page.one('NextKeyMarker') ?? '',
      'version-id-marker': page.one('NextVersionIdMarker') ?? '',
    };
    const rest = await world.client.get('/bucket?versions', { query });
    expect(rest.all('VersionId')).toEqual([old]);
  });
});

test('returns the fields of each version and delete marker', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  await world.client.put('/bucket/key', { body: 'content', headers: { '*-storage-class': 'STANDARD_IA' } });
  await world.client.delete('/bucket/key');
  const page = await world.client.get('/bucket?versions');
  expect(page.all('IsLatest')).toEqual(['true', 'false']);
  expect([page.all('Size'), page.all('ETag').length, page.all('StorageClass')]).toEqual([
    ['7'],
    1,
    ['STANDARD_IA'],
  ]);
  expect(page.all('DisplayName')).toEqual(['alice', 'alice']);
  expect(page.all('LastModified')).toHaveLength(2);
});

test('a version-id marker needs a key marker, and the form of one', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (const query of [
    'version-id-marker=null',
    `version-id-marker=${'0'.repeat(32)}`,
    'key-marker=k&version-id-marker=x',
  ]) {
    const refused = await world.client.get(`/bucket?versions&${query}`);
    expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
  }
  expect((await world.client.get('/bucket?versions&key-marker=k&version-id-marker=null')).status).toBe(200);
});

test('a marker outside the prefix brings nothing in from there', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (const key of ['a1', 'zzz']) await world.client.put(`/bucket/${key}`, { body: key });
  const newest = 'f'.repeat(32);
  const list = async (query: string) =>
    (await world.client.get(`/bucket?versions&${query}&version-id-marker=${newest}`)).all('Key');
  expect(await list('prefix=a&key-marker=zzz')).toEqual([]);
  expect(await list('prefix=z&key-marker=a1')).toEqual(['zzz']);
});
