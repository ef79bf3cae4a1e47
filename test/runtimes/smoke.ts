/** A dozen requests that run on every runtime. */
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodePath } from '../support/sign.ts';
import { type Endpoint, type Send, sender } from './client.ts';

export interface Started extends Endpoint {
  stop(): Promise<unknown>;
  /** The server's log, for the message of a failure. */
  log?(): string;
}

export interface Runtime {
  readonly name: string;
  readonly start: () => Promise<Started>;
  /** The reason why a key with a dot segment cannot be addressed on this runtime. */
  readonly normalisesTargets?: string;
  /** The reason why this runtime has no metrics. */
  readonly noMetrics?: string;
}

const md5 = (bytes: Uint8Array): string => `"${createHash('md5').update(bytes).digest('hex')}"`;

export function smoke({ name, start, normalisesTargets, noMetrics }: Runtime): void {
  describe(name, () => {
    let server: Started;
    let send: Send;
    beforeAll(async () => {
      server = await start();
      send = sender(server);
      expect((await send('PUT', '/smoke')).status).toBe(200);
    });
    afterAll(async () => {
      await server?.stop();
    });

    test('is healthy', async () => {
      expect((await send('GET', '/healthz')).status).toBe(200);
    });

    test.each([0, 1, 5 * 1024 * 1024])('keeps and returns an object of %d bytes', async (size) => {
      const body = randomBytes(size);
      const put = await send('PUT', `/smoke/size-${size}`, { body, headers: { '*-meta-colour': 'green' } });
      expect([put.status, put.headers.etag]).toEqual([200, md5(body)]);
      const get = await send('GET', `/smoke/size-${size}`);
      expect(get.status).toBe(200);
      expect(get.bytes.equals(body)).toBe(true);
      expect(get.headers).toMatchObject({ 'content-length': String(size), 'x-amz-meta-colour': 'green' });
      const head = await send('HEAD', `/smoke/size-${size}`);
      expect([head.status, head.headers['content-length'], head.headers.etag]).toEqual([
        200,
        String(size),
        md5(body),
      ]);
    });

    test('keeps the trace of a refused request', async () => {
      const missing = await send('GET', '/smoke/none');
      expect(missing.status).toBe(404);
      const id = String(missing.headers['x-amz-request-id']);
      const reply = await send('GET', '/admin/v1/traces?operation=GetObject&status=404');
      expect(reply.status).toBe(200);
      const { traces } = JSON.parse(reply.text) as { traces: readonly { readonly requestId: string }[] };
      expect(traces.find(({ requestId }) => requestId === id)).toMatchObject({
        kept: 'refused',
        bucket: 'smoke',
        key: 'none',
        code: 'NoSuchKey',
      });
      const shown = await send('GET', `/admin/v1/traces/${id}`);
      expect(shown.text).toContain('metadata.get');
    });

    const title = `shows how late its event loop is${noMetrics === undefined ? '' : ` (not here: ${noMetrics})`}`;
    test.skipIf(noMetrics !== undefined)(title, async () => {
      const { status, text } = await send('GET', '/metrics');
      expect(status).toBe(200);
      const seconds = Number(/^svc_event_loop_lag_seconds (\S+)$/m.exec(text)?.[1]);
      expect(seconds).toBeGreaterThan(0);
      expect(seconds).toBeLessThan(30);
    });

    test('returns a range', async () => {
      await send('PUT', '/smoke/range', { body: 'hello world' });
      const range = await send('GET', '/smoke/range', { headers: { range: 'bytes=6-' } });
      expect([range.status, range.text, range.headers['content-range']]).toEqual([
        206,
        'world',
        'bytes 6-10/11',
      ]);
    });

    test('takes a body in signed chunks with a trailing checksum, whole or not at all', async () => {
      const body = randomBytes(300_000);
      const crc32c = { '*-checksum-crc32c': 'AAAAAA==' };
      const streamed = { body, chunkSize: 65_536 } as const;
      const put = await send('PUT', '/smoke/chunks', { ...streamed, payload: 'streaming' });
      expect(put.status).toBe(200);
      expect((await send('GET', '/smoke/chunks')).bytes.equals(body)).toBe(true);
      const wrong = await send('PUT', '/smoke/wrong', {
        ...streamed,
        payload: 'unsigned-trailer',
        trailers: crc32c,
      });
      expect(wrong.status).toBe(400);
      expect((await send('HEAD', '/smoke/wrong')).status).toBe(404);
    });

    test('lists', async () => {
      for (const key of ['a', 'b/1', 'b/2', 'c d'])
        await send('PUT', `/smoke/list/${encodePath(key)}`, { body: '' });
      const list = await send('GET', '/smoke?list-type=2&prefix=list/&delimiter=/');
      expect([...list.text.matchAll(/<Key>(.*?)<\/Key>/g)].map((found) => found[1])).toEqual([
        'list/a',
        'list/c d',
      ]);
      expect(list.text).toMatch(/<CommonPrefixes><Prefix>list\/b\/<\/Prefix><\/CommonPrefixes>/);
    });

    test('copies', async () => {
      await send('PUT', '/smoke/source', { body: 'copied' });
      const copy = await send('PUT', '/smoke/target', { headers: { '*-copy-source': '/smoke/source' } });
      expect([copy.status, (await send('GET', '/smoke/target')).text]).toEqual([200, 'copied']);
    });

    test('assembles two parts', async () => {
      const created = await send('POST', '/smoke/parts?uploads');
      const uploadId = encodeURIComponent(/<UploadId>(.*?)<\/UploadId>/.exec(created.text)?.[1] ?? '');
      const parts = [randomBytes(5 * 1024 * 1024), randomBytes(10)];
      for (const [index, body] of parts.entries()) {
        const put = await send('PUT', `/smoke/parts?partNumber=${index + 1}&uploadId=${uploadId}`, { body });
        expect([put.status, put.headers.etag]).toEqual([200, md5(body)]);
      }
      const list = parts.map(
        (body, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${md5(body)}</ETag></Part>`,
      );
      const body = `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`;
      const completed = await send('POST', `/smoke/parts?uploadId=${uploadId}`, { body });
      expect(completed.text).toContain('<CompleteMultipartUploadResult');
      expect((await send('GET', '/smoke/parts')).bytes.equals(Buffer.concat(parts))).toBe(true);
    });

    test('encrypts, and gives back ranges of it', async () => {
      const body = randomBytes(5 * 1024 * 1024 + 7);
      const headers = { '*-server-side-encryption': 'AES256' };
      for (const size of [10, 100_000, body.length]) {
        const content = body.subarray(0, size);
        const put = await send('PUT', '/smoke/encrypted', { body: content, headers });
        expect([put.status, put.headers.etag]).toEqual([200, md5(content)]);
        expect((await send('GET', '/smoke/encrypted')).bytes.equals(content)).toBe(true);
      }
      const range = await send('GET', '/smoke/encrypted', { headers: { range: 'bytes=65000-66000' } });
      expect(range.bytes.equals(body.subarray(65_000, 66_001))).toBe(true);
      expect(range.headers['x-amz-server-side-encryption']).toBe('AES256');
    });

    test('deletes one and many', async () => {
      for (const key of ['1', '2', '3']) await send('PUT', `/smoke/gone-${key}`, { body: key });
      expect((await send('DELETE', '/smoke/gone-1')).status).toBe(204);
      const body = '<Delete><Object><Key>gone-2</Key></Object><Object><Key>gone-3</Key></Object></Delete>';
      const contentMd5 = createHash('md5').update(body).digest('base64');
      const many = await send('POST', '/smoke?delete', { body, headers: { 'content-md5': contentMd5 } });
      expect(many.text.match(/<Deleted>/g)).toHaveLength(2);
      for (const key of ['1', '2', '3']) expect((await send('GET', `/smoke/gone-${key}`)).status).toBe(404);
    });

    test('refuses a wrong signature in XML, with a request id', async () => {
      const refused = await send('GET', '/smoke', { secretKey: 'not-the-secret-key' });
      expect(refused.status).toBe(403);
      expect(refused.headers['content-type']).toBe('application/xml');
      expect(refused.text).toContain('<Code>SignatureDoesNotMatch</Code>');
      expect(refused.text).toContain(`<RequestId>${refused.headers['x-amz-request-id']}</RequestId>`);
    });

    // Empty segments, `+` and encoded bytes of a key arrive unchanged on every runtime.
    test.each(['//a//b', '/a+b', '/a%20b%2Fc', '/%C3%A9'])('keeps apart what is at %s', async (path) => {
      expect((await send('PUT', `/smoke${path}`, { body: path })).status).toBe(200);
      expect((await send('GET', `/smoke${path}`)).text).toBe(path);
    });
    const dotted = ['/%2e%2e/a', '/a/../b', '/./a'];
    const dottedTitle = `reaches a key with a dot segment${normalisesTargets === undefined ? '' : ` (not here: ${normalisesTargets})`}`;
    test.skipIf(normalisesTargets !== undefined).each(dotted)(`${dottedTitle}: %s`, async (path) => {
      expect((await send('PUT', `/smoke${path}`, { body: path })).status).toBe(200);
      expect((await send('GET', `/smoke${path}`)).text).toBe(path);
      expect((await send('GET', '/smoke/b')).status).toBe(404);
    });
  });
}
