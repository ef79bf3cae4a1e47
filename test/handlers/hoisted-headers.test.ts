/** Headers that a presigner moved into the query: they have their effect, and values that no reply header could carry are refused. */
import { describe, expect, it } from 'vitest';
import { openGateway } from '../support/gateway.ts';

const put = { body: 'content', payload: 'unsigned' } as const;

describe('a presigned PUT', () => {
  it('stores metadata, class and tags from its query', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const query = { 'X-Amz-Meta-Title': 'x', 'x-amz-storage-class': 'STANDARD_IA', 'x-amz-tagging': 'a=b' };
    expect((await world.client.presigned('PUT', '/bucket/key', { ...put, query })).status).toBe(200);
    const found = await world.client.head('/bucket/key');
    expect([
      found.header('*-meta-title'),
      found.header('*-storage-class'),
      found.header('*-tagging-count'),
    ]).toEqual(['x', 'STANDARD_IA', '1']);
  });

  it('keeps text beyond ASCII as a header would have carried it', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const query = { 'X-Amz-Meta-title': '日本' };
    expect((await world.client.presigned('PUT', '/bucket/key', { ...put, query })).status).toBe(200);
    const title = (await world.client.get('/bucket/key')).header('*-meta-title') ?? '';
    const word = /^=\?UTF-8\?B\?(.*)\?=$/.exec(title)?.[1] ?? '';
    expect(Buffer.from(word, 'base64').toString('utf8')).toBe('日本');
    expect((await world.as({ fetch: true }).get('/bucket/key')).status).toBe(200);
  });

  it.each([
    ['a line break in a value', 'x-amz-meta-a', 'a\r\nSet-Cookie: x=1'],
    ['a blank in a name', 'x-amz-meta-a b', 'x'],
    ['a colon in a name', 'x-amz-meta-a:b', 'x'],
    ['a NUL', 'x-amz-website-redirect-location', '/a\0'],
  ])('is refused for %s', async (_what, name, value) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const answer = await world.client.presigned('PUT', '/bucket/key', { ...put, query: { [name]: value } });
    expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });

  it('shows a checksum when its query asks for it', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'hello', headers: { '*-checksum-crc32': 'NhCmhg==' } });
    const shown = await world.client.presigned('GET', '/bucket/key', {
      query: { 'x-amz-checksum-mode': 'ENABLED' },
    });
    expect(shown.header('*-checksum-crc32')).toBe('NhCmhg==');
  });
});

describe('what is not built', () => {
  it('is refused in UploadPartCopy as everywhere', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'hello' });
    const uploadId = (await world.client.post('/bucket/copy?uploads')).one('UploadId');
    const headers = {
      '*-copy-source': '/bucket/key',
      '*-write-offset-bytes': '0',
    };
    const answer = await world.client.put(`/bucket/copy?uploadId=${uploadId}&partNumber=1`, { headers });
    expect(answer.code).toBe('NotImplemented');
  });
});

describe('copies', () => {
  it('take a plus in the source for a space, as the public service does', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/a%20b', { body: 'spaced' });
    await world.client.put('/bucket/a%2Bb', { body: 'plus' });
    await world.client.put('/bucket/one', { headers: { '*-copy-source': '/bucket/a+b' } });
    await world.client.put('/bucket/two', { headers: { '*-copy-source': '/bucket/a%2Bb' } });
    expect([
      (await world.client.get('/bucket/one')).text,
      (await world.client.get('/bucket/two')).text,
    ]).toEqual(['spaced', 'plus']);
  });

  it('onto themselves are refused when the tagging directive copies', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    const headers = { '*-copy-source': '/bucket/key', '*-tagging-directive': 'COPY' };
    expect((await world.client.put('/bucket/key', { headers })).code).toBe('InvalidRequest');
  });
});

it('a 304 has the freshness headers of a 200', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const stored = await world.client.put('/bucket/key', {
    body: 'x',
    headers: { 'cache-control': 'max-age=60' },
  });
  const answer = await world.client.get('/bucket/key', {
    headers: { 'if-none-match': stored.header('etag') ?? '' },
  });
  expect([answer.status, answer.header('cache-control'), answer.header('content-type')]).toEqual([
    304,
    'max-age=60',
    undefined,
  ]);
});
