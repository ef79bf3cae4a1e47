/** Customer keys (SSE-C): required for each request, refused over plain HTTP, never stored. */
import { describe, expect, test } from 'vitest';
import { customer, encryptingSettings, type Headers, service } from '../support/encryption.ts';
import { openGateway } from '../support/gateway.ts';
import { bytesOf, complete, MiB } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';

const open = async () => {
  const world = await openGateway({ settings: await encryptingSettings() });
  await world.client.put('/bucket');
  return world;
};
const outcome = ({ status, code }: Answer) => [status, code];
const stored = /stored using a form of Server Side Encryption/;
const prefix = '*-server-side-encryption-customer';

describe('without the right key', () => {
  test('nothing about the object is revealed', async () => {
    await using world = await open();
    await world.client.put('/bucket/key', { body: 'secret', headers: customer(1) });
    const none = await world.client.get('/bucket/key');
    expect([...outcome(none), none.one('Message')]).toEqual([
      400,
      'InvalidRequest',
      expect.stringMatching(stored),
    ]);
    expect(outcome(await world.client.get('/bucket/key', { headers: customer(2) }))).toEqual([
      403,
      'AccessDenied',
    ]);
    const attributes = { '*-object-attributes': 'ObjectSize' };
    const asked = await world.client.get('/bucket/key?attributes', { headers: attributes });
    expect(outcome(asked)).toEqual([400, 'InvalidRequest']);
    for (const [headers, status] of [
      [{}, 400],
      [customer(2), 403],
    ] as const) {
      const head = await world.client.head('/bucket/key', { headers });
      expect([head.status, head.header('etag'), head.header('content-length')]).toEqual([
        status,
        undefined,
        undefined,
      ]);
    }
    const matching = await world.client.get('/bucket/key', {
      headers: { ...customer(2), 'if-none-match': '*' },
    });
    expect(matching.status).toBe(403);
    expect((await world.client.get('/bucket/key', { headers: customer(1) })).text).toBe('secret');
  });

  test('it cannot be copied, whole or in part', async () => {
    await using world = await open();
    await world.client.put('/bucket/key', { body: 'secret', headers: customer(1) });
    const created = await world.client.post('/bucket/parts?uploads');
    const query = { uploadId: created.one('UploadId') ?? '', partNumber: '1' };
    const source = { '*-copy-source': 'bucket/key' };
    for (const [more, expected] of [
      [{}, [400, 'InvalidRequest']],
      [customer(2, 'copy-source-'), [403, 'AccessDenied']],
      // The copy is encrypted under another key than its source.
      [customer(1), [400, 'InvalidRequest']],
    ] as const) {
      const headers = { ...source, ...more };
      expect(outcome(await world.client.put('/bucket/copy', { headers }))).toEqual(expected);
      expect((await world.client.put('/bucket/parts', { query, headers })).status).toBe(expected[0]);
    }
    expect((await world.client.head('/bucket/copy')).status).toBe(404);
  });

  test('a copy may change the key', async () => {
    await using world = await open();
    await world.client.put('/bucket/key', { body: 'secret', headers: customer(1) });
    const headers = { '*-copy-source': 'bucket/key', ...customer(1, 'copy-source-'), ...customer(2) };
    expect((await world.client.put('/bucket/key', { headers })).status).toBe(200);
    expect((await world.client.get('/bucket/key', { headers: customer(1) })).status).toBe(403);
    expect((await world.client.get('/bucket/key', { headers: customer(2) })).text).toBe('secret');
  });

  test('deleting and listing need none', async () => {
    await using world = await open();
    await world.client.put('/bucket/key', { body: 'secret', headers: customer(1) });
    expect((await world.client.get('/bucket?list-type=2')).all('Key')).toEqual(['key']);
    expect((await world.client.delete('/bucket/key')).status).toBe(204);
  });
});

test('a key for what was not encrypted with one is refused', async () => {
  await using world = await open();
  await world.client.put('/bucket/plain', { body: 'text' });
  await world.client.put('/bucket/service', { body: 'text', headers: service });
  for (const path of ['/bucket/plain', '/bucket/service']) {
    expect(outcome(await world.client.get(path, { headers: customer() }))).toEqual([400, 'InvalidRequest']);
    expect((await world.client.head(path, { headers: customer() })).status).toBe(400);
    const headers = { '*-copy-source': path, ...customer(1, 'copy-source-') };
    expect(outcome(await world.client.put('/bucket/copy', { headers }))).toEqual([400, 'InvalidRequest']);
  }
});

