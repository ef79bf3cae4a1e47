/** Cross-origin requests: preflights of any caller, and the headers of the requests that follow. */
import { describe, expect, test } from 'vitest';
import type { CorsRule } from '../../src/domain/configurations/families.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

const origin = 'https://app.example';
const rule: CorsRule = {
  AllowedOrigin: [origin, 'https://*.partner.example'],
  AllowedMethod: ['GET', 'PUT'],
  AllowedHeader: ['Content-*', 'x-amz-meta-*'],
  ExposeHeader: ['ETag', 'x-amz-version-id'],
  MaxAgeSeconds: 3000,
};
const open: CorsRule = { AllowedOrigin: ['*'], AllowedMethod: ['HEAD'], AllowedHeader: [], ExposeHeader: [] };

const elements = Object.keys(rule) as (keyof CorsRule)[];
async function allow(world: GatewayWorld, ...rules: readonly CorsRule[]): Promise<void> {
  const bodies = rules.map((each) =>
    elements
      .flatMap((name) => [each[name] ?? []].flat().map((value) => `<${name}>${value}</${name}>`))
      .join(''),
  );
  const body = `<CORSConfiguration>${bodies.map((each) => `<CORSRule>${each}</CORSRule>`).join('')}</CORSConfiguration>`;
  expect((await world.client.put('/bucket?cors', { body })).status).toBe(200);
}

const names = ['Origin', 'Methods', 'Headers', 'Credentials'].map((name) => `access-control-allow-${name}`);
const corsHeaders = (answer: Answer) => [
  ...names.map((name) => answer.header(name)),
  answer.header('access-control-expose-headers'),
  answer.header('access-control-max-age'),
];
const vary = 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method';
const nothing = Array(6).fill(undefined);

const preflight = (world: GatewayWorld, path: string, headers: Record<string, string>): Promise<Answer> =>
  world.anonymous.send('OPTIONS', path, { headers });
const asking = (method: string, from = origin, headers = '') => ({
  origin: from,
  'access-control-request-method': method,
  ...(headers === '' ? {} : { 'access-control-request-headers': headers }),
});

describe.each(backends)('on %s', (backend) => {
  test('a preflight that a rule allows gets the CORS headers, on bucket and key, with any query', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await allow(world, rule, open);
    for (const path of [
      '/bucket',
      '/bucket/no/such%20key',
      '/bucket/key?partNumber=1&uploadId=x',
      '/bucket?cors',
    ]) {
      const answer = await preflight(world, path, asking('PUT', origin, 'Content-Type,X-AMZ-Meta-a'));
      expect([answer.status, answer.text, answer.header('vary')], path).toEqual([200, '', vary]);
      expect(corsHeaders(answer)).toEqual([
        origin,
        'GET, PUT',
        'content-type, x-amz-meta-a',
        'true',
        'ETag, x-amz-version-id',
        '3000',
      ]);
    }
    const plain = await preflight(world, '/bucket/key', asking('HEAD', 'null'));
    expect([plain.status, ...corsHeaders(plain)]).toEqual([200, '*', 'HEAD', ...Array(4).fill(undefined)]);
  });

  test('a reply to an allowed origin can be read, also when it refuses; one to another origin cannot', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await allow(world, rule);
    const own = [origin, 'GET, PUT', undefined, 'true', 'ETag, x-amz-version-id', '3000'];
    const headers = { origin };
    expect(corsHeaders(await client.put('/bucket/key', { body: 'x', headers }))).toEqual(own);
    for (const [answer, status] of [
      [await client.get('/bucket/key', { headers }), 200],
      [await client.get('/bucket/key', { headers: { origin, range: 'bytes=9-' } }), 416],
      [await client.get('/bucket/key', { headers: { origin, 'if-none-match': '*' } }), 304],
      [await client.get('/bucket?list-type=2', { headers }), 200],
      [await client.get('/bucket/absent', { headers }), 404],
      [await anonymous.get('/bucket/key', { headers }), 403],
    ] as const) {
      expect([answer.status, ...corsHeaders(answer), answer.header('vary')]).toEqual([status, ...own, vary]);
    }
    const foreign = await client.get('/bucket/key', { headers: { origin: 'https://evil.example' } });
    expect([foreign.status, foreign.text, ...corsHeaders(foreign)]).toEqual([200, 'x', ...nothing]);
  });
});

