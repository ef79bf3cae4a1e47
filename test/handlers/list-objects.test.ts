/** ListObjects and ListObjectsV2: prefix, delimiter, markers, tokens, page sizes, order. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { createUpload, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { encodePath } from '../support/sign.ts';

const fill = async (client: Client, keys: readonly string[]): Promise<void> => {
  await client.put('/bucket');
  for (const key of keys) await client.put(`/bucket/${encodePath(key)}`, { body: key });
};
const prefixes = (page: Answer): string[] => page.all('CommonPrefixes');
const tree = ['a', 'b/1', 'b/2', 'b/c/3', 'd', 'e/4', 'f'];

/** Walks all pages, by version 1's marker or version 2's token; every page but the last is full. */
async function walk(client: Client, version: 1 | 2, query: Record<string, string>): Promise<string[]> {
  const seen: string[] = [];
  let next: Record<string, string> = {};
  for (let pages = 0; pages < 100; pages += 1) {
    const own = version === 1 ? {} : { 'list-type': '2' };
    const page = await client.get('/bucket', { query: { ...own, ...query, ...next } });
    expect(page.status).toBe(200);
    const entries = [...page.all('Key'), ...prefixes(page)].sort();
    seen.push(...entries);
    if (page.one('IsTruncated') === 'false') {
      expect(page.one('NextContinuationToken') ?? page.one('NextMarker')).toBeUndefined();
      return seen;
    }
    expect(entries).toHaveLength(Number(query['max-keys']));
    const token = page.one('NextContinuationToken');
    const marker = page.one('NextMarker') ?? page.all('Key').at(-1);
    next = version === 2 ? { 'continuation-token': token ?? '' } : { marker: marker ?? '' };
  }
  throw new Error('the listing never ends');
}

describe.each(backends)('listings on %s', (backend) => {
  test.each([1, 2] as const)(
    'version %i returns every key and each common prefix once, with any page size',
    async (version) => {
      await using world = await openGateway({ backend });
      await fill(world.client, tree);
      for (const size of ['1', '2', '3', '100']) {
        const query = { 'max-keys': size };
        expect(await walk(world.client, version, query)).toEqual(tree);
        expect(await walk(world.client, version, { ...query, prefix: 'b/' })).toEqual([
          'b/1',
          'b/2',
          'b/c/3',
        ]);
        expect(await walk(world.client, version, { ...query, delimiter: '/' })).toEqual([
          'a',
          'b/',
          'd',
          'e/',
          'f',
        ]);
        expect(await walk(world.client, version, { ...query, delimiter: '/', prefix: 'b/' })).toEqual([
          'b/1',
          'b/2',
          'b/c/',
        ]);
        expect(await walk(world.client, version, { ...query, delimiter: '/', prefix: 'zz' })).toEqual([]);
      }
    },
  );

  test('many keys, some under prefixes, are all there under a delimiter', async () => {
    await using world = await openGateway({ backend });
    const keys = Array.from(
      { length: 60 },
      (_, i) => `${String(i).padStart(2, '0')}${i % 3 === 0 ? '/x' : ''}`,
    );
    await fill(world.client, keys);
    const expected = keys.map((key) => key.replace('/x', '/'));
    for (const size of ['1', '7', '1000']) {
      expect(await walk(world.client, 2, { delimiter: '/', 'max-keys': size })).toEqual(expected);
    }
  });

  test('keys are in the order of their UTF-8 bytes', async () => {
    await using world = await openGateway({ backend });
    const keys = ['\u{10000}', '\uffee', 'z', 'é', 'Z', 'a b', '\u{1f600}x', 'a+b', '\ue000', '\u0001'];
    await fill(world.client, keys);
    const sorted = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const page = await world.client.get('/bucket?list-type=2&encoding-type=url');
    expect(page.all('Key').map(decodeURIComponent)).toEqual(sorted);
    const tokens: string[] = [];
    for (const key of sorted) {
      const rest = await world.client.get('/bucket', {
        query: { 'list-type': '2', 'start-after': key, 'encoding-type': 'url' },
      });
      expect(rest.all('Key').map(decodeURIComponent)).toEqual(sorted.slice(sorted.indexOf(key) + 1));
      tokens.push(key);
    }
  });
});

