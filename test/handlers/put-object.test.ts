/** PutObject: metadata, limits, lengths and bodies that end early. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { bytesOf, MiB, md5, setVersioning } from '../support/gateway-bodies.ts';

describe.each(backends)('PutObject on %s', (backend) => {
  test.each([0, 1, 65_536, 4 * MiB, 4 * MiB + 1, 9 * MiB])('%i bytes are read unchanged', async (size) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(size);
    const put = await world.client.put('/bucket/key', { body });
    expect([put.status, put.header('etag')]).toEqual([200, `"${md5(body)}"`]);
    expect(put.header('*-version-id')).toBeUndefined();
    const got = await world.client.get('/bucket/key');
    expect(got.status).toBe(200);
    expect(Buffer.compare(got.bytes, body)).toBe(0);
    expect([got.header('content-length'), got.header('etag')]).toEqual([String(size), `"${md5(body)}"`]);
    expect(await world.usage('bucket')).toEqual({ bytes: size, objects: 1 });
  });

  test('nothing at all can be put, in every framing', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    expect((await world.client.put('/bucket/key')).header('etag')).toBe(`"${md5('')}"`);
    for (const payload of [
      'signed',
      'unsigned',
      'streaming',
      'streaming-trailer',
      'unsigned-trailer',
    ] as const) {
      expect((await world.client.put('/bucket/key', { body: '', payload })).status, payload).toBe(200);
      const got = await world.client.get('/bucket/key?versionId=null');
      expect([got.status, got.bytes.length, got.header('*-version-id')]).toEqual([200, 0, undefined]);
    }
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 1 });
  });

  test('an overwrite leaves the new content alone', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    for (const body of ['first', '', 'third one']) await world.client.put('/bucket/key', { body });
    expect((await world.client.get('/bucket/key')).text).toBe('third one');
    expect(await world.usage('bucket')).toEqual({ bytes: 9, objects: 1 });
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await world.stored()).toHaveLength(1);
  });

  test('system headers and user metadata return as they were sent', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const kept = {
      'content-type': 'text/x; charset=utf-8',
      'cache-control': 'max-age=1',
      'content-disposition': 'attachment; filename="a b.txt"',
      'content-language': 'de',
      expires: 'Thu, 01 Jan 2026 00:00:00 GMT',
      '*-meta-one': 'a value,  with blanks',
      '*-meta-__proto__': 'polluted',
      '*-meta-constructor': 'x',
      '*-meta-empty': '',
      '*-website-redirect-location': '/elsewhere',
    };
    await world.client.put('/bucket/key', { body: 'x', headers: { ...kept, 'content-encoding': 'gzip' } });
    for (const method of ['GET', 'HEAD']) {
      const shown = await world.client.send(method, '/bucket/key');
      for (const [name, value] of Object.entries(kept)) expect(shown.header(name), name).toBe(value);
      expect(shown.header('content-encoding')).toBe('gzip');
    }
    await world.client.put('/bucket/plain', { body: 'x' });
    const plain = await world.client.head('/bucket/plain');
    expect(plain.header('content-type')).toBe('binary/octet-stream');
    expect(plain.header('*-storage-class')).toBeUndefined();
  });

  test.each(['streaming', 'streaming-trailer', 'unsigned-trailer'] as const)(
    'aws-chunked is the framing of %s, not an encoding',
    async (payload) => {
      await using world = await openGateway({ backend });
      await world.client.put('/bucket');
      const body = bytesOf(200_000);
      const headers = { 'content-encoding': 'aws-chunked, gzip' };
      expect((await world.client.put('/bucket/key', { body, payload })).status).toBe(200);
      const bare = await world.client.get('/bucket/key');
      expect([bare.header('content-encoding'), bare.bytes.length]).toEqual([undefined, 200_000]);
      const replace = (all: [string, string][]) =>
        all.filter(([name, value]) => name !== 'content-encoding' || value !== 'aws-chunked');
      void replace;
      const put = await world.client.put('/bucket/zipped', { body, payload: 'unsigned', headers });
      expect(put.status).toBe(200);
      expect((await world.client.head('/bucket/zipped')).header('content-encoding')).toBe('gzip');
      for (const [sent, kept] of [
        ['deflate, gzip', 'deflate, gzip'],
        ['deflate,gzip', 'deflate,gzip'],
        ['GZIP', 'GZIP'],
      ] as const) {
        await world.client.put('/bucket/spelled', { body: 'x', headers: { 'content-encoding': sent } });
        expect((await world.client.head('/bucket/spelled')).header('content-encoding')).toBe(kept);
      }
    },
  );

  test('a body that is torn or damaged leaves no object, and after gc no chunk', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'before' });
    const body = bytesOf(5 * MiB);
    const corrupt = (bytes: Uint8Array): Uint8Array => {
      const copy = bytes.slice();
      copy[4_500_000] = (copy[4_500_000] ?? 0) ^ 1;
      return copy;
    };
    const truncate = (bytes: Uint8Array): Uint8Array => bytes.subarray(0, bytes.length - 100_000);
    for (const payload of ['streaming', 'signed', 'streaming-trailer'] as const) {
      for (const path of ['/bucket/key', '/bucket/new']) {
        const damaged = await world.client.put(path, { body, payload, tamper: { body: corrupt } });
        expect(damaged.status).toBeGreaterThanOrEqual(400);
        const torn = await world.client.put(path, { body, payload, tamper: { body: truncate } });
        expect(torn.status).toBeGreaterThanOrEqual(400);
      }
    }
    expect((await world.client.get('/bucket/key')).text).toBe('before');
    expect((await world.client.head('/bucket/new')).status).toBe(404);
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await world.stored()).toHaveLength(1);
    expect(await world.usage('bucket')).toEqual({ bytes: 6, objects: 1 });
  });

  test('a client that goes away leaves no object, and after gc no chunk', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(6 * MiB);
    const abort = new AbortController();
    const leaving = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes.length; at += 65_536) {
        if (at > 5 * MiB) abort.abort();
        if (abort.signal.aborted) throw new Error('socket hang up');
        yield bytes.subarray(at, at + 65_536);
      }
    };
    const gone = await world.client.put('/bucket/key', {
      body,
      payload: 'unsigned',
      arriving: leaving,
      signal: abort.signal,
    });
    expect(gone.status).toBe(400);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });
});

describe('PutObject', () => {
  test('user metadata has at most 2 KiB, names and values together', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const metadata = (size: number) => ({
      '*-meta-ab': 'x'.repeat(1000),
      '*-meta-cd': 'y'.repeat(size - 1004),
    });
    expect((await world.client.put('/bucket/key', { body: 'x', headers: metadata(2048) })).status).toBe(200);
    const refused = await world.client.put('/bucket/key2', { body: 'x', headers: metadata(2049) });
    expect([refused.status, refused.code]).toEqual([400, 'MetadataTooLarge']);
    expect((await world.client.head('/bucket/key2')).status).toBe(404);
    for (const path of ['/bucket/key?uploads']) {
      expect((await world.client.post(path, { headers: metadata(2049) })).code).toBe('MetadataTooLarge');
    }
  });

  test('all headers that are stored have at most 8 KiB', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    for (const size of [4000, 30_000, 100_000]) {
      const put = await world.client.put('/bucket/key', {
        body: 'x',
        headers: { 'content-disposition': 'x'.repeat(size) },
      });
      expect([put.status, put.code]).toEqual(
        size === 4000 ? [200, ''] : [400, 'RequestHeaderSectionTooLarge'],
      );
    }
  });

  test('the storage class is stored, returned where it is not STANDARD, and must be a known one', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    for (const [given, shown] of [
      ['STANDARD_IA', 'STANDARD_IA'],
      ['archive', 'GLACIER'],
      ['standard-ia', 'STANDARD_IA'],
      ['default', undefined],
      ['STANDARD', undefined],
    ] as const) {
      await world.client.put('/bucket/key', { body: 'x', headers: { '*-storage-class': given } });
      expect((await world.client.head('/bucket/key')).header('*-storage-class')).toBe(shown);
      expect((await world.client.get('/bucket')).one('StorageClass')).toBe(shown ?? 'STANDARD');
    }
    const wrong = await world.client.put('/bucket/key', {
      body: 'x',
      headers: { '*-storage-class': 'FAST' },
    });
    expect([wrong.status, wrong.code]).toEqual([400, 'InvalidStorageClass']);
  });

  test('the tagging header counts its tags, 10 at most, each within its bounds', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const put = (tagging: string) =>
      world.client.put('/bucket/key', { body: 'x', headers: { '*-tagging': tagging } });
    const tags = (count: number) => Array.from({ length: count }, (_, i) => `k${i}=v`).join('&');
    expect((await put(tags(10))).status).toBe(200);
    expect((await world.client.head('/bucket/key')).header('*-tagging-count')).toBe('10');
    expect((await put(tags(11))).code).toBe('BadRequest');
    expect((await put(`${'k'.repeat(128)}=${'v'.repeat(256)}`)).status).toBe(200);
    expect((await put(`${'k'.repeat(129)}=v`)).code).toBe('InvalidTag');
    expect((await put(`k=${'v'.repeat(257)}`)).code).toBe('InvalidTag');
    expect((await put('aws:k=v')).code).toBe('InvalidTag');
    expect((await put('k=v&k=w')).code).toBe('InvalidArgument');
    expect((await put('a%20b=c+d&e')).status).toBe(200);
    for (const malformed of ['k=%ff', 'k%', '=', '=v', 'k=v&k=v'])
      expect((await put(malformed)).code, malformed).toBe('InvalidArgument');
  });

  test('needs a length, and refuses what is longer than 5 GiB before a byte is read', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const without = (all: [string, string][]) => all.filter(([name]) => name !== 'content-length');
    const unknown = await world.client.put('/bucket/key', {
      body: 'x',
      payload: 'unsigned',
      tamper: { headers: without },
    });
    expect([unknown.status, unknown.code]).toEqual([411, 'MissingContentLength']);
    const never = async function* (): AsyncGenerator<Uint8Array> {
      yield* [];
      throw new Error('read');
    };
    for (const [length, code] of [
      [5 * 1024 ** 3 + 1, 'EntityTooLarge'],
      ['-1', 'InvalidArgument'],
      ['1e3', 'InvalidArgument'],
    ] as const) {
      const huge = await world.client.put('/bucket/key', {
        body: 'x',
        payload: 'unsigned',
        unsignedHeaders: { 'content-length': String(length) },
        arriving: never,
      });
      expect([huge.status, huge.code]).toEqual([400, code]);
    }
    for (const told of ['3', '5']) {
      const lying = await world.client.put('/bucket/key', {
        body: 'four',
        payload: 'unsigned',
        unsignedHeaders: { 'content-length': told },
      });
      expect([lying.status, lying.code]).toEqual([400, 'IncompleteBody']);
    }
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });

  test('without Content-Length and Transfer-Encoding stores an empty object', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const put = await world.client.put('/bucket/key', {
      tamper: { headers: (all) => all.filter(([name]) => name !== 'content-length') },
    });
    expect(put.status, put.text).toBe(200);
    const got = await world.client.get('/bucket/key');
    expect([got.status, got.header('content-length'), got.text]).toEqual([200, '0', '']);
  });

  test('what is not built is refused, never ignored', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    for (const name of ['object-lock-event-hold', 'write-offset-bytes']) {
      const refused = await world.client.put('/bucket/key', { body: 'x', headers: { [`*-${name}`]: 'x' } });
      expect([refused.status, refused.code]).toEqual([501, 'NotImplemented']);
    }
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });

  test('a redirect leads to a path or a web address, and nowhere else', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const put = (to: string) =>
      world.client.put('/bucket/key', { body: 'x', headers: { '*-website-redirect-location': to } });
    for (const to of ['/', '/a b', 'http://a/', 'https://a', `/${'x'.repeat(2047)}`]) {
      expect((await put(to)).status).toBe(200);
      expect((await world.client.head('/bucket/key')).header('*-website-redirect-location')).toBe(to);
    }
    for (const to of ['', 'a', 'javascript:alert(1)', 'ftp://a', 'http:/a', `/${'x'.repeat(2048)}`]) {
      const refused = await put(to);
      expect([refused.status, refused.code], to).toEqual([400, 'InvalidRedirectLocation']);
    }
  });

  test('in a versioned bucket shows the version that it made', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const [one, two] = [
      await world.client.put('/bucket/key', { body: '1' }),
      await world.client.put('/bucket/key', { body: '2' }),
    ];
    expect(one.header('*-version-id')).toMatch(/^[0-9a-f]{32}$/);
    expect((two.header('*-version-id') ?? '') > (one.header('*-version-id') ?? '')).toBe(true);
    expect((await world.client.head('/bucket/key')).header('*-version-id')).toBe(two.header('*-version-id'));
  });
});
