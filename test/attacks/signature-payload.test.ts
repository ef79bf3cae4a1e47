/** Attack group 2 of docs/security.md: a body that differs from the signed declaration is refused. */
import { describe, expect, test } from 'vitest';
import { hexSha256, type RequestSpec, type SignedRequest } from '../support/sign.ts';
import { authenticateOnly, check, inPieces, refusal, refusalCode, signAs } from '../support/sign-check.ts';

const both = ['amz', 'store'] as const;

/** The write operations, by their shape on the wire. */
const writes: readonly (readonly [string, RequestSpec])[] = [
  ['PutObject', { method: 'PUT', path: '/bucket/key', body: 'content' }],
  [
    'UploadPart',
    { method: 'PUT', path: '/bucket/key', query: { uploadId: 'u', partNumber: '1' }, body: 'part' },
  ],
  [
    'CompleteMultipartUpload',
    { method: 'POST', path: '/bucket/key', query: { uploadId: 'u' }, body: '<C/>' },
  ],
  ['DeleteObjects', { method: 'POST', path: '/bucket', query: { delete: '' }, body: '<Delete/>' }],
  ['PutBucketPolicy', { method: 'PUT', path: '/bucket', query: { policy: '' }, body: '{}' }],
  ['PutBucketAcl', { method: 'PUT', path: '/bucket', query: { acl: '' }, body: '<A/>' }],
  ['PutBucketVersioning', { method: 'PUT', path: '/bucket', query: { versioning: '' }, body: '<V/>' }],
  ['CreateBucket', { method: 'PUT', path: '/bucket', body: '<L/>' }],
];
const modes = ['signed', 'unsigned', 'streaming', 'streaming-trailer', 'unsigned-trailer'] as const;

