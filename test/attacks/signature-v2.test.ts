/** Attack group 4 of docs/security.md for version-2 presigned queries, which sign less than version 4. */
import { describe, expect, test } from 'vitest';
import { encodePath, type PresignSpec, type SignedRequest } from '../support/sign.ts';
import { alice, check, now, refusal, refusalCode, signAs } from '../support/sign-check.ts';

const client = signAs();
const presigned = (spec: PresignSpec & { virtualBucket?: string } = {}) =>
  client.presignV2({ path: '/bucket/key', ...spec });
const withTarget = (request: SignedRequest, change: (target: string) => string): SignedRequest => ({
  ...request,
  target: change(request.target),
});
const withHeaders = (request: SignedRequest, headers: Record<string, string>): SignedRequest => ({
  ...request,
  headers: [...request.headers, ...Object.entries(headers)],
});

describe('a version-2 presigned query', () => {
  test.each<[string, PresignSpec]>([
    ['GET', {}],
    ['PUT', { method: 'PUT', body: 'content' }],
    ['PUT with a type', { method: 'PUT', body: 'content', headers: { 'content-type': 'text/plain' } }],
    ['PUT with an ACL', { method: 'PUT', body: 'content', headers: { '*-meta-b': 'b', '*-acl': 'private' } }],
    ['sub-resource', { query: { acl: '' } }],
    ['version', { query: { versionId: 'v', 'response-content-type': 'text/html; charset=a b' } }],
    ['part', { method: 'PUT', query: { uploadId: 'u+/=', partNumber: '1' }, body: 'part' }],
    ['listing', { path: '/bucket' }],
    ['difficult key', { path: `/bucket${encodePath('/a b/é+(1)%')}` }],
  ])('is let through for a %s', async (_, spec) => {
    const { identity, dialect } = await check(presigned(spec));
    expect(identity?.accessKey).toBe(alice.accessKey);
    expect(dialect).toBe('amz');
  });

  test.each<[string, string, (target: string) => string]>([
    ['another key', 'SignatureDoesNotMatch', (t) => t.replace('/key', '/other')],
    [
      'a later expiry',
      'SignatureDoesNotMatch',
      (t) => t.replace(/Expires=(\d+)/, (_, s) => `Expires=${Number(s) + 1}`),
    ],
    ['an added versionId', 'SignatureDoesNotMatch', (t) => `${t}&versionId=1`],
    ['an added uploadId', 'SignatureDoesNotMatch', (t) => `${t}&uploadId=1`],
    ['an added override', 'SignatureDoesNotMatch', (t) => `${t}&response-content-type=a`],
    ['an added sub-resource', 'SignatureDoesNotMatch', (t) => `${t}&retention`],
    ['an added ACL', 'SignatureDoesNotMatch', (t) => `${t}&x-amz-acl=public-read`],
    ['an added type', 'SignatureDoesNotMatch', (t) => `${t}&content-type=text/html`],
    ['an unknown query name', 'AccessDenied', (t) => `${t}&append`],
    ['an action', 'AccessDenied', (t) => `${t}&Action=CreateUser`],
    ['a query of the other dialect', 'AccessDenied', (t) => `${t}&x-store-acl=public-read`],
    ['a repeated query', 'AccessDenied', (t) => `${t}&prefix=a&prefix=b`],
    ['a repeated query that differs in case', 'AccessDenied', (t) => `${t}&x-amz-meta-a=1&X-Amz-Meta-A=2`],
    ['a separator in a signed value', 'AccessDenied', (t) => `${t}&response-content-type=a%26versionId=1`],
    [
      'a line break in a header of the query',
      'AccessDenied',
      (t) => `${t}&x-amz-meta-a=1%0Ax-amz-acl:private`,
    ],
    ['a colon in the name of a header', 'AccessDenied', (t) => `${t}&x-amz-meta-a:b=c`],
    ['a prefix', 'AccessDenied', (t) => `${t}&prefix=a`],
    [
      'a customer key in the query',
      'AccessDenied',
      (t) => `${t}&x-amz-server-side-encryption-customer-key=a`,
    ],
    ['a checksum in the query', 'AccessDenied', (t) => `${t}&x-amz-checksum-crc32=a`],
    ['a second signature', 'AccessDenied', (t) => `${t}&Signature=x`],
    ['no expiry', 'AccessDenied', (t) => t.replace(/Expires=\d+&/, '')],
    ['no key', 'AccessDenied', (t) => t.replace(/AWSAccessKeyId=\w+&/, '')],
    ['an expiry that is no number', 'AccessDenied', (t) => t.replace(/Expires=\d+/, 'Expires=soon')],
    [
      'a signature that is no base64',
      'SignatureDoesNotMatch',
      (t) => t.replace(/Signature=.*/, 'Signature=!'),
    ],
    ['an empty signature', 'SignatureDoesNotMatch', (t) => t.replace(/Signature=.*/, 'Signature=')],
    ['an unknown access key', 'InvalidAccessKeyId', (t) => t.replace('AKIDALICE', 'AKIDBOB')],
    ['a blank access key', 'InvalidAccessKeyId', (t) => t.replace('AKIDALICE', '')],
    ['a session token', 'InvalidToken', (t) => `${t}&x-amz-security-token=a`],
  ])('is refused with %s by %s', async (_, code, change) => {
    expect(await refusalCode(withTarget(presigned(), change))).toBe(code);
  });

  test.each([
    ['an ACL', { 'x-amz-acl': 'public-read' }, 'SignatureDoesNotMatch'],
    ['a copy source', { 'x-amz-copy-source': '/a/b' }, 'SignatureDoesNotMatch'],
    ['a type', { 'content-type': 'text/html' }, 'SignatureDoesNotMatch'],
    ['the other dialect', { 'x-store-acl': 'public-read' }, 'AccessDenied'],
    ['an Authorization', { authorization: 'AWS4-HMAC-SHA256 a' }, 'InvalidArgument'],
  ])('is refused with an added header of %s', async (_, headers, code) => {
    expect(await refusalCode(withHeaders(presigned({ method: 'PUT', body: 'x' }), headers))).toBe(code);
  });

  test('is refused for another method', async () => {
    expect(await refusalCode({ ...presigned(), method: 'DELETE' })).toBe('SignatureDoesNotMatch');
  });

  test('expires at its time', async () => {
    expect((await check(presigned({ expires: 60 }), { at: now + 60_000 })).identity).toBeDefined();
    const refused = await refusal(presigned({ expires: 60 }), { at: now + 60_001 });
    expect([refused.code, refused.message]).toEqual(['AccessDenied', 'Request has expired']);
  });

  test('covers the bucket of a virtual host', async () => {
    const request = presigned({ path: '/key', virtualBucket: 'bucket' });
    expect((await check(request, { virtualBucket: 'bucket' })).identity).toBeDefined();
    for (const virtualBucket of ['other', undefined])
      expect(await refusalCode(request, { virtualBucket })).toBe('SignatureDoesNotMatch');
  });

  test('is refused when the setting disables it, with a message that names version 4', async () => {
    const refused = await refusal(presigned(), { sigV2Presign: false });
    expect(refused.code).toBe('InvalidRequest');
    expect(refused.message).toContain('AWS4-HMAC-SHA256');
  });

  test('is refused for a bucket with a signing key of its own', async () => {
    const keyed = { secrets: { findSecrets: async () => [{ secret: 'the-bucket-key' }] } };
    expect(await refusalCode(presigned(), keyed)).toBe('AccessDenied');
    const forged = signAs({ secretKey: 'the-bucket-key' }).presignV2({ path: '/bucket/key' });
    expect(await refusalCode(forged, keyed)).toBe('AccessDenied');
  });

  test('carries headers that boto3 moved into the query', async () => {
    const header = presigned({
      method: 'PUT',
      headers: { 'x-amz-acl': 'private', 'content-type': 'text/plain' },
    });
    const moved = {
      ...header,
      headers: header.headers.filter(([name]) => name === 'host'),
      target: `${header.target}&x-amz-acl=private&content-type=text%2Fplain`,
    };
    expect((await check(moved)).identity).toBeDefined();
  });

  test('a mismatch shows the string to sign and not the secret', async () => {
    const refused = await refusal({ ...presigned(), method: 'PUT' });
    expect(refused.details.elements?.['StringToSign']).toMatch(/^PUT\n\n\n\d+\n\/bucket\/key$/);
    expect(JSON.stringify(refused.details)).not.toContain(alice.secretKey);
  });
});
