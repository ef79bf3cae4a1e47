/** The neutral dialect from end to end, with a client written from the specification alone. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodePath, type NeutralAnswer, NeutralClient, type NeutralRequest } from './neutral-client.ts';
import {
  keyCount,
  largeBytes,
  mib,
  region,
  type SampleFile,
  sha,
  startWorld,
  type World,
  wideKey,
  wideKeys,
} from './world.ts';

const bucket = '/neutral-bucket';
const partBytes = 8 * mib;
const chunkBytes = 64 * 1024;
let world: World;
let client: NeutralClient;
let large: SampleFile;

beforeAll(async () => {
  world = await startWorld(() => ({}));
  client = new NeutralClient({ url: world.url, region, ...world.user });
  large = world.file('large.bin', largeBytes);
  await ok('PUT', { path: bucket, headers: { 'x-store-acl': 'private' } });
});
afterAll(async () => {
  client?.close();
  await world?.stop();
});

async function ok(method: string, asked: NeutralRequest): Promise<NeutralAnswer> {
  const answer = await client.send(method, asked);
  if (answer.status >= 300) throw new Error(`${method} ${asked.path}: ${answer.status} ${answer.text}`);
  return answer;
}
const key = (name: string): string => `${bucket}/${name}`;
/** Processes the items with at most `lanes` of them running concurrently. */
async function inLanes<T>(items: Iterable<T>, lanes: number, act: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) await act(next.value);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** All keys under a prefix, page by page. */
async function listed(prefix: string, pageSize = 1_000): Promise<string[]> {
  const keys: string[] = [];
  let token: string | undefined;
  do {
    const query = { 'list-type': '2', prefix, 'max-keys': String(pageSize) };
    const page = await ok('GET', {
      path: bucket,
      query: token === undefined ? query : { ...query, 'continuation-token': token },
    });
    keys.push(...page.all('Key'));
    [token] = page.all('NextContinuationToken');
  } while (token !== undefined);
  return keys;
}

test('a bucket that was made is there and is listed, in the words of the dialect', async () => {
  const head = await ok('HEAD', { path: bucket });
  expect(head.headers).toHaveProperty('x-store-bucket-region');
  expect(head.headers).toHaveProperty('x-store-request-id');
  expect(Object.keys(head.headers).filter((name) => name.startsWith('x-amz-'))).toEqual([]);
  expect((await ok('GET', { path: '/' })).all('Name')).toEqual([bucket.slice(1)]);
});

test('a small object keeps its bytes, metadata and checksum', async () => {
  const checksum = 'LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=';
  const headers = {
    'content-type': 'text/plain',
    'x-store-meta-colour': 'blue',
    'x-store-checksum-sha256': checksum,
  };
  const put = await ok('PUT', { path: key('small é+.txt'), body: 'hello', headers });
  expect(put.headers['etag']).toBe('"5d41402abc4b2a76b9719d911017c592"');
  const got = await ok('GET', {
    path: key('small é+.txt'),
    headers: { 'x-store-checksum-mode': 'ENABLED' },
  });
  expect(got.text).toBe('hello');
  expect(got.headers).toMatchObject(headers);
});

test('a body in signed chunks is stored without them', async () => {
  const body = large.bytes.subarray(0, 3 * mib + 17);
  await ok('PUT', { path: key('chunked'), body, chunkBytes });
  const got = await ok('GET', { path: key('chunked') });
  expect(sha(got.bytes)).toBe(sha(body));
  expect(got.headers['content-encoding']).toBeUndefined();
});