describe('ListObjects', () => {
  test('returns the fields of each object', async () => {
    await using world = await openGateway();
    await fill(world.client, ['key']);
    const page = await world.client.get('/bucket');
    expect(page.one('Name')).toBe('bucket');
    expect([page.one('Key'), page.one('Size'), page.one('StorageClass')]).toEqual(['key', '3', 'STANDARD']);
    expect(page.one('ETag')).toMatch(/^"[0-9a-f]{32}"$/);
    expect(page.one('LastModified')).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect([page.one('ID'), page.one('DisplayName')]).toEqual(['alice-account', 'alice']);
    expect([page.one('Marker'), page.one('MaxKeys')]).toEqual(['', '1000']);
  });

  test('resumes after a marker that need not exist, and after a common prefix', async () => {
    await using world = await openGateway();
    await fill(world.client, tree);
    expect((await world.client.get('/bucket?marker=b/1x')).all('Key')).toEqual([
      'b/2',
      'b/c/3',
      'd',
      'e/4',
      'f',
    ]);
    const page = await world.client.get('/bucket?marker=b/&delimiter=/');
    expect([page.all('Key'), prefixes(page)]).toEqual([['d', 'f'], ['e/']]);
  });
});

describe('ListObjectsV2', () => {
  test('returns KeyCount, echoes the parameters, and returns owners on request', async () => {
    await using world = await openGateway();
    await fill(world.client, tree);
    const page = await world.client.get('/bucket?list-type=2&delimiter=/&start-after=a&max-keys=2');
    expect([
      page.one('KeyCount'),
      page.one('MaxKeys'),
      page.one('StartAfter'),
      page.one('Delimiter'),
    ]).toEqual(['2', '2', 'a', '/']);
    expect([page.all('Key'), prefixes(page)]).toEqual([['d'], ['b/']]);
    expect(page.one('Owner')).toBeUndefined();
    expect((await world.client.get('/bucket?list-type=2&fetch-owner=true')).one('ID')).toBe('alice-account');
    expect((await world.client.get('/bucket?list-type=2&fetch-owner=false')).one('ID')).toBeUndefined();
  });

  test('accepts an opaque token, and a literal marker of older clients', async () => {
    await using world = await openGateway();
    await fill(world.client, tree);
    const first = await world.client.get('/bucket?list-type=2&max-keys=3');
    const token = first.one('NextContinuationToken') ?? '';
    expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(JSON.parse(Buffer.from(token, 'base64url').toString())).toEqual({ after: 'b/2' });
    const query = { 'list-type': '2', 'continuation-token': token, 'start-after': 'ignored' };
    const second = await world.client.get('/bucket', { query });
    expect(second.all('Key')).toEqual(['b/c/3', 'd', 'e/4', 'f']);
    expect(second.one('ContinuationToken')).toBe(token);
    for (const literal of ['b/c/3', 'b/c/3 not base64 é']) {
      const query = { 'list-type': '2', 'continuation-token': literal };
      expect((await world.client.get('/bucket', { query })).all('Key')).toEqual(['d', 'e/4', 'f']);
    }
    const empty = await world.client.get('/bucket?list-type=2&continuation-token=');
    expect([empty.status, empty.code]).toEqual([400, 'InvalidArgument']);
  });

  test("uses a token of another bucket as a position among this bucket's keys", async () => {
    await using world = await openGateway();
    await fill(world.client, tree);
    await world.client.put('/other');
    for (const key of ['a', 'c', 'z']) await world.client.put(`/other/${key}`, { body: 'x' });
    const foreign =
      (await world.client.get('/other?list-type=2&max-keys=2')).one('NextContinuationToken') ?? '';
    const page = await world.client.get('/bucket', {
      query: { 'list-type': '2', 'continuation-token': foreign },
    });
    expect(page.all('Key')).toEqual(['d', 'e/4', 'f']);
  });
});

