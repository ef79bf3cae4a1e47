/** Names that no store can hold: refused with the public code, never a 500. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { createUpload, deletion } from '../support/gateway-bodies.ts';
import { encodePath } from '../support/sign.ts';

const long = 'k'.repeat(5000);

describe.each(backends)('on %s', (backend) => {
  test('a key has 1 to 1024 bytes of UTF-8', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    for (const key of ['k'.repeat(1024), 'é'.repeat(512), '\u{1f600}'.repeat(256), '\u0001'.repeat(1024)]) {
      const path = `/bucket/${encodePath(key)}`;
      expect((await world.client.put(path, { body: 'x' })).status).toBe(200);
      expect((await world.client.get(path)).text).toBe('x');
      const uploadId = await createUpload(world.client, path);
      expect((await world.client.get(path, { query: { uploadId } })).status).toBe(200);
      expect((await world.client.delete(path)).status).toBe(204);
    }
    for (const key of ['k'.repeat(1025), `${'é'.repeat(512)}x`, `${'\u{1f600}'.repeat(256)}x`, long]) {
      const path = `/bucket/${encodePath(key)}`;
      for (const method of ['PUT', 'GET', 'DELETE']) {
        const refused = await world.client.send(method, path, method === 'PUT' ? { body: 'x' } : {});
        expect([refused.status, refused.code]).toEqual([400, 'KeyTooLongError']);
      }
      expect((await world.client.head(path)).status).toBe(400);
      expect((await world.client.post(`${path}?uploads`)).code).toBe('KeyTooLongError');
    }
  });

  test.each([
    ['/bucket/a%00b', 'InvalidArgument'],
    ['/bucket/a%ffb', 'InvalidURI'],
    ['/bucket/a%zzb', 'InvalidURI'],
    ['/bucket/a%', 'InvalidURI'],
    ['/bucket/%ed%a0%80', 'InvalidURI'],
    ['/bu%ffcket/key', 'InvalidURI'],
    ['//key', 'InvalidURI'],
    ['/bucket?prefix=%ff', 'InvalidURI'],
  ])('%s is %s', async (path, code) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    // The query is part of the path, so that the signer does not encode it.
    const refused = await world.anonymous.send('GET', path);
    const [bare = '', query] = path.split('?');
    const signed =
      query === undefined
        ? await world.client.put(bare, { body: 'x' })
        : await world.client.get(bare, { tamper: { target: () => path } });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect([signed.status, signed.code]).toEqual([400, code]);
  });

  test.each([`/${long}`, '/nul%00nul', `/${long}/key`, '/nul%00nul/key', '/UPPER', '/a'])(
    'there is no bucket %#',
    async (path) => {
      await using world = await openGateway({ backend });
      const [get, head] = [await world.client.get(path), await world.client.head(path)];
      expect([get.status, get.code, head.status]).toEqual([404, 'NoSuchBucket', 404]);
    },
  );

  test.each([
    ['prefix', ''],
    ['marker', ''],
    ['start-after', 'list-type=2'],
    ['continuation-token', 'list-type=2'],
    ['delimiter', ''],
    ['prefix', 'versions'],
    ['key-marker', 'versions'],
    ['key-marker', 'uploads'],
    ['prefix', 'uploads'],
  ])(
    'a %s with NUL or without measure is refused or matches nothing it should not (%s)',
    async (name, list) => {
      await using world = await openGateway({ backend });
      await world.client.put('/bucket');
      for (const key of ['a', 'z']) {
        await world.client.put(`/bucket/${key}`, { body: 'x' });
        await createUpload(world.client, `/bucket/${key}`);
      }
      for (const value of ['a\0b', long, `a${'\u{10ffff}'.repeat(300)}`, '\u{10ffff}', '\ud7ff', '\uffff']) {
        const page = await world.client.get(`/bucket?${list}`, { query: { [name]: value } });
        expect([200, 400], `${value.slice(0, 10)}: ${page.text}`).toContain(page.status);
        if (page.status === 400) expect(['InvalidArgument', 'KeyTooLongError']).toContain(page.code);
      }
    },
  );

  test.each(['uploadId', 'upload-id-marker', 'versionId', 'version-id-marker'])(
    'a %s that was never issued is refused',
    async (name) => {
      await using world = await openGateway({ backend });
      await world.client.put('/bucket');
      await world.client.put('/bucket/key', { body: 'x' });
      await createUpload(world.client, '/bucket/key');
      for (const value of ['', 'x', 'a\0b', long, '../../etc', 'f'.repeat(32), 'F'.repeat(32)]) {
        const query = { [name]: value };
        const replies =
          name === 'uploadId'
            ? [
                await world.client.get('/bucket/key', { query }),
                await world.client.delete('/bucket/key', { query }),
                await world.client.put('/bucket/key', { query: { ...query, partNumber: '1' }, body: 'x' }),
              ]
            : name === 'versionId'
              ? [await world.client.get('/bucket/key', { query })]
              : [
                  await world.client.get(
                    `/bucket?${name.startsWith('u') ? 'uploads' : 'versions'}&key-marker=key`,
                    { query },
                  ),
                ];
        for (const reply of replies) {
          expect([200, 400, 404], reply.text).toContain(reply.status);
          if (name === 'uploadId') expect(reply.code).toBe('NoSuchUpload');
        }
      }
    },
  );

  test('a copy source and the keys of a DeleteObjects are held to the same rules', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    for (const source of [
      '',
      '/',
      'bucket',
      '/bucket/',
      'bucket/a%00b',
      `bucket/${long}`,
      `${long}/k`,
      'n%00/k',
      'bucket/%ff',
      'bucket/k?versionId=%00',
      '?versionId=x',
    ]) {
      const copy = await world.client.put('/bucket/copy', { headers: { '*-copy-source': source } });
      expect([400, 404], `${source.slice(0, 20)}: ${copy.text}`).toContain(copy.status);
    }
    const body = deletion([long, '', 'fine', '<Key>k</Key><VersionId>nonsense</VersionId>']);
    const deleted = await world.client.post('/bucket?delete', { body });
    expect(deleted.status).toBe(200);
    expect(deleted.all('Code')).toEqual(['KeyTooLongError', 'InvalidArgument', 'NoSuchVersion']);
    expect(deleted.all('Deleted')).toEqual(['fine']);
  });

  test('dots, slashes and odd characters are parts of keys', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const keys = [
      '.',
      '..',
      '../x',
      'a//b',
      '/a',
      'a/',
      './a/../b',
      'a b',
      'a+b',
      'é',
      'e\u0301',
      '%',
      '%2F',
      '?',
      '#',
      '&=',
      '\\',
      '\t\n',
      'a\'b"c<d>',
      '\u0001',
      'admin/x',
      '~',
      '~1',
      '\uffff',
    ];
    for (const key of keys) {
      const put = await world.client.put(`/bucket/${encodePath(key)}`, { body: key });
      expect(put.status, key).toBe(200);
    }
    for (const key of keys) expect((await world.client.get(`/bucket/${encodePath(key)}`)).text).toBe(key);
    const listed = await world.client.get('/bucket?encoding-type=url');
    expect(listed.all('Key').map(decodeURIComponent).sort()).toEqual(keys.toSorted());
    expect((await world.client.get('/bucket')).status).toBe(200);
  });
});
