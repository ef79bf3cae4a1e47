/**
 * Attack group 1 of docs/security.md, canonical forms: the signed request and the received one name the same key, for every client's
 * encoding.
 */
import { describe, expect, test } from 'vitest';
import { encode, encodePath, type SignedRequest } from '../support/sign.ts';
import { alice, check, refusalCode, signAs } from '../support/sign-check.ts';

const replaceHeader = (request: SignedRequest, name: string, change: (value: string) => string) => ({
  ...request,
  headers: request.headers.map(([known, value]): [string, string] =>
    known === name ? [known, change(value)] : [known, value],
  ),
});

describe('paths', () => {
  const client = signAs();
  const keys = [
    '/bucket//key',
    '/bucket/./key',
    '/bucket/../key',
    '/bucket/a%2Fb',
    '/bucket/100%25',
    '/bucket/a+b',
    '/bucket/a%20b',
    `/bucket/${encode('é')}`,
    `/bucket/${encode('e\u0301')}`,
    `/bucket/${encode("!'()*")}`,
    '/bucket/trailing/',
  ];
  test.each(keys)('%s is signed as it is sent', async (path) => {
    expect((await check(client.request({ path }))).identity).toBeDefined();
  });

  test.each([
    ['/bucket/a+b', '/bucket/a%2Bb'],
    ['/bucket/(1)', '/bucket/%281%29'],
    ['/bucket/caf%c3%a9', '/bucket/caf%C3%A9'],
    ['/bucket/%41', '/bucket/A'],
  ])('sent as %s, it may be signed as %s', async (sent, signedAs) => {
    const request = client.request({ path: signedAs });
    expect((await check({ ...request, target: sent })).identity).toBeDefined();
  });

  test.each([
    ['/bucket/a+b', '/bucket/a%20b'],
    ['/bucket/a%252Fb', '/bucket/a%2Fb'],
    [`/bucket/${encode('é')}`, `/bucket/${encode('e\u0301')}`],
    ['/bucket//key', '/bucket/key'],
    ['/bucket/x/../key', '/bucket/key'],
  ])('sent as %s, it may not be signed as %s, another key', async (sent, signedAs) => {
    const request = client.request({ path: signedAs });
    expect(await refusalCode({ ...request, target: sent })).toBe('SignatureDoesNotMatch');
  });

  test('an absolute-form target is signed by its path', async () => {
    const request = client.request({ path: '/bucket/key', query: { acl: '' } });
    const absolute = { ...request, target: `http://elsewhere.test${request.target}` };
    expect((await check(absolute)).identity).toBeDefined();
  });

  test('a virtual host is part of what is signed', async () => {
    const request = client.request({ path: '/key', host: 'one.storage.test' });
    expect((await check(request)).identity).toBeDefined();
    const moved = replaceHeader(request, 'host', () => 'two.storage.test');
    expect(await refusalCode(moved)).toBe('SignatureDoesNotMatch');
  });

  test('a key encoded by the support helper is accepted', async () => {
    const path = `/bucket${encodePath('/año/50% + "x".txt')}`;
    expect((await check(client.request({ path }))).identity).toBeDefined();
  });
});

describe('canonical forms that clients differ in', () => {
  const client = signAs();
  test.each([
    ['order of arrival', 'b=2&a=1', { a: '1', b: '2' }],
    ['lower-case escapes', 'prefix=a%2fb', { prefix: 'a/b' }],
    ['a plus for a space', 'prefix=a+b', { prefix: 'a b' }],
    ['unneeded escapes', 'prefix=%61', { prefix: 'a' }],
    ['unescaped slashes', 'prefix=a/b', { prefix: 'a/b' }],
    ['a name without "="', 'acl', { acl: '' }],
    ['names that are prefixes of others', 'a-b=1&a=2', { a: '2', 'a-b': '1' }],
    ['an "=" in a value', 'prefix=a=b', { prefix: 'a=b' }],
    ['an empty parameter', 'a=1&&b=2', { a: '1', b: '2' }],
  ])('%s gives the same canonical query', async (_, sent, query) => {
    const request = client.request({ path: '/bucket', query });
    expect((await check({ ...request, target: `/bucket?${sent}` })).identity).toBeDefined();
  });

  test('blanks of header values are folded, and repeated headers joined', async () => {
    const request = client.request({
      headers: [
        ['*-meta-a', '  one   two\tthree '],
        ['*-meta-b', 'first '],
        ['*-meta-b', ' second'],
      ],
    });
    expect((await check(request)).identity).toBeDefined();
  });

  test('header octets are signed as the UTF-8 text that they are', async () => {
    const request = client.request({ headers: { '*-meta-name': 'año' } });
    const octets = Buffer.from('año').toString('latin1');
    expect((await check(replaceHeader(request, 'x-amz-meta-name', () => octets))).identity).toBeDefined();
  });
});

describe('dialects do not mix', () => {
  test.each([
    ['amz', 'store4_request'],
    ['store', 'aws4_request'],
  ] as const)('%s with the terminator %s', async (dialect, terminator) => {
    const request = signAs({ dialect }).request({
      tamper: { scope: (scope) => scope.replace(/[a-z0-9]+_request/, terminator) },
    });
    expect(await refusalCode(request)).toBe('AuthorizationHeaderMalformed');
  });

  test('the headers of one under the algorithm of the other', async () => {
    const request = signAs({ dialect: 'store' }).request();
    const crossed = replaceHeader(request, 'authorization', (value) => value.replace('STORE4-', 'AWS4-'));
    expect(await refusalCode(crossed)).toBe('AuthorizationHeaderMalformed');
  });

  test('a signed header of the other dialect is no secret addition, and passes', async () => {
    const request = signAs().request({ headers: { 'x-store-acl': 'private' } });
    expect((await check(request)).dialect).toBe('amz');
  });
});

describe('a secret that is not the access key’s own', () => {
  const request = signAs({ secretKey: 'the-bucket-key' }).request({ path: '/keyed/key' });
  test('verifies what was signed with it', async () => {
    const { identity } = await check(request, {
      secrets: { findSecrets: async () => [{ secret: 'the-bucket-key' }] },
    });
    expect(identity?.accessKey).toBe(alice.accessKey);
  });
  test('never falls back to the access key’s secret', async () => {
    const own = signAs().request({ path: '/keyed/key' });
    expect((await check(own)).identity).toBeDefined();
    expect(
      await refusalCode(own, { secrets: { findSecrets: async () => [{ secret: 'the-bucket-key' }] } }),
    ).toBe('SignatureDoesNotMatch');
    expect(await refusalCode(request)).toBe('SignatureDoesNotMatch');
  });
});

describe('anonymous requests', () => {
  test.each([
    ['amz', 'amz'],
    ['store', 'store'],
  ] as const)('in the dialect %s show it by their headers', async (dialect, shown) => {
    const request = signAs({ dialect }).anonymous({ headers: { '*-acl': 'private' } });
    expect(await check(request)).toMatchObject({ identity: undefined, dialect: shown });
  });
  test('that show both or neither have none', async () => {
    expect((await check(signAs().anonymous())).dialect).toBeUndefined();
    const mixed = signAs().anonymous({ headers: { 'x-amz-acl': 'private', 'x-store-acl': 'private' } });
    expect((await check(mixed)).dialect).toBeUndefined();
  });
});
