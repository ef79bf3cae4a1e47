/** GetObject and HeadObject: ranges, parts of simple objects, overrides. */
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { bytesOf, MiB } from '../support/gateway-bodies.ts';

describe.each(backends)('ranges on %s', (backend) => {
  test.each([
    ['bytes=0-0', 0, 0],
    ['bytes=2-5', 2, 5],
    ['bytes=5-', 5, 9],
    ['bytes=-3', 7, 9],
    ['bytes=-10', 0, 9],
    ['bytes=-11', 0, 9],
    ['bytes=9-100', 9, 9],
    ['BYTES=1-1', 1, 1],
    ['bytes=0-99999999999999999999', 0, 9],
  ])('%s of ten bytes is %i to %i', async (range, start, end) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: '0123456789' });
    for (const method of ['GET', 'HEAD']) {
      const part = await world.client.send(method, '/bucket/key', { headers: { range } });
      expect(part.status).toBe(206);
      expect(part.header('content-range')).toBe(`bytes ${start}-${end}/10`);
      expect(part.header('content-length')).toBe(String(end - start + 1));
      expect(part.text).toBe(method === 'HEAD' ? '' : '0123456789'.slice(start, end + 1));
    }
  });

  test.each(['bytes=10-', 'bytes=10-12', 'bytes=-0', 'bytes=99999999999999999999-'])(
    '%s of ten bytes is not satisfiable',
    async (range) => {
      await using world = await openGateway({ backend });
      await world.client.put('/bucket');
      await world.client.put('/bucket/key', { body: '0123456789' });
      const refused = await world.client.get('/bucket/key', { headers: { range } });
      expect([refused.status, refused.code, refused.header('content-range')]).toEqual([
        416,
        'InvalidRange',
        'bytes */10',
      ]);
      expect([refused.one('RangeRequested'), refused.one('ActualObjectSize')]).toEqual([range, '10']);
      const head = await world.client.head('/bucket/key', { headers: { range } });
      expect([head.status, head.bytes.length, head.header('content-range')]).toEqual([416, 0, 'bytes */10']);
    },
  );

  test.each([
    'bytes=5-2',
    'bytes=-',
    'bytes=a-b',
    'bytes=0-1,3-4',
    'lines=0-1',
    'bytes',
    '',
    'bytes=1',
    'bytes=--1',
    'bytes=0x0-0x1',
    'bytes= -1',
    'bytes=0 -1',
    'bytes=0- 1',
  ])('%s is ignored', async (range) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: '0123456789' });
    const whole = await world.client.get('/bucket/key', { headers: { range } });
    expect([whole.status, whole.text, whole.header('content-range')]).toEqual([200, '0123456789', undefined]);
  });

  test('of an empty object only a suffix is satisfiable, which is all of it', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: '' });
    for (const range of ['bytes=0-', 'bytes=0-0', 'bytes=-0']) {
      expect((await world.client.get('/bucket/key', { headers: { range } })).status).toBe(416);
    }
    for (const method of ['GET', 'HEAD']) {
      const suffix = await world.client.send(method, '/bucket/key', { headers: { range: 'bytes=-8' } });
      expect([suffix.status, suffix.header('content-length'), suffix.header('content-range')]).toEqual([
        200,
        '0',
        undefined,
      ]);
    }
    const whole = await world.client.get('/bucket/key');
    expect([whole.status, whole.header('content-length')]).toEqual([200, '0']);
    expect((await world.client.get('/bucket/key?partNumber=1')).status).toBe(200);
  });

  test('a range crosses chunks and blocks without losing a byte', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(9 * MiB + 7);
    await world.client.put('/bucket/key', { body });
    for (const [start, end] of [
      [4 * MiB - 1, 4 * MiB],
      [65_535, 65_536],
      [0, 9 * MiB + 6],
      [8 * MiB, 9 * MiB + 6],
      [9 * MiB + 6, 9 * MiB + 6],
      [100, 8 * MiB + 100],
    ] as const) {
      const part = await world.client.get('/bucket/key', { headers: { range: `bytes=${start}-${end}` } });
      expect(Buffer.compare(part.bytes, body.subarray(start, end + 1))).toBe(0);
    }
  });

  test('If-Range lets a range count only while the object is the same', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const etag = (await world.client.put('/bucket/key', { body: '0123456789' })).header('etag') ?? '';
    const modified = (await world.client.head('/bucket/key')).header('last-modified') ?? '';
    const earlier = new Date(Date.parse(modified) - 1000).toUTCString();
    const later = new Date(Date.parse(modified) + 1000).toUTCString();
    for (const [condition, status] of [
      [etag, 206],
      ['"other"', 200],
      [modified, 206],
      [earlier, 200],
      [later, 200],
      ['deadbeef 2100', 200],
      [`W/${etag}`, 200],
    ] as const) {
      const got = await world.client.get('/bucket/key', {
        headers: { range: 'bytes=0-1', 'if-range': condition },
      });
      expect(got.status, condition).toBe(status);
    }
  });
});