describe('page sizes', () => {
  test('max-keys 0 returns an empty page that is not truncated; more than 1000 returns 1000', async () => {
    await using world = await openGateway();
    await fill(
      world.client,
      Array.from({ length: 1001 }, (_, i) => `k${String(i).padStart(4, '0')}`),
    );
    for (const list of ['', 'list-type=2&', 'versions&', 'uploads&']) {
      const name = list === 'uploads&' ? 'max-uploads' : 'max-keys';
      const none = await world.client.get(`/bucket?${list}${name}=0`);
      expect([none.status, none.one('IsTruncated'), none.all('Key')]).toEqual([200, 'false', []]);
      if (list === 'uploads&') continue;
      for (const size of [1000, 1001, 2147483647]) {
        const page = await world.client.get(`/bucket?${list}${name}=${size}`);
        expect([page.all('Key').length, page.one('IsTruncated'), page.one('MaxKeys')]).toEqual([
          1000,
          'true',
          '1000',
        ]);
      }
      expect((await world.client.get(`/bucket?${list}${name}=999`)).all('Key')).toHaveLength(999);
    }
  });

  test.each(['-1', 'x', '1.5', '2147483648', '99999999999999999999'])('%s is refused', async (size) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    for (const list of ['', 'list-type=2&', 'versions&']) {
      const page = await world.client.get(`/bucket?${list}max-keys=${size}`);
      expect([page.status, page.code]).toEqual([400, 'InvalidArgument']);
    }
    expect((await world.client.get(`/bucket?uploads&max-uploads=${size}`)).code).toBe('InvalidArgument');
  });
});

describe('encoding', () => {
  test('url encodes keys, prefixes, delimiter and markers; anything else is refused', async () => {
    await using world = await openGateway();
    await fill(world.client, ['a b/ü+1', 'a b/x', 'c&<']);
    const query = {
      'encoding-type': 'url',
      delimiter: '/',
      prefix: 'a b',
      'start-after': 'a b',
      'list-type': '2',
    };
    const page = await world.client.get('/bucket', { query });
    expect([page.one('EncodingType'), page.one('StartAfter')]).toEqual(['url', 'a%20b']);
    expect(prefixes(page)).toEqual(['a%20b/']);
    const all = await world.client.get('/bucket?encoding-type=url');
    expect(all.all('Key')).toEqual(['a%20b/x', 'a%20b/%C3%BC%2B1', 'c%26%3C']);
    expect((await world.client.get('/bucket')).all('Key')).toEqual(['a b/x', 'a b/ü+1', 'c&<']);
    for (const encoding of ['gzip', ''])
      expect((await world.client.get(`/bucket?encoding-type=${encoding}`)).code).toBe('InvalidArgument');
  });
});

test('a marker under a common prefix skips all keys of that prefix, in every listing', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const ids = new Map<string, string>();
  for (const key of ['folder/a/1', 'folder/a/2', 'folder/b']) {
    const put = await client.put(`/bucket/${key}`, { body: 'x' });
    ids.set(key, put.header('*-version-id') ?? '');
    await createUpload(client, `/bucket/${key}`);
  }
  const upload = (await client.get('/bucket?uploads')).one('UploadId') ?? '';
  const at = { prefix: 'folder/', delimiter: '/' };
  for (const query of [
    { marker: 'folder/a/1' },
    { 'list-type': '2', 'start-after': 'folder/a/1' },
    { versions: '', 'key-marker': 'folder/a/1' },
    { versions: '', 'key-marker': 'folder/a/1', 'version-id-marker': ids.get('folder/a/1') ?? '' },
    { uploads: '', 'key-marker': 'folder/a/1' },
    { uploads: '', 'key-marker': 'folder/a/1', 'upload-id-marker': upload },
  ]) {
    const page = await client.get('/bucket', { query: { ...at, ...query } });
    expect([page.all('CommonPrefixes'), page.all('Key')], JSON.stringify(query)).toEqual([[], ['folder/b']]);
  }
});