test('a refused signature can be read by the page that sent it', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await allow(world, rule);
  const tamper = { signature: () => '0'.repeat(64) };
  const refused = await world.client.get('/bucket/key', { headers: { origin }, tamper });
  expect([refused.code, corsHeaders(refused)[0], refused.header('vary')]).toEqual([
    'SignatureDoesNotMatch',
    origin,
    vary,
  ]);
  const silent = await world.client.get('/bucket/key', { tamper });
  expect([silent.code, corsHeaders(silent)]).toEqual(['SignatureDoesNotMatch', nothing]);
});

test('the CORS rules of a bucket hold for its access points, by alias and by both host forms', async () => {
  await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.example.com' } });
  await world.client.put('/bucket');
  const row = { accessPoint: 'point' };
  const { alias } = (await operatorOf(world).must('POST', '/buckets/bucket/access-points', row)) as {
    readonly alias: string;
  };
  const label = `point-${alice.owner}`;
  const absent = `other-${alice.owner}`;
  const places = [
    [undefined, `/${alias}/key`],
    [`${alias}.s3.example.com`, '/key'],
    [`${label}.s3.example.com`, '/key'],
  ] as const;
  const ask = (host: string | undefined, path: string, headers: Record<string, string>) =>
    world.as({ anonymous: true, ...(host === undefined ? {} : { host }) }).send('OPTIONS', path, { headers });
  const message = async (host: string | undefined, path: string) => {
    const refused = await ask(host, path, asking('PUT'));
    return [refused.status, refused.code, refused.one('Message'), refused.one('ResourceType')];
  };
  // Whether an access point exists is not told where its bucket has no rules.
  const unknown = `${'x'.repeat(34)}-s3alias`;
  const disabled = await message(undefined, '/bucket/key');
  expect(await message(undefined, `/${alias}/key`)).toEqual(disabled);
  expect(await message(undefined, `/${unknown}/key`)).toEqual(disabled);
  expect(await message(`${alias}.s3.example.com`, '/key')).toEqual(disabled);
  expect(await message(`${unknown}.s3.example.com`, '/key')).toEqual(disabled);
  const missing = await message(`${absent}.s3.example.com`, '/key');
  expect(await message(`${label}.s3.example.com`, '/key')).toEqual(missing);

  await allow(world, rule);
  const tamper = { signature: () => '0'.repeat(64) };
  for (const [host, path] of places) {
    const preflighted = await ask(host, path, asking('PUT'));
    expect([preflighted.status, corsHeaders(preflighted)[0]], path).toEqual([200, origin]);
    expect((await ask(host, path, asking('DELETE'))).status).toBe(403);
    const client = host === undefined ? world.client : world.as({ host });
    const refused = await client.get(path, { headers: { origin }, tamper });
    expect([refused.code, corsHeaders(refused)[0]]).toEqual(['SignatureDoesNotMatch', origin]);
  }
  // In a path the label is the name of a bucket only.
  expect(await message(undefined, `/${label}/key`)).toEqual(missing);
});

test('a preflight may name a hundred headers, with white space between them, and none further', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await allow(world, rule);
  const headers = Array.from({ length: 100 }, (_, index) => `x-amz-meta-${index}`);
  const most = await preflight(world, '/bucket', asking('PUT', origin, headers.join(' ,\t')));
  expect([most.status, most.header('access-control-allow-headers')]).toEqual([200, headers.join(', ')]);
  expect(
    (await preflight(world, '/bucket', asking('PUT', origin, [...headers, 'x-amz-meta-100'].join()))).status,
  ).toBe(403);
});

test('the CORS headers of a preflight and of the request agree', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  await allow(world, rule);
  const first = async (headers: Record<string, string>) =>
    corsHeaders(await client.get('/bucket/key', { headers }))[0];
  expect(await first(asking('PUT'))).toBe(origin);
  expect(await first(asking('DELETE'))).toBeUndefined();
  expect(await first(asking('GET', origin, 'x-other'))).toBeUndefined();
  expect(corsHeaders(await client.delete('/bucket/key', { headers: { origin } }))).toEqual(nothing);
});