test('100 MiB are uploaded in 13 parts of signed chunks and downloaded unchanged', async () => {
  const path = key('large.bin');
  const [uploadId = ''] = (await ok('POST', { path, query: { uploads: '' } })).all('UploadId');
  const etags: string[] = [];
  await inLanes(
    Array.from({ length: Math.ceil(largeBytes / partBytes) }, (_, i) => i),
    4,
    async (index) => {
      const body = large.bytes.subarray(index * partBytes, (index + 1) * partBytes);
      const query = { partNumber: String(index + 1), uploadId };
      etags[index] = (await ok('PUT', { path, query, body, chunkBytes })).headers['etag'] ?? '';
    },
  );
  const parts = etags.map((etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
  const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
  const done = await ok('POST', { path, query: { uploadId }, body });
  expect(done.all('ETag')[0]).toMatch(/-13"$/);
  const got = await ok('GET', { path });
  expect(got.bytes.length).toBe(largeBytes);
  expect(sha(got.bytes)).toBe(large.sha);
});

test('2,500 keys are listed in order, each once, in pages of any size', async () => {
  await inLanes(wideKeys(), 16, async (name) => {
    await ok('PUT', { path: key(name), body: name });
  });
  expect(await listed('wide/')).toEqual(wideKeys());
  expect(await listed('wide/', 333)).toEqual(wideKeys());
});

test('a range brings its bytes alone', async () => {
  const range = `bytes=${5 * mib}-${5 * mib + 9}`;
  const got = await ok('GET', { path: key('large.bin'), headers: { range } });
  expect(got.status).toBe(206);
  expect(got.bytes).toEqual(large.bytes.subarray(5 * mib, 5 * mib + 10));
});

test('a presigned URL puts, another gets, and a bent one does neither', async () => {
  const path = key('presigned é+.bin');
  const put = await fetch(client.presign('PUT', path, 60), { method: 'PUT', body: 'by url' });
  expect(put.status).toBe(200);
  const get = client.presign('GET', path, 60);
  expect(await (await fetch(get)).text()).toBe('by url');
  const bent = await fetch(get.replace('X-Store-Expires=60', 'X-Store-Expires=61'));
  expect(bent.status).toBe(403);
  expect(await bent.text()).toContain('<Code>SignatureDoesNotMatch</Code>');
});

test('a copy keeps the metadata, or takes new', async () => {
  const source = { 'x-store-copy-source': encodePath(key('small é+.txt')) };
  await ok('PUT', { path: key('copy'), headers: source });
  expect((await ok('HEAD', { path: key('copy') })).headers).toMatchObject({
    'content-length': '5',
    'x-store-meta-colour': 'blue',
  });
  const replaced = { 'x-store-metadata-directive': 'REPLACE', 'x-store-meta-colour': 'red' };
  await ok('PUT', { path: key('copy'), headers: { ...source, ...replaced } });
  const head = await ok('HEAD', { path: key('copy') });
  expect(head.headers['x-store-meta-colour']).toBe('red');
});

test('a condition that fails changes nothing', async () => {
  const again = await client.send('PUT', {
    path: key('copy'),
    body: 'other',
    headers: { 'if-none-match': '*' },
  });
  expect([again.status, again.all('Code')]).toEqual([412, ['PreconditionFailed']]);
  expect((await ok('GET', { path: key('copy') })).text).toBe('hello');
});

test('versions are returned in the header of the dialect', async () => {
  const path = '/neutral-versions';
  await ok('PUT', { path });
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await ok('PUT', { path, query: { versioning: '' }, body });
  const put = await ok('PUT', { path: `${path}/key`, body: 'one' });
  const versionId = String(put.headers['x-store-version-id']);
  const marker = await ok('DELETE', { path: `${path}/key` });
  expect(marker.headers['x-store-delete-marker']).toBe('true');
  const markerId = String(marker.headers['x-store-version-id']);
  const list = await ok('GET', { path, query: { versions: '' } });
  expect(list.all('VersionId')).toEqual([markerId, versionId]);
  expect((await ok('GET', { path: `${path}/key`, query: { versionId } })).text).toBe('one');
  for (const id of [versionId, markerId])
    await ok('DELETE', { path: `${path}/key`, query: { versionId: id } });
  await ok('DELETE', { path });
});

test('DeleteObjects removes a thousand keys at a time, and DeleteBucket the empty bucket', async () => {
  const full = await client.send('DELETE', { path: bucket });
  expect([full.status, full.all('Code')]).toEqual([409, ['BucketNotEmpty']]);
  for (let keys = await listed(''); keys.length > 0; keys = keys.slice(1_000)) {
    const objects = keys
      .slice(0, 1_000)
      .map((name) => `<Object><Key>${name.replace(/&/g, '&amp;')}</Key></Object>`);
    const body = `<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`;
    expect((await ok('POST', { path: bucket, query: { delete: '' }, body })).all('Code')).toEqual([]);
  }
  expect(await client.send('GET', { path: key(wideKey(keyCount - 1)) })).toMatchObject({ status: 404 });
  await ok('DELETE', { path: bucket });
  expect((await ok('GET', { path: '/' })).all('Name')).toEqual([]);
});
