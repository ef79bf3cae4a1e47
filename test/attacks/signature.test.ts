/** Attack group 1 of docs/security.md: a signature is valid for exactly the request that was signed. */
import { describe, expect, test } from 'vitest';
import type { SignedRequest } from '../support/sign.ts';
import { alice, check, now, refusal, refusalCode, signAs } from '../support/sign-check.ts';

const both = ['amz', 'store'] as const;
const minute = 60_000;

const replaceHeader = (request: SignedRequest, name: string, change: (value: string) => string) => ({
  ...request,
  headers: request.headers.map(([known, value]): [string, string] =>
    known === name ? [known, change(value)] : [known, value],
  ),
});
const withAuthorization = (request: SignedRequest, change: (value: string) => string) =>
  replaceHeader(request, 'authorization', change);
const flip = (hex: string): string => (hex.startsWith('0') ? '1' : '0') + hex.slice(1);

describe.each(both)('in the dialect %s', (dialect) => {
  const client = signAs({ dialect });
  const prefix = dialect === 'amz' ? 'x-amz-' : 'x-store-';
  const vendor = dialect === 'amz' ? 'aws4' : 'store4';
  const proper = () =>
    client.request({
      method: 'PUT',
      path: '/bucket/a/key',
      query: { b: '2', a: '1' },
      headers: { '*-acl': 'private', 'content-type': 'text/plain' },
      body: 'content',
    });

  test('accepts a properly signed request', async () => {
    const { identity, content, payload, dialect: spoken } = await check(proper());
    expect(identity).toEqual({
      accessKey: alice.accessKey,
      owner: 'account-alice',
      displayName: 'Alice',
      root: true,
      operator: false,
    });
    expect(Buffer.from(content).toString()).toBe('content');
    expect(payload.length).toBe(7);
    expect(spoken).toBe(dialect);
  });

  test.each<[string, (request: SignedRequest) => SignedRequest]>([
    ['method', (r) => ({ ...r, method: 'POST' })],
    ['path', (r) => ({ ...r, target: r.target.replace('/a/', '/b/') })],
    ['bucket', (r) => ({ ...r, target: r.target.replace('/bucket/', '/backet/') })],
    ['case of the path', (r) => ({ ...r, target: r.target.replace('/key', '/Key') })],
    ['added slash', (r) => ({ ...r, target: r.target.replace('/a/', '//a/') })],
    ['added dot segment', (r) => ({ ...r, target: r.target.replace('/a/', '/./a/') })],
    ['added double dot', (r) => ({ ...r, target: r.target.replace('/a/', '/x/../a/') })],
    ['query value', (r) => ({ ...r, target: r.target.replace('a=1', 'a=2') })],
    ['query name', (r) => ({ ...r, target: r.target.replace('a=1', 'c=1') })],
    ['added query', (r) => ({ ...r, target: `${r.target}&acl` })],
    ['repeated query', (r) => ({ ...r, target: `${r.target}&a=1` })],
    ['removed query', (r) => ({ ...r, target: r.target.replace('a=1&', '') })],
    ['header value', (r) => replaceHeader(r, 'content-type', () => 'text/html')],
    ['dialect header', (r) => replaceHeader(r, `${prefix}acl`, () => 'public-read')],
    ['repeated header', (r) => ({ ...r, headers: [...r.headers, [`${prefix}acl`, 'public-read']] })],
    ['removed header', (r) => ({ ...r, headers: r.headers.filter(([name]) => name !== 'content-type') })],
    ['host', (r) => replaceHeader(r, 'host', () => 'other.test:9000')],
    ['port of the host', (r) => replaceHeader(r, 'host', () => 'storage.test:9001')],
    ['capitals of the host', (r) => replaceHeader(r, 'host', (value) => value.toUpperCase())],
    ['date', (r) => replaceHeader(r, `${prefix}date`, (value) => value.replace('120000', '120001'))],
    ['declared payload', (r) => replaceHeader(r, `${prefix}content-sha256`, () => 'UNSIGNED-PAYLOAD')],
    ['signature', (r) => withAuthorization(r, (v) => v.slice(0, -64) + flip(v.slice(-64)))],
    ['shorter signature', (r) => withAuthorization(r, (v) => v.slice(0, -1))],
    ['longer signature', (r) => withAuthorization(r, (v) => `${v}0`)],
    [
      'capitals of the signature',
      (r) => withAuthorization(r, (v) => v.slice(0, -64) + v.slice(-64).toUpperCase()),
    ],
    ['region of the scope', (r) => withAuthorization(r, (v) => v.replace('us-east-1', 'eu-west-1'))],
    ['region left empty', (r) => withAuthorization(r, (v) => v.replace('/us-east-1/', '//'))],
    [
      'order of the signed headers',
      (r) => withAuthorization(r, (v) => v.replace('content-type;host', 'host;content-type')),
    ],
    ['fewer signed headers', (r) => withAuthorization(r, (v) => v.replace('content-type;', ''))],
    [
      'more signed headers',
      (r) => withAuthorization(r, (v) => v.replace('content-type;', 'content-md5;content-type;')),
    ],
  ])('refuses a changed %s', async (_, change) => {
    expect(await refusalCode(change(proper()))).toBe('SignatureDoesNotMatch');
  });

  test.each<[string, string, (value: string) => string]>([
    ['date of the scope', 'AuthorizationHeaderMalformed', (v) => v.replace('/20261121/', '/20261120/')],
    ['date of the scope left empty', 'AuthorizationHeaderMalformed', (v) => v.replace('/20261121/', '//')],
    ['service', 'AuthorizationHeaderMalformed', (v) => v.replace('/s3/', '/ec2/')],
    ['directory-bucket service', 'AuthorizationHeaderMalformed', (v) => v.replace('/s3/', '/s3express/')],
    ['terminator', 'AuthorizationHeaderMalformed', (v) => v.replace(`${vendor}_request`, `${vendor}_other`)],
    ['scope too short', 'AuthorizationHeaderMalformed', (v) => v.replace('/us-east-1/s3/', '/')],
    ['no credential', 'AuthorizationHeaderMalformed', (v) => v.replace(/Credential=[^,]*, /, '')],
    ['no signed headers', 'AuthorizationHeaderMalformed', (v) => v.replace(/SignedHeaders=[^,]*, /, '')],
    ['no signature', 'AuthorizationHeaderMalformed', (v) => v.replace(/, Signature=.*/, '')],
    ['empty signature', 'AuthorizationHeaderMalformed', (v) => v.replace(/Signature=.*/, 'Signature=')],
    ['two signatures', 'AuthorizationHeaderMalformed', (v) => `${v}, Signature=${'0'.repeat(64)}`],
    ['an unknown part', 'AuthorizationHeaderMalformed', (v) => `${v}, Extra=1`],
    ['capitals in the signed headers', 'AuthorizationHeaderMalformed', (v) => v.replace('host;', 'Host;')],
    ['only the algorithm', 'AuthorizationHeaderMalformed', (v) => `${v.slice(0, v.indexOf(' '))} `],
    ['nothing', 'InvalidArgument', () => ''],
    ['another type', 'InvalidArgument', () => 'Bearer abc'],
    ['version 2', 'InvalidRequest', () => `AWS ${alice.accessKey}:c2lnbmF0dXJl`],
    ['another algorithm', 'InvalidRequest', (v) => v.replace('HMAC-SHA256', 'ECDSA-P256-SHA256')],
    ['unknown access key', 'InvalidAccessKeyId', (v) => v.replace(alice.accessKey, 'AKIDNOBODY')],
    ['blank access key', 'InvalidAccessKeyId', (v) => v.replace(alice.accessKey, '')],
    ['access key in other capitals', 'InvalidAccessKeyId', (v) => v.replace(alice.accessKey, 'akidalice')],
    [
      'access key of an object prototype',
      'InvalidAccessKeyId',
      (v) => v.replace(alice.accessKey, '__proto__'),
    ],
  ])('answers an Authorization with %s by %s', async (_, code, change) => {
    expect(await refusalCode(withAuthorization(proper(), change))).toBe(code);
  });

  test('answers an unknown and an empty access key alike', async () => {
    const of = async (accessKey: string) =>
      refusal(withAuthorization(proper(), (v) => v.replace(alice.accessKey, accessKey)));
    const [unknown, blank] = [await of('AKIDNOBODY'), await of('')];
    expect(unknown.code).toBe(blank.code);
    expect(unknown.message).toBe(blank.message);
  });

  test.each([
    [-15 * minute, undefined],
    [15 * minute, undefined],
    [-15 * minute - 1000, 'RequestTimeTooSkewed'],
    [15 * minute + 1000, 'RequestTimeTooSkewed'],
  ])('a clock that is %i ms off gives %s', async (skew, code) => {
    const request = proper();
    if (code === undefined) expect((await check(request, { at: now + skew })).identity).toBeDefined();
    else expect(await refusalCode(request, { at: now + skew })).toBe(code);
  });

  test.each<[string, (headers: [string, string][]) => [string, string][]]>([
    ['no date at all', (headers) => headers.filter(([name]) => name !== `${prefix}date`)],
    [
      'an impossible date',
      (headers) => headers.map(([n, v]) => [n, n === `${prefix}date` ? '20261341T250000Z' : v]),
    ],
    ['two dates', (headers) => [...headers, [`${prefix}date`, '20261121T120000Z']]],
  ])('refuses %s', async (_, change) => {
    const request = proper();
    expect(await refusalCode({ ...request, headers: change(request.headers) })).toBe('AccessDenied');
  });

  test('uses the Date header where there is no dialect date header', async () => {
    const request = client.request({
      path: '/bucket',
      headers: { date: new Date(now).toUTCString() },
      tamper: {
        signedHeaders: (names) => names.filter((name) => name !== `${prefix}date`),
        headers: (headers) => headers.filter(([name]) => name !== `${prefix}date`),
      },
    });
    expect((await check(request)).identity).toBeDefined();
  });

  test.each([
    ['host', (names: string[]) => names.filter((name) => name !== 'host')],
    [`${prefix}acl`, (names: string[]) => names.filter((name) => name !== `${prefix}acl`)],
  ])('refuses %s outside of the signed headers', async (name, signedHeaders) => {
    const request = client.request({ headers: { '*-acl': 'private' }, tamper: { signedHeaders } });
    const refused = await refusal(request);
    expect(refused.code).toBe('AccessDenied');
    expect(refused.details.elements).toEqual({ HeadersNotSigned: name });
  });

  test.each([
    `${prefix}acl`,
    `${prefix}copy-source`,
    `${prefix}tagging`,
    `${prefix}meta-owner`,
    `${prefix}object-lock-mode`,
    `${prefix}website-redirect-location`,
    `${prefix}security-token`,
    `${prefix}decoded-content-length`,
    `${prefix}trailer`,
    `${prefix}grant-read`,
    `${prefix}bypass-governance-retention`,
    dialect === 'amz' ? 'x-store-acl' : 'x-amz-acl',
    dialect === 'amz' ? 'x-store-date' : 'x-amz-date',
    dialect === 'amz' ? 'x-store-content-sha256' : 'x-amz-content-sha256',
  ])('refuses %s that was added after signing', async (name) => {
    const request = client.request({ method: 'PUT', path: '/b/k', unsignedHeaders: { [name]: 'anything' } });
    expect(await refusalCode(request)).toBe('AccessDenied');
  });

  test.each([
    ['amz-sdk-request', 'attempt=1; max=3'],
    ['amz-sdk-invocation-id', '00000000-0000-0000-0000-000000000000'],
    [`${prefix}user-agent`, 'a browser'],
    ['x-amzn-trace-id', 'Root=1'],
    ['accept-encoding', 'identity'],
    ['x-forwarded-for', '10.0.0.1'],
    ['expect', '100-continue'],
  ])('accepts an unsigned %s, which proxies and clients add', async (name, value) => {
    const request = client.request({ path: '/b/k', unsignedHeaders: { [name]: value } });
    expect((await check(request)).identity).toBeDefined();
  });

  test('lets date and declared payload stay out of the signed headers, since the signature covers them', async () => {
    const request = client.request({
      tamper: { signedHeaders: (names) => names.filter((name) => !/date|sha256/.test(name)) },
    });
    expect((await check(request)).identity).toBeDefined();
  });

  test('refuses a repeated Authorization', async () => {
    const request = proper();
    const again = request.headers.find(([name]) => name === 'authorization') as [string, string];
    expect(await refusalCode({ ...request, headers: [...request.headers, again] })).toBe('InvalidArgument');
  });

  test.each(['X-Amz-Signature=0', 'X-Store-Credential=a', 'X-Amz-Algorithm=AWS4-HMAC-SHA256', 'Signature=a'])(
    'refuses a header together with the query %s',
    async (query) => {
      const [name, value] = query.split('=') as [string, string];
      expect(await refusalCode(client.request({ query: { [name]: value } }))).toBe('InvalidArgument');
    },
  );

  test('accepts a signature for the empty region, as mc admin makes it, unless regions are strict', async () => {
    const unnamed = signAs({ dialect, region: '' });
    expect((await check(unnamed.request())).identity).toBeDefined();
    expect(
      (await check(unnamed.request({ method: 'PUT', body: 'x', payload: 'streaming' }))).identity,
    ).toBeDefined();
    const strict = { regionStrict: true, region: 'eu-north-1' };
    expect((await refusal(unnamed.request(), strict)).code).toBe('AuthorizationHeaderMalformed');
  });

  test('accepts us-east-1 for the strict region default, which GetBucketLocation shows as empty', async () => {
    const strict = { regionStrict: true, region: 'default' };
    for (const region of ['default', 'us-east-1'])
      expect((await check(signAs({ dialect, region }).request(), strict)).identity).toBeDefined();
    for (const region of ['eu-west-1', ''])
      expect((await refusal(signAs({ dialect, region }).request(), strict)).code).toBe(
        'AuthorizationHeaderMalformed',
      );
  });

  describe('over accept-encoding', () => {
    const signedWith = (value: string, more: object = {}) =>
      client.request({ path: '/b/a%20k', headers: { 'accept-encoding': value }, ...more });
    const arrivingWith = (request: SignedRequest, value: string | undefined) => ({
      ...request,
      headers: [
        ...request.headers.filter(([name]) => name !== 'accept-encoding'),
        ...(value === undefined ? [] : [['accept-encoding', value] as [string, string]]),
      ],
    });

    test.each(['identity', 'gzip', 'gzip, deflate', 'gzip,deflate'])(
      'is accepted where a proxy rewrote %s, which SDKs sign',
      async (value) => {
        for (const arriving of [value, 'gzip, br', 'anything', '', undefined])
          expect((await check(arrivingWith(signedWith(value), arriving))).identity).toBeDefined();
      },
    );

    test('covers everything else as before', async () => {
      const rewritten = arrivingWith(signedWith('identity'), 'gzip, br');
      for (const change of [
        (r: SignedRequest) => ({ ...r, method: 'DELETE' }),
        (r: SignedRequest) => ({ ...r, target: r.target.replace('k', 'l') }),
        (r: SignedRequest) => ({ ...r, target: `${r.target}?acl` }),
        (r: SignedRequest) => replaceHeader(r, 'host', () => 'other.test:9000'),
        (r: SignedRequest) => replaceHeader(r, `${prefix}date`, (v) => v.replace('120000', '120001')),
        (r: SignedRequest) => withAuthorization(r, (v) => v.slice(0, -64) + flip(v.slice(-64))),
      ])
        expect(await refusalCode(change(rewritten))).toBe('SignatureDoesNotMatch');
    });

    test('of another value, or where it is not signed, is refused when it changes', async () => {
      expect(await refusalCode(arrivingWith(signedWith('br;q=1'), 'gzip'))).toBe('SignatureDoesNotMatch');
      const refused = await refusal(arrivingWith(signedWith('br;q=1'), 'gzip'));
      expect(refused.message).toContain('accept-encoding');
      const unsigned = client.request({ path: '/b/k', unsignedHeaders: { 'accept-encoding': 'identity' } });
      const claimed = withAuthorization(unsigned, (v) =>
        v.replace('SignedHeaders=', 'SignedHeaders=accept-encoding;'),
      );
      expect(await refusalCode(claimed)).toBe('SignatureDoesNotMatch');
    });
  });

  test('refuses another region where regions are strict, and names the right one', async () => {
    const strict = { regionStrict: true, region: 'eu-north-1' };
    expect((await check(signAs({ dialect, region: 'eu-north-1' }).request(), strict)).identity).toBeDefined();
    const refused = await refusal(proper(), strict);
    expect(refused.code).toBe('AuthorizationHeaderMalformed');
    expect(refused.details.elements).toEqual({ Region: 'eu-north-1' });
  });

  test.each(['other', ''])('a wrong secret, here "%s", does not match', async (secretKey) => {
    expect(await refusalCode(signAs({ dialect, secretKey }).request())).toBe('SignatureDoesNotMatch');
  });

  test('a mismatch shows the signed texts, and neither secret nor signature', async () => {
    const request = signAs({ dialect, secretKey: 'wrong' }).request({
      path: '/bucket/key',
      headers: { '*-server-side-encryption-customer-key': 'c2VjcmV0' },
    });
    const { details } = await refusal(request);
    const elements = details.elements as Record<string, string>;
    expect(elements['AWSAccessKeyId']).toBe(alice.accessKey);
    expect(elements['CanonicalRequest']).toMatch(/^GET\n\/bucket\/key\n/);
    expect(elements['StringToSign']).toMatch(/-HMAC-SHA256\n20261121T120000Z\n20261121\/us-east-1\/s3\//);
    const hex = (elements['StringToSignBytes'] as string).replaceAll(' ', '');
    expect(Buffer.from(hex, 'hex').toString()).toBe(elements['StringToSign']);
    const right = signAs({ dialect }).request({
      path: '/bucket/key',
      headers: { '*-server-side-encryption-customer-key': 'c2VjcmV0' },
    });
    const signature = right.headers.find(([name]) => name === 'authorization')?.[1].slice(-64) as string;
    const everything = JSON.stringify(elements);
    for (const secret of [alice.secretKey, signature, 'c2VjcmV0']) expect(everything).not.toContain(secret);
  });
});