describe('partNumber of a simple object', () => {
  test('1 is the whole; another is InvalidPart 400, no part number InvalidArgument', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: '0123456789' });
    const whole = await world.client.get('/bucket/key?partNumber=1');
    expect([whole.status, whole.text, whole.header('*-mp-parts-count')]).toEqual([
      206,
      '0123456789',
      undefined,
    ]);
    for (const number of ['2', '10000']) {
      const refused = await world.client.get(`/bucket/key?partNumber=${number}`);
      expect([refused.status, refused.code]).toEqual([400, 'InvalidPart']);
      expect([refused.one('ActualPartCount'), refused.one('PartNumberRequested')]).toEqual(['1', number]);
      expect((await world.client.head(`/bucket/key?partNumber=${number}`)).status).toBe(400);
    }
    for (const number of ['0', '10001', '99999999', 'x', '-1', '1.5', '']) {
      expect((await world.client.get(`/bucket/key?partNumber=${number}`)).code).toBe('InvalidArgument');
    }
    const both = await world.client.get('/bucket/key?partNumber=1', { headers: { range: 'bytes=0-1' } });
    expect([both.status, both.code]).toEqual([400, 'InvalidRequest']);
  });
});

describe('Content-Encoding', () => {
  const content = 'a,b\n1,2\n';
  test.each([
    ['gzip', gzipSync(content)],
    ['br', brotliCompressSync(content)],
  ])('of %s is passed on with the stored bytes, whole and in ranges', async (encoding, body) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body, headers: { 'content-encoding': encoding } });
    await world.client.put('/bucket/plain', { body });
    const query = { 'response-content-encoding': encoding };
    for (const got of [
      await world.client.get('/bucket/key'),
      await world.client.get('/bucket/plain', { query }),
    ]) {
      expect(got.header('content-encoding')).toBe(encoding);
      expect(Buffer.from(got.bytes).equals(body)).toBe(true);
      expect(got.header('content-length')).toBe(String(body.length));
    }
    const part = await world.client.get('/bucket/key', { headers: { range: 'bytes=2-9' } });
    expect([part.status, part.header('content-range')]).toEqual([206, `bytes 2-9/${body.length}`]);
    expect(Buffer.from(part.bytes).equals(body.subarray(2, 10))).toBe(true);
    expect(part.header('content-length')).toBe('8');
  });
});

describe('response overrides', () => {
  const query = {
    'response-content-type': 'text/x',
    'response-content-language': 'fr',
    'response-expires': 'never',
    'response-cache-control': 'no-store',
    'response-content-disposition': 'attachment; filename="a.txt"',
    'response-content-encoding': 'br',
  };

  test('replace headers of a signed GET and HEAD, also of a presigned one', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x', headers: { 'content-type': 'a/b' } });
    const replies = [
      await world.client.get('/bucket/key', { query }),
      await world.client.head('/bucket/key', { query }),
      await world.client.presigned('GET', '/bucket/key', { query }),
    ];
    for (const got of replies) {
      expect(got.status).toBe(200);
      for (const [name, value] of Object.entries(query))
        expect(got.header(name.slice('response-'.length))).toBe(value);
    }
    expect((await world.client.get('/bucket/key')).header('content-type')).toBe('a/b');
  });

  test('are refused to anonymous callers, and where they would break the header', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    expect((await world.anonymous.get('/bucket/key', { query })).status).toBe(403);
    for (const value of ['a\r\nset-cookie: b', 'a\nb', 'a\0b', 'a\u007fb']) {
      const got = await world.client.get('/bucket/key', { query: { 'response-content-type': value } });
      expect([got.status, got.code]).toEqual([400, 'InvalidArgument']);
    }
  });
});

describe('an object that is not there', () => {
  test('is reported by GET with code and key, by HEAD with the status', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const got = await world.client.get('/bucket/a%20b');
    expect([got.status, got.code, got.one('Key'), got.one('Resource')]).toEqual([
      404,
      'NoSuchKey',
      'a b',
      '/bucket/a%20b',
    ]);
    const head = await world.client.head('/bucket/a%20b');
    expect([head.status, head.bytes.length]).toEqual([404, 0]);
  });
});