describe('the parts of an upload', () => {
  test('need the key of its creation, each of them', async () => {
    await using world = await open();
    const created = await world.client.post('/bucket/key?uploads', { headers: customer(1) });
    const uploadId = created.one('UploadId') ?? '';
    const part = (headers: Headers, partNumber = '1') =>
      world.client.put('/bucket/key', { query: { uploadId, partNumber }, body: bytesOf(5 * MiB), headers });
    const message = async (headers: Headers) => {
      const refused = await part(headers);
      return [...outcome(refused), refused.one('Message')];
    };
    expect(await message({})).toEqual([
      400,
      'InvalidRequest',
      expect.stringMatching(/Subsequent part requests/),
    ]);
    expect(await message(customer(2))).toEqual([
      400,
      'InvalidRequest',
      expect.stringMatching(/did not match/),
    ]);
    const first = await part(customer(1));
    const second = await part(customer(1), '2');
    const parts = [first, second].map((each, i) => ({ number: i + 1, etag: each.header('etag') ?? '' }));
    const completion = (headers: Headers) =>
      complete(world.client, '/bucket/key', { uploadId, parts, ask: { headers } });
    const listing = (headers: Headers) => world.client.get('/bucket/key', { query: { uploadId }, headers });
    for (const act of [listing, completion]) {
      const refused = await act(customer(2));
      expect([...outcome(refused), refused.one('Message')]).toEqual([
        400,
        'InvalidRequest',
        expect.stringMatching(/did not match/),
      ]);
    }
    for (const headers of [{}, customer(1)]) expect((await listing(headers)).status).toBe(200);
    // The key is optional: no part is read. A completion that is repeated has the same result.
    for (const headers of [{}, customer(1)]) expect((await completion(headers)).status).toBe(200);
    expect(outcome(await completion(customer(2)))).toEqual([400, 'InvalidRequest']);
    expect((await world.client.get('/bucket/key', { headers: customer(1) })).bytes.length).toBe(10 * MiB);
  });

  test('take none where the upload has none', async () => {
    await using world = await open();
    for (const headers of [{}, service]) {
      const created = await world.client.post('/bucket/key?uploads', { headers });
      const query = { uploadId: created.one('UploadId') ?? '', partNumber: '1' };
      const { uploadId } = query;
      const etag = (await world.client.put('/bucket/key', { query, body: 'x' })).header('etag') ?? '';
      for (const refused of [
        await world.client.put('/bucket/key', { query, body: 'x', headers: customer(1) }),
        await world.client.get('/bucket/key', { query: { uploadId }, headers: customer(1) }),
        await complete(world.client, '/bucket/key', {
          uploadId,
          parts: [{ number: 1, etag }],
          ask: { headers: customer(1) },
        }),
      ])
        expect(outcome(refused)).toEqual([400, 'InvalidRequest']);
    }
  });
});

describe('a key that is none', () => {
  const good = customer(1);
  const without = (name: string): Headers =>
    Object.fromEntries(Object.entries(good).filter(([known]) => known !== `${prefix}-${name}`));
  const short = Buffer.alloc(16, 1).toString('base64');
  const cases: readonly (readonly [string, Headers])[] = [
    ['no algorithm', without('algorithm')],
    ['another algorithm', { ...good, [`${prefix}-algorithm`]: 'AES128' }],
    ['no key', without('key')],
    ['no MD5', without('key-MD5')],
    ['a key of 16 bytes', { ...good, [`${prefix}-key`]: short }],
    ['a key that is no base64', { ...good, [`${prefix}-key`]: '!'.repeat(44) }],
    ['an empty key', { ...good, [`${prefix}-key`]: '' }],
    ['the MD5 of another key', { ...good, [`${prefix}-key-MD5`]: customer(2)[`${prefix}-key-MD5`] ?? '' }],
    ['an MD5 that is none', { ...good, [`${prefix}-key-MD5`]: 'x' }],
  ];
  test.each(cases)('%s', async (name, headers) => {
    await using world = await open();
    await world.client.put('/bucket/there', { body: 'text', headers: good });
    for (const refused of [
      await world.client.put('/bucket/key', { body: 'x', headers }),
      await world.client.post('/bucket/key?uploads', { headers }),
      await world.client.get('/bucket/there', { headers }),
    ]) {
      const code = name === 'another algorithm' ? 'InvalidEncryptionAlgorithmError' : 'InvalidArgument';
      expect(outcome(refused)).toEqual([400, code]);
      const key = good[`${prefix}-key`] ?? '';
      expect(refused.text).not.toContain(key);
    }
  });
});

describe('over plain HTTP', () => {
  const settings = { SVC_SSE_C_REQUIRE_TLS: 'true' } as const;

  test('keys are refused, of the object and of a source', async () => {
    await using world = await openGateway({ settings });
    await world.client.put('/bucket');
    await world.client.put('/bucket/plain', { body: 'text' });
    for (const headers of [customer(), { '*-copy-source': 'bucket/plain', ...customer(1, 'copy-source-') }]) {
      const refused = await world.client.put('/bucket/key', { body: '', headers });
      expect([...outcome(refused), refused.one('Message')]).toEqual([
        400,
        'InvalidRequest',
        expect.stringMatching(/secure connection/),
      ]);
    }
    expect(outcome(await world.client.get('/bucket/plain', { headers: customer() }))).toEqual([
      400,
      'InvalidRequest',
    ]);
    expect((await world.client.put('/bucket/key', { body: 'x', headers: service })).status).toBe(200);
  });

  test('X-Forwarded-Proto is believed from a trusted proxy only', async () => {
    const headers = { ...customer(), 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.7' };
    await using trusted = await openGateway({
      settings: { ...settings, SVC_TRUSTED_PROXIES: '127.0.0.1/32' },
    });
    await trusted.client.put('/bucket');
    expect((await trusted.client.put('/bucket/key', { body: 'x', headers })).status).toBe(200);
    expect((await trusted.client.get('/bucket/key', { headers })).text).toBe('x');
    await using open = await openGateway({ settings: { ...settings, SVC_TRUSTED_PROXIES: '10.0.0.0/8' } });
    await open.client.put('/bucket');
    expect(outcome(await open.client.put('/bucket/key', { body: 'x', headers }))).toEqual([
      400,
      'InvalidRequest',
    ]);
  });
});

test('a key in a URL is not taken: URLs are logged', async () => {
  await using world = await open();
  const query = Object.entries(customer(1)).map(
    ([name, value]) => [name.replace('*-', 'X-Amz-'), value] as const,
  );
  const put = await world.client.presigned('PUT', '/bucket/key', {
    body: 'text',
    query: query.map(([a, b]) => [a, b]),
  });
  expect(outcome(put)).toEqual([400, 'InvalidArgument']);
  const headed = await world.client.presigned('PUT', '/bucket/key', { body: 'text', headers: customer(1) });
  expect(headed.status).toBe(200);
});
