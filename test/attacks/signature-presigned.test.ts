/** Attack group 4 of docs/security.md: a presigned URL grants its operation, until it expires. */
import { describe, expect, test } from 'vitest';
import { hexSha256, type PresignSpec, type SignedRequest } from '../support/sign.ts';
import { check, now, refusal, refusalCode, signAs } from '../support/sign-check.ts';

const both = ['amz', 'store'] as const;
const second = 1000;
const minute = 60 * second;
const week = 604_800;

const withTarget = (request: SignedRequest, change: (target: string) => string): SignedRequest => ({
  ...request,
  target: change(request.target),
});
const withHeaders = (request: SignedRequest, headers: Record<string, string>): SignedRequest => ({
  ...request,
  headers: [...request.headers, ...Object.entries(headers)],
});

test('the last second of a year is a time, and a text with a field out of its range is none', async () => {
  const at = Date.UTC(2026, 11, 31, 23, 59, 59);
  const request = signAs({ now: () => at }).presign({ path: '/bucket/key' });
  expect((await check(request, { at })).identity?.owner).toBe('account-alice');
  const codes: Record<string, string | undefined> = {};
  // 60 is out of range for minutes and seconds; `:` and `/` are next to the digits in ASCII.
  const texts = [
    '20261331T120000Z',
    '20260031T120000Z',
    '20261232T120000Z',
    '20261200T120000Z',
    '20261231T240000Z',
    '20261231T236000Z',
    '20261231T235960Z',
    '20261231T12000:Z',
    '2026123/T120000Z',
    '19691231T235959Z',
    '20261231T120000X',
  ];
  for (const text of texts) {
    const target = request.target.replace('20261231T235959Z', text).replace('20261231', text.slice(0, 8));
    codes[text] = await refusalCode({ ...request, target }, { at });
  }
  expect(codes).toEqual(Object.fromEntries(texts.map((text) => [text, 'AuthorizationQueryParametersError'])));
});