test('a bucket with CORS rules sends Vary, also without an Origin; a bucket without rules does not', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const without = await client.get('/bucket/key', { headers: { origin } });
  expect([without.header('vary'), corsHeaders(without)]).toEqual([undefined, nothing]);
  await allow(world, rule);
  const plain = await client.get('/bucket/key');
  expect([plain.header('vary'), corsHeaders(plain)]).toEqual([vary, nothing]);
  const head = await client.head('/bucket/key', { headers: asking('GET') });
  expect([head.header('vary'), corsHeaders(head)[0], head.text]).toEqual([vary, origin, '']);
});

describe('a preflight is refused', () => {
  test.each([
    [
      'without an origin',
      '/bucket',
      { 'access-control-request-method': 'GET' },
      400,
      'BadRequest',
      'Insufficient information. Origin request header needed.',
    ],
    [
      'with an empty origin',
      '/bucket',
      asking('GET', ''),
      400,
      'BadRequest',
      'Insufficient information. Origin request header needed.',
    ],
    [
      'without a method',
      '/bucket',
      { origin },
      400,
      'BadRequest',
      'Invalid Access-Control-Request-Method: null',
    ],
    ...['FOO', 'put', 'OPTIONS', 'PATCH'].map(
      (method) =>
        [
          `for the method ${method}, which no rule can allow`,
          '/bucket',
          asking(method),
          400,
          'BadRequest',
          `Invalid Access-Control-Request-Method: ${method}`,
        ] as const,
    ),
    ['of no bucket', '/absent/key', asking('GET'), 403, 'AccessForbidden', 'CORSResponse: Bucket not found'],
    [
      'of no possible bucket',
      `/${'x'.repeat(300)}`,
      asking('GET'),
      403,
      'AccessForbidden',
      'CORSResponse: Bucket not found',
    ],
    [
      'of a bucket without rules',
      '/bare',
      asking('GET'),
      403,
      'AccessForbidden',
      'CORSResponse: CORS is not enabled for this bucket.',
    ],
    [
      'from another origin',
      '/bucket/key',
      asking('GET', 'http://app.example'),
      403,
      'AccessForbidden',
      /^CORSResponse: This CORS request is not allowed\./,
    ],
    [
      'for another method',
      '/bucket/key',
      asking('DELETE'),
      403,
      'AccessForbidden',
      /^CORSResponse: This CORS request is not allowed\./,
    ],
    [
      'for another header',
      '/bucket/key',
      asking('GET', origin, 'content-type,authorization'),
      403,
      'AccessForbidden',
      /^CORSResponse: This CORS request is not allowed\./,
    ],
    [
      'for more headers than anybody sends',
      '/bucket/key',
      asking('GET', origin, Array(101).fill('content-type').join()),
      403,
      'AccessForbidden',
      /^CORSResponse: This CORS request is not allowed\./,
    ],
  ] as const)('%s', async (_, path, headers, status, code, message) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bare');
    await allow(world, rule);
    const answer = await preflight(world, path, headers);
    expect([answer.status, answer.code]).toEqual([status, code]);
    expect(answer.one('Message')).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    );
    expect(corsHeaders(answer)).toEqual(nothing);
    if (status === 403)
      expect(answer.one('Method')).toBe(headers['access-control-request-method' as never] ?? 'OPTIONS');
  });

  test('at the service, which has no rules', async () => {
    await using world = await openGateway();
    expect((await preflight(world, '/', asking('GET'))).status).toBe(405);
  });
});

test('a preflight of a presigned URL is answered without verifying the signature', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await allow(world, rule);
  const query = { 'X-Amz-Algorithm': 'AWS4-HMAC-SHA256', 'X-Amz-Signature': 'x', AWSAccessKeyId: 'x' };
  const answer = await world.anonymous.send('OPTIONS', '/bucket/key', { query, headers: asking('PUT') });
  expect([answer.status, corsHeaders(answer)[0]]).toEqual([200, origin]);
  const signed = await world.client.send('OPTIONS', '/bucket/key', {
    headers: { ...asking('PUT'), authorization: 'x' },
  });
  expect(signed.status).toBe(200);
});