describe.each(both)('in the dialect %s', (dialect) => {
  const client = signAs({ dialect });
  const prefix = dialect === 'amz' ? 'x-amz-' : 'x-store-';
  const secret = dialect === 'amz' ? 'AWS4' : 'STORE4';
  const sentinels = [
    'UNSIGNED-PAYLOAD',
    'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    `STREAMING-${secret}-HMAC-SHA256-PAYLOAD`,
    `STREAMING-${secret}-HMAC-SHA256-PAYLOAD-TRAILER`,
    hexSha256('content'),
  ];

  describe.each(writes)('%s', (_, spec) => {
    test.each(modes)('is let through in the payload mode %s', async (payload) => {
      const trailers = payload.endsWith('trailer') ? { '*-checksum-crc32': 'AAAAAA==' } : {};
      const { identity, content } = await check(client.request({ ...spec, payload, trailers }));
      expect(identity).toBeDefined();
      expect(Buffer.from(content).toString()).toBe(spec.body);
    });

    test.each(sentinels)('is refused with %s and a fabricated signature', async (contentSha256) => {
      const tamper = { contentSha256, signature: () => '0'.repeat(64), decodedLength: '7' };
      const request = client.request({ ...spec, payload: 'streaming', tamper });
      expect(await refusalCode(request)).toBe('SignatureDoesNotMatch');
    });

    test.each(sentinels)('is refused with %s and only the credential in the query', async (declared) => {
      const request = client.anonymous({
        ...spec,
        query: {
          ...(spec.query as object),
          [`${dialect === 'amz' ? 'X-Amz-' : 'X-Store-'}Credential`]: 'AKIDALICE/20261121/us-east-1/s3/x',
        },
        headers: { '*-content-sha256': declared },
      });
      expect(await refusalCode(request)).toBe('AuthorizationQueryParametersError');
    });
  });

  test.each([`STREAMING-${secret}-HMAC-SHA256-PAYLOAD`, `STREAMING-${secret}-HMAC-SHA256-PAYLOAD-TRAILER`])(
    '%s is refused to anonymous callers',
    async (contentSha256) => {
      const request = client.anonymous({
        method: 'PUT',
        body: 'x',
        payload: 'unsigned',
        tamper: { contentSha256 },
      });
      expect(await refusalCode(request)).toBe('InvalidRequest');
    },
  );

  test('an anonymous body with trailing checksums is decoded', async () => {
    const request = client.anonymous({
      method: 'PUT',
      body: 'content',
      payload: 'unsigned-trailer',
      trailers: { '*-checksum-crc32': 'AAAAAA==' },
    });
    const { identity, content, payload } = await check(request);
    expect(identity).toBeUndefined();
    expect(Buffer.from(content).toString()).toBe('content');
    expect([...payload.trailers]).toEqual([[`${prefix}checksum-crc32`, 'AAAAAA==']]);
  });

  test.each([
    'STREAMING',
    'STREAMING-UNSIGNED-PAYLOAD',
    'unsigned-payload',
    `STREAMING-${secret}-ECDSA-P256-SHA256-PAYLOAD`,
    dialect === 'amz' ? 'STREAMING-STORE4-HMAC-SHA256-PAYLOAD' : 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
    '',
    'abc',
    `${hexSha256('x')}0`,
    hexSha256('x').replace(/./, 'g'),
    `${hexSha256('x')},${hexSha256('x')}`,
  ])('refuses the unknown declaration "%s", though it is signed', async (contentSha256) => {
    const request = client.request({ method: 'PUT', body: 'x', tamper: { contentSha256 } });
    const refused = await refusal(request);
    expect(refused.code).toBe('InvalidArgument');
    expect(refused.details.elements?.['ArgumentName']).toBe(`${prefix}content-sha256`);
  });

  test('refuses a header signature without a declaration', async () => {
    const request = client.request({ method: 'PUT', body: 'x', payload: 'missing' });
    expect((await refusal(request)).message).toContain(`${prefix}content-sha256`);
    expect(await refusalCode(request)).toBe('InvalidRequest');
  });

  test.each([
    ['another content', (body: Uint8Array) => Buffer.from(body).fill('y')],
    ['one more byte', (body: Uint8Array) => Buffer.concat([body, Buffer.from('y')])],
    ['one byte fewer', (body: Uint8Array) => body.subarray(1)],
    ['nothing', () => new Uint8Array()],
  ])('refuses %s under the signed hash', async (_, body) => {
    const spec: RequestSpec = { method: 'PUT', body: 'content' };
    expect((await check(client.request(spec))).payload.sha256?.hex).toBe(hexSha256('content'));
    const refused = await refusal(client.request({ ...spec, tamper: { body } }));
    expect(refused.code).toBe('XAmzContentSHA256Mismatch');
    expect(refused.details.elements?.['ClientComputedContentSHA256']).toBe(hexSha256('content'));
  });

  test('refuses a missing body under the hash of one, before anything is read', async () => {
    const request = client.request({ method: 'PUT', tamper: { contentSha256: hexSha256('content') } });
    await expect(authenticateOnly({ ...request, body: undefined })).rejects.toThrow(
      'XAmzContentSHA256Mismatch',
    );
  });

  test.each([
    ['6', 'IncompleteBody'],
    ['8', 'IncompleteBody'],
    ['-7', 'InvalidArgument'],
    ['7.0', 'InvalidArgument'],
    ['99999999999999999999', 'EntityTooLarge'],
  ])('a content of 7 bytes is refused with a Content-Length of %s', async (length, code) => {
    const request = client.request({
      method: 'PUT',
      body: 'content',
      payload: 'unsigned',
      headers: { 'content-length': length },
    });
    expect(await refusalCode(request)).toBe(code);
  });

  test('a trailer that nothing can carry is refused', async () => {
    const request = client.request({
      method: 'PUT',
      body: 'x',
      headers: { '*-trailer': '*-checksum-crc32' },
    });
    expect(await refusalCode(request)).toBe('InvalidRequest');
  });

  test('a chunked request may leave out Content-Encoding', async () => {
    const bare: SignedRequest = client.request({
      method: 'PUT',
      body: 'content',
      payload: 'streaming',
      tamper: {
        signedHeaders: (names) => names.filter((name) => name !== 'content-encoding'),
        headers: (headers) => headers.filter(([name]) => name !== 'content-encoding'),
      },
    });
    expect(Buffer.from((await check(bare)).content).toString()).toBe('content');
  });
});

test('a body declared in both dialects at once is refused', async () => {
  const hash = hexSha256('x');
  const headers = { 'x-amz-content-sha256': hash, 'x-store-content-sha256': hash };
  expect(await refusalCode(signAs().anonymous({ method: 'PUT', body: 'x', headers }))).toBe('InvalidRequest');
});

test('the source of an abandoned body is released', async () => {
  for (const payload of modes) {
    let released = false;
    const request = signAs().request({ method: 'PUT', body: 'x'.repeat(100), payload, chunkSize: 10 });
    const source = async function* () {
      try {
        yield* inPieces(request.body as Uint8Array, 7);
      } finally {
        released = true;
      }
    };
    const { payload: opened } = await authenticateOnly(request, {}, source());
    for await (const _ of opened.content) break;
    expect(released, payload).toBe(true);
  }
});