describe.each(both)('in the dialect %s', (dialect) => {
  const client = signAs({ dialect });
  const prefix = dialect === 'amz' ? 'x-amz-' : 'x-store-';
  const query = dialect === 'amz' ? 'X-Amz-' : 'X-Store-';
  const presigned = (spec: PresignSpec = {}) => client.presign({ path: '/bucket/key', ...spec });

  test('a valid one is accepted, with any body', async () => {
    expect((await check(presigned())).identity?.owner).toBe('account-alice');
    const { content, dialect: spoken } = await check(presigned({ method: 'PUT', body: 'anything' }));
    expect(Buffer.from(content).toString()).toBe('anything');
    expect(spoken).toBe(dialect);
  });

  test.each([
    [1, 1 * second, undefined],
    [1, 2 * second, 'AccessDenied'],
    [week, week * second, undefined],
    [week, week * second + 1, 'AccessDenied'],
    [900, -15 * minute, undefined],
    [900, -15 * minute - 1, 'AccessDenied'],
  ])('valid for %i s and used %i ms after signing: %s', async (expires, after, code) => {
    const options = { at: now + after };
    if (code === undefined) expect((await check(presigned({ expires }), options)).identity).toBeDefined();
    else expect(await refusalCode(presigned({ expires }), options)).toBe(code);
  });

  test('is refused as expired, with the time of its expiration', async () => {
    const refused = await refusal(presigned({ expires: 60 }), { at: now + 61 * second });
    expect(refused.message).toBe('Request has expired');
    expect(refused.details.elements).toEqual({
      [`${query}Expires`]: '60',
      Expires: '2026-11-21T12:01:00Z',
      ServerTime: '2026-11-21T12:01:01Z',
    });
  });

  test('is refused as not yet valid, with the time of the server', async () => {
    const refused = await refusal(presigned(), { at: now - 15 * minute - second });
    expect([refused.code, refused.message]).toEqual(['AccessDenied', 'Request is not yet valid']);
    expect(refused.details.elements).toEqual({
      [`${query}Date`]: '20261121T120000Z',
      ServerTime: '2026-11-21T11:44:59Z',
    });
  });

  test('of another service needs no expiry, is valid for 15 minutes, and covers its empty body', async () => {
    const tamper = { contentSha256: hexSha256('') };
    const url = signAs({ dialect, service: 'sts' }).presign({ path: '/', expires: 'missing', tamper });
    const options = { isActionQuery: true };
    expect((await check(url, { ...options, at: now + 15 * minute })).identity?.owner).toBe('account-alice');
    expect(await refusalCode(url, { ...options, at: now + 15 * minute + second })).toBe('AccessDenied');
    expect(await refusalCode(presigned({ expires: 'missing' }))).toBe('AuthorizationQueryParametersError');
  });

  test.each([
    0,
    week + 1,
    -1,
    '18446744073709551617',
    '999999999999999999999999',
    '1e3',
    '0x10',
    '',
    ' 60',
    '60 ',
  ])('a life of "%s" seconds is refused, though it is signed', async (expires) => {
    expect(await refusalCode(presigned({ expires }))).toBe('AuthorizationQueryParametersError');
  });

  test.each<[string, string, (target: string) => string]>([
    ['a longer life', 'SignatureDoesNotMatch', (t) => t.replace('Expires=900', 'Expires=901')],
    ['a later date', 'SignatureDoesNotMatch', (t) => t.replace('T120000Z', 'T120001Z')],
    ['another key', 'SignatureDoesNotMatch', (t) => t.replace('/key', '/other')],
    ['an added versionId', 'SignatureDoesNotMatch', (t) => `${t}&versionId=1`],
    ['an added uploadId', 'SignatureDoesNotMatch', (t) => `${t}&uploadId=1&partNumber=1`],
    ['an added sub-resource', 'SignatureDoesNotMatch', (t) => `${t}&acl`],
    ['an added override', 'SignatureDoesNotMatch', (t) => `${t}&response-content-type=text/html`],
    ['an added header in the query', 'SignatureDoesNotMatch', (t) => `${t}&${prefix}acl=public-read`],
    [
      'an added payload declaration',
      'SignatureDoesNotMatch',
      (t) => `${t}&${query}Content-Sha256=UNSIGNED-PAYLOAD`,
    ],
    ['another region', 'SignatureDoesNotMatch', (t) => t.replace('us-east-1', 'eu-west-1')],
    [
      'another signature',
      'SignatureDoesNotMatch',
      (t) => t.replace(/Signature=.*/, `Signature=${'0'.repeat(64)}`),
    ],
    [
      'a second signature',
      'AuthorizationQueryParametersError',
      (t) => `${t}&${query}Signature=${'0'.repeat(64)}`,
    ],
    ['a second life', 'AuthorizationQueryParametersError', (t) => `${t}&${query}Expires=900`],
    ['a second credential', 'AuthorizationQueryParametersError', (t) => `${t}&${query}Credential=x`],
    ['no signature', 'AuthorizationQueryParametersError', (t) => t.replace(/&[^&]*Signature=.*/, '')],
    ['no life', 'AuthorizationQueryParametersError', (t) => t.replace(/&[^&]*Expires=900/, '')],
    ['no date', 'AuthorizationQueryParametersError', (t) => t.replace(/&[^&]*Date=[^&]*/, '')],
    [
      'a date of another form',
      'AuthorizationQueryParametersError',
      (t) => t.replace('20261121T120000Z', '2026-11-21'),
    ],
    [
      'another algorithm',
      'AuthorizationQueryParametersError',
      (t) => t.replace('HMAC-SHA256', 'ECDSA-P256-SHA256'),
    ],
    ['another service', 'AuthorizationQueryParametersError', (t) => t.replace('%2Fs3%2F', '%2Fsts%2F')],
    [
      'another day in the scope',
      'AuthorizationQueryParametersError',
      (t) => t.replace('%2F20261121%2F', '%2F20261120%2F'),
    ],
    [
      'a line feed in the signed headers',
      'AuthorizationQueryParametersError',
      (t) => t.replace('SignedHeaders=host', 'SignedHeaders=host%0Aa'),
    ],
    ['an empty region', 'SignatureDoesNotMatch', (t) => t.replace('us-east-1', '')],
    [
      'a line feed in the region',
      'AuthorizationQueryParametersError',
      (t) => t.replace('us-east-1', 'us%0Aeast'),
    ],
    [
      'no signed headers',
      'AuthorizationQueryParametersError',
      (t) => t.replace('SignedHeaders=host', 'SignedHeaders='),
    ],
    ['host not signed', 'AccessDenied', (t) => t.replace('SignedHeaders=host', 'SignedHeaders=range')],
    ['an unknown access key', 'InvalidAccessKeyId', (t) => t.replace('AKIDALICE', 'AKIDBOB')],
    ['a blank access key', 'InvalidAccessKeyId', (t) => t.replace('AKIDALICE', '')],
    [
      'signing queries of the other dialect',
      'InvalidArgument',
      (t) => `${t}&${dialect === 'amz' ? 'X-Store-' : 'X-Amz-'}Signature=0`,
    ],
    ['a version 2 signature', 'InvalidArgument', (t) => `${t}&Signature=0`],
  ])('refuses %s by %s', async (_, code, change) => {
    expect(await refusalCode(withTarget(presigned(), change))).toBe(code);
  });

  test.each(['PUT', 'DELETE', 'POST', 'HEAD'])('a URL for GET is refused for %s', async (method) => {
    expect(await refusalCode({ ...presigned(), method })).toBe('SignatureDoesNotMatch');
  });

  test.each([
    'acl',
    'tagging',
    'copy-source',
    'object-lock-mode',
    'object-lock-legal-hold',
    'website-redirect-location',
    'storage-class',
    'meta-a',
    'server-side-encryption',
    'grant-full-control',
    'security-token',
  ])('an added header %s is refused (GHSA-g8w9, GHSA-xm99), and a signed one is not', async (name) => {
    const added = withHeaders(presigned({ method: 'PUT', body: 'x' }), { [prefix + name]: 'value' });
    const refused = await refusal(added);
    expect(refused.code).toBe('AccessDenied');
    expect(refused.details.elements).toEqual({ HeadersNotSigned: prefix + name });
    if (name === 'security-token') return;
    const signed = presigned({ method: 'PUT', body: 'x', headers: { [`*-${name}`]: 'value' } });
    expect((await check(signed)).identity).toBeDefined();
  });

  test.each([
    [
      'the other dialect',
      { [dialect === 'amz' ? 'x-store-acl' : 'x-amz-acl']: 'public-read' },
      'AccessDenied',
    ],
    ['a declared hash', { [`${prefix}content-sha256`]: hexSha256('x') }, 'SignatureDoesNotMatch'],
    [
      'unsigned chunks',
      { [`${prefix}content-sha256`]: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER' },
      'SignatureDoesNotMatch',
    ],
    ['an Authorization', { authorization: 'AWS4-HMAC-SHA256 Credential=a' }, 'InvalidArgument'],
  ])('an added header of %s is refused', async (_, headers, code) => {
    expect(await refusalCode(withHeaders(presigned({ method: 'PUT', body: 'x' }), headers))).toBe(code);
  });

  test('an added UNSIGNED-PAYLOAD header equals what was signed, and is accepted', async () => {
    const request = withHeaders(presigned({ method: 'PUT', body: 'x' }), {
      [`${prefix}content-sha256`]: 'UNSIGNED-PAYLOAD',
    });
    expect((await check(request)).identity).toBeDefined();
  });

  test.each([
    ['its content', 'x', undefined],
    ['another content', 'y', 'XAmzContentSHA256Mismatch'],
  ])('a signed hash holds for %s', async (_, body, code) => {
    const request = presigned({ method: 'PUT', body, headers: { '*-content-sha256': hexSha256('x') } });
    if (code === undefined) expect((await check(request)).payload.sha256?.hex).toBe(hexSha256('x'));
    else expect(await refusalCode(request)).toBe(code);
  });

  test('a moved declaration holds like a header', async () => {
    const request = presigned({
      method: 'PUT',
      body: 'x',
      query: { [`${query}Content-Sha256`]: hexSha256('x') },
      tamper: { contentSha256: hexSha256('x') },
    });
    expect((await check(request)).payload.sha256?.hex).toBe(hexSha256('x'));
    expect(await refusalCode({ ...request, body: Buffer.from('y') })).toBe('XAmzContentSHA256Mismatch');
  });

  test('the holder of a presigned URL cannot sign chunks', async () => {
    const declared = `STREAMING-${dialect === 'amz' ? 'AWS4' : 'STORE4'}-HMAC-SHA256-PAYLOAD`;
    const request = presigned({ method: 'PUT', body: 'x', headers: { '*-content-sha256': declared } });
    expect(await refusalCode(request)).toBe('InvalidRequest');
  });

  test.each(['foreign', 'expired', ''])('a session token is refused, here a %s one', async (token) => {
    expect(await refusalCode(presigned({ query: { [`${query}Security-Token`]: token } }))).toBe(
      'InvalidToken',
    );
    expect(await refusalCode(client.request({ headers: { '*-security-token': token } }))).toBe(
      'InvalidToken',
    );
  });

  test('a strict region holds for queries too', async () => {
    const refused = await refusal(presigned(), { regionStrict: true, region: 'eu-north-1' });
    expect(refused.code).toBe('AuthorizationQueryParametersError');
  });
});
