/** Every kind of encryption with every operation that it affects. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { customer, encryptingSettings, type Mode, modes, provider, service } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import {
  bytesOf,
  complete,
  completion,
  digest64,
  MiB,
  md5,
  setVersioning,
} from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';

const sizes = [1, 4096, 65_519, 65_520, 65_521, 3 * 65_520, 9 * MiB + 5];
const both = backends.flatMap((backend) => modes.map((mode) => [mode.name, backend, mode] as const));

const shownBy = (answer: Answer, { shown }: Mode) =>
  Object.fromEntries(Object.keys(shown).map((name) => [name, answer.header(name)]));

describe.each(both)('%s on %s', (_, backend, mode) => {
  let world: GatewayWorld;
  beforeAll(async () => {
    world = await openGateway({ backend, settings: await encryptingSettings() });
    await world.client.put('/bucket');
  });
  afterAll(() => world.close());

  test.each(sizes)('%i bytes are read unchanged, whole and in ranges', async (size) => {
    const body = bytesOf(size);
    const put = await world.client.put('/bucket/key', { body, headers: mode.write });
    expect([put.status, shownBy(put, mode)]).toEqual([200, mode.shown]);
    expect(put.header('etag') === `"${md5(body)}"`).toBe(!mode.hidesMd5);
    expect(put.header('etag')).toMatch(/^"[0-9a-f]{32}"$/);
    const got = await world.client.get('/bucket/key', { headers: mode.read });
    expect([got.status, got.header('content-length'), got.header('etag')]).toEqual([
      200,
      String(size),
      put.header('etag'),
    ]);
    expect(shownBy(got, mode)).toEqual(mode.shown);
    expect(Buffer.compare(got.bytes, body)).toBe(0);
    for (const [start, end] of [
      [0, 0],
      [size - 1, size - 1],
      [size >> 1, (size >> 1) + 70_000],
      [65_000, 66_000],
    ] as const) {
      if (start >= size) continue;
      const range = await world.client.get('/bucket/key', {
        headers: { ...mode.read, range: `bytes=${start}-${end}` },
      });
      expect([range.status, Buffer.compare(range.bytes, body.subarray(start, end + 1))]).toEqual([206, 0]);
    }
    const head = await world.client.head('/bucket/key', { headers: mode.read });
    expect([head.status, head.header('content-length'), shownBy(head, mode)]).toEqual([
      200,
      String(size),
      mode.shown,
    ]);
    const attributes = await world.client.get('/bucket/key?attributes', {
      headers: { ...mode.read, '*-object-attributes': 'ObjectSize,ETag' },
    });
    expect([attributes.one('ObjectSize'), `"${attributes.one('ETag')}"`]).toEqual([
      String(size),
      put.header('etag'),
    ]);
  });

  test('an empty object is one too', async () => {
    const put = await world.client.put('/bucket/empty', { body: '', headers: mode.write });
    expect([put.status, shownBy(put, mode)]).toEqual([200, mode.shown]);
    const got = await world.client.get('/bucket/empty', { headers: mode.read });
    expect([got.status, got.text, shownBy(got, mode)]).toEqual([200, '', mode.shown]);
  });

  test('checksums are of the content, and so are claims about it', async () => {
    const body = bytesOf(100_000);
    const headers = { ...mode.write, '*-checksum-sha256': digest64('sha256', body) };
    const put = await world.client.put('/bucket/sum', { body, headers });
    expect([put.status, put.header('*-checksum-sha256')]).toEqual([200, digest64('sha256', body)]);
    const got = await world.client.get('/bucket/sum', {
      headers: { ...mode.read, '*-checksum-mode': 'ENABLED' },
    });
    expect(got.header('*-checksum-sha256')).toBe(digest64('sha256', body));
    const wrong = { ...mode.write, 'content-md5': digest64('md5', 'other') };
    expect((await world.client.put('/bucket/wrong', { body, headers: wrong })).code).toBe('BadDigest');
  });

  test('usage and listings count the content', async () => {
    await world.client.put('/counted');
    await world.client.put('/counted/key', { body: bytesOf(200_000), headers: mode.write });
    expect(await world.usage('counted')).toEqual({ bytes: 200_000, objects: 1 });
    expect((await world.client.get('/counted?list-type=2')).one('Size')).toBe('200000');
  });

  test('a multipart upload is read whole, by part and in ranges, with the right sizes', async () => {
    const bodies = [bytesOf(5 * MiB, 2), bytesOf(6 * MiB + 7, 3), bytesOf(99, 4)];
    const whole = Buffer.concat(bodies);
    const created = await world.client.post('/bucket/parts?uploads', { headers: mode.write });
    expect([created.status, shownBy(created, mode)]).toEqual([200, mode.shown]);
    const uploadId = created.one('UploadId') ?? '';
    const parts = [];
    for (const [i, body] of bodies.entries()) {
      const query = { uploadId, partNumber: String(i + 1) };
      // The part is sent twice: the second one replaces the first.
      await world.client.put('/bucket/parts', { query, body: bytesOf(5 * MiB, 9), headers: mode.read });
      const stored = await world.client.put('/bucket/parts', { query, body, headers: mode.read });
      expect([stored.status, shownBy(stored, mode)]).toEqual([200, mode.shown]);
      expect(stored.header('etag') === `"${md5(body)}"`).toBe(!mode.hidesMd5);
      parts.push({ number: i + 1, etag: stored.header('etag') ?? '' });
    }
    const listed = await world.client.get('/bucket/parts', { query: { uploadId } });
    expect(listed.all('Size')).toEqual(bodies.map((body) => String(body.length)));
    const done = await complete(world.client, '/bucket/parts', {
      uploadId,
      parts,
      ask: { headers: { '*-mp-object-size': String(whole.length) } },
    });
    expect([done.status, done.one('ETag')]).toEqual([200, expect.stringMatching(/^"[0-9a-f]{32}-3"$/)]);
    const got = await world.client.get('/bucket/parts', { headers: mode.read });
    expect(Buffer.compare(got.bytes, whole)).toBe(0);
    const border = 5 * MiB;
    const range = await world.client.get('/bucket/parts', {
      headers: { ...mode.read, range: `bytes=${border - 70_000}-${border + 70_000}` },
    });
    expect(Buffer.compare(range.bytes, whole.subarray(border - 70_000, border + 70_001))).toBe(0);
    const second = await world.client.get('/bucket/parts?partNumber=2', { headers: mode.read });
    expect([second.status, Buffer.compare(second.bytes, bodies[1] as Uint8Array)]).toEqual([206, 0]);
    // A retry of the completion gets the same answer.
    const again = await world.client.post('/bucket/parts', { query: { uploadId }, body: completion(parts) });
    expect([again.status, again.one('ETag')]).toEqual([200, done.one('ETag')]);
    for (const answer of [done, again]) {
      // The answer names the encryption, but repeats no header of a customer key (public API).
      const named = mode.shown['*-server-side-encryption'];
      expect(answer.header('*-server-side-encryption')).toBe(named);
    }
    await world.gc();
    const still = await world.client.get('/bucket/parts', { headers: mode.read });
    expect(Buffer.compare(still.bytes, whole)).toBe(0);
  });

  test('a copy is decrypted, and encrypted as its request asks, under another key', async () => {
    const body = bytesOf(300_000);
    await world.client.put('/bucket/source', { body, headers: mode.write });
    for (const to of [...modes, undefined]) {
      const headers = { '*-copy-source': '/bucket/source', ...mode.source, ...to?.write };
      const copied = await world.client.put('/bucket/copy', { headers });
      expect([copied.status, shownBy(copied, to ?? mode)]).toEqual([
        200,
        to?.shown ?? Object.fromEntries(Object.keys(mode.shown).map((name) => [name, undefined])),
      ]);
      const got = await world.client.get('/bucket/copy', { headers: to?.read ?? {} });
      expect(Buffer.compare(got.bytes, body)).toBe(0);
      expect(got.header('etag')).toBe(copied.one('ETag'));
    }
  });

  test('a part is copied from it, and into it', async () => {
    const body = bytesOf(300_000);
    await world.client.put('/bucket/source', { body, headers: mode.write });
    await world.client.put('/bucket/plain', { body });
    for (const [write, read, source, extra] of [
      [mode.write, mode.read, '/bucket/plain', {}],
      [{}, {}, '/bucket/source', mode.source],
    ] as const) {
      const created = await world.client.post('/bucket/to?uploads', { headers: write });
      const uploadId = created.one('UploadId') ?? '';
      const query = { uploadId, partNumber: '1' };
      const headers = {
        ...read,
        ...extra,
        '*-copy-source': source,
        '*-copy-source-range': 'bytes=1000-250000',
      };
      const copied = await world.client.put('/bucket/to', { query, headers });
      expect(copied.status).toBe(200);
      const parts = [{ number: 1, etag: copied.one('ETag') ?? '' }];
      expect((await complete(world.client, '/bucket/to', { uploadId, parts })).status).toBe(200);
      const got = await world.client.get('/bucket/to', { headers: read });
      expect(Buffer.compare(got.bytes, body.subarray(1000, 250_001))).toBe(0);
    }
  });

  test('each version keeps its own encryption', async () => {
    await world.client.put('/versions');
    await setVersioning(world.client, 'versions', 'Enabled');
    const one = await world.client.put('/versions/key', { body: 'encrypted', headers: mode.write });
    const two = await world.client.put('/versions/key', { body: 'plain' });
    const of = (put: Answer) => `/versions/key?versionId=${put.header('*-version-id')}`;
    expect((await world.client.get(of(one), { headers: mode.read })).text).toBe('encrypted');
    expect((await world.client.get(of(two))).text).toBe('plain');
    expect(shownBy(await world.client.get(of(two)), mode)).not.toEqual(mode.shown);
  });

  test('both dialects speak of it', async () => {
    const put = await world.neutral.put('/bucket/neutral', { body: 'text', headers: mode.write });
    expect([put.status, shownBy(put, mode)]).toEqual([200, mode.shown]);
    expect((await world.neutral.get('/bucket/neutral', { headers: mode.read })).text).toBe('text');
  });
});

describe('the default of a bucket', () => {
  const rule = (inner: string): string =>
    `<ServerSideEncryptionConfiguration><Rule>${inner}</Rule></ServerSideEncryptionConfiguration>`;
  const standard = (algorithm: string, more = '') =>
    `<ApplyServerSideEncryptionByDefault><SSEAlgorithm>${algorithm}</SSEAlgorithm>${more}</ApplyServerSideEncryptionByDefault>`;
  const open = async (inner: string): Promise<GatewayWorld> => {
    const world = await openGateway({ settings: await encryptingSettings() });
    await world.client.put('/bucket');
    expect((await world.client.put('/bucket?encryption', { body: rule(inner) })).status).toBe(200);
    return world;
  };

  test('applies to PUT, copy and upload without encryption headers', async () => {
    await using world = await open(standard('AES256'));
    const put = await world.client.put('/bucket/key', { body: 'text' });
    expect(put.header('*-server-side-encryption')).toBe('AES256');
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    const copied = await world.client.put('/bucket/copy', { headers: { '*-copy-source': 'bucket/key' } });
    expect(copied.header('*-server-side-encryption')).toBe('AES256');
    const created = await world.client.post('/bucket/key?uploads');
    expect(created.header('*-server-side-encryption')).toBe('AES256');
  });

  test('is overridden by a request’s headers', async () => {
    await using world = await open(standard('AES256'));
    const put = await world.client.put('/bucket/key', { body: 'text', headers: customer() });
    expect(put.header('*-server-side-encryption')).toBeUndefined();
    expect((await world.client.get('/bucket/key', { headers: customer() })).text).toBe('text');
    const kept = await world.client.put('/bucket/kms', { body: 'text', headers: provider('second') });
    expect(kept.header('*-server-side-encryption-aws-kms-key-id')).toBe('second');
  });

  test('names a key and whether bucket keys are used, which a request may say otherwise', async () => {
    const key = '<KMSMasterKeyID>second</KMSMasterKeyID>';
    await using world = await open(`${standard('aws:kms', key)}<BucketKeyEnabled>true</BucketKeyEnabled>`);
    const put = await world.client.put('/bucket/key', { body: 'text' });
    const names = ['', '-aws-kms-key-id', '-bucket-key-enabled'].map(
      (name) => `*-server-side-encryption${name}`,
    );
    expect(names.map((name) => put.header(name))).toEqual(['aws:kms', 'second', 'true']);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    const headers = { '*-server-side-encryption-bucket-key-enabled': 'false' };
    const without = await world.client.put('/bucket/key', { body: 'text', headers });
    expect(names.map((name) => without.header(name))).toEqual(['aws:kms', 'second', undefined]);
    const own = await world.client.put('/bucket/key', { body: 'text', headers: provider('first') });
    expect(names.map((name) => own.header(name))).toEqual(['aws:kms', 'first', 'true']);
  });

  test('may shut out keys of customers', async () => {
    const blocked = '<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes>';
    await using world = await open(`${standard('AES256')}${blocked}`);
    const refused = await world.client.put('/bucket/key', { body: 'text', headers: customer() });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    expect((await world.client.post('/bucket/key?uploads', { headers: customer() })).code).toBe(
      'AccessDenied',
    );
    expect((await world.client.put('/bucket/key', { body: 'text' })).status).toBe(200);
  });

  test('is over for new objects once it is removed, and what was encrypted stays so', async () => {
    await using world = await open(standard('AES256'));
    await world.client.put('/bucket/before', { body: 'before' });
    await world.client.delete('/bucket?encryption');
    const after = await world.client.put('/bucket/after', { body: 'after' });
    expect(after.header('*-server-side-encryption')).toBeUndefined();
    const got = await world.client.get('/bucket/before');
    expect([got.header('*-server-side-encryption'), got.text]).toEqual(['AES256', 'before']);
  });

  test('is not inherited: a copy into another bucket follows that bucket’s default', async () => {
    await using world = await open(standard('AES256'));
    await world.client.put('/bucket/key', { body: 'text' });
    await world.client.put('/other');
    const copied = await world.client.put('/other/key', { headers: { '*-copy-source': 'bucket/key' } });
    expect([copied.status, copied.header('*-server-side-encryption')]).toEqual([200, undefined]);
  });
});

test('a copy of an object onto itself may change how it is encrypted, and must change something', async () => {
  await using world = await openGateway({ settings: await encryptingSettings() });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const source = { '*-copy-source': 'bucket/key' };
  expect((await world.client.put('/bucket/key', { headers: source })).code).toBe('InvalidRequest');
  expect((await world.client.put('/bucket/key', { headers: { ...source, ...service } })).status).toBe(200);
  const got = await world.client.get('/bucket/key');
  expect([got.text, got.header('*-server-side-encryption')]).toEqual(['text', 'AES256']);
});

test('a policy may demand it', async () => {
  await using world = await openGateway({ settings: await encryptingSettings() });
  await world.client.put('/bucket');
  const demand = (condition: object) => ({
    Effect: 'Deny',
    Principal: '*',
    Action: 's3:PutObject',
    Resource: 'arn:aws:s3:::bucket/*',
    Condition: condition,
  });
  const Statement = [
    demand({ StringNotEqualsIfExists: { 's3:x-amz-server-side-encryption': 'aws:kms' } }),
    demand({ Null: { 's3:x-amz-server-side-encryption-aws-kms-key-id': 'true' } }),
  ];
  const body = JSON.stringify({ Version: '2012-10-17', Statement });
  expect((await world.client.put('/bucket?policy', { body })).status).toBe(204);
  for (const headers of [{}, service, provider(), customer()]) {
    const refused = await world.client.put('/bucket/key', { body: 'x', headers });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
  }
  expect((await world.client.put('/bucket/key', { body: 'x', headers: provider('first') })).status).toBe(200);
});

describe('what no read may say', () => {
  test.each([
    ['*-server-side-encryption', 'AES256'],
    ['*-server-side-encryption-aws-kms-key-id', 'first'],
  ])('%s', async (name, value) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'text', headers: service });
    const headers = { [name]: value };
    const refused = await world.client.get('/bucket/key', { headers });
    expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
    expect((await world.client.head('/bucket/key', { headers })).status).toBe(400);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });
});

describe('encryption headers of a part', () => {
  test('are accepted where they repeat those of its upload, and refused where they differ', async () => {
    await using world = await openGateway({ settings: await encryptingSettings() });
    const { client } = world;
    await client.put('/bucket');
    const context = { '*-server-side-encryption-context': Buffer.from('{"a":"b"}').toString('base64') };
    const bucketKey = (value: string) => ({ '*-server-side-encryption-bucket-key-enabled': value });
    const kms = { '*-server-side-encryption': 'aws:kms' };
    for (const [begun, accepted, refused] of [
      [service, [service, {}], [kms, provider('first'), { '*-server-side-encryption': 'AES128' }]],
      [
        provider('first', context),
        [kms, provider('first'), provider('first', context), context, bucketKey('false'), {}],
        [
          service,
          provider('second'),
          bucketKey('true'),
          { '*-server-side-encryption-context': Buffer.from('{"a":"c"}').toString('base64') },
        ],
      ],
      [{}, [{}], [service, kms, bucketKey('false')]],
    ] as const) {
      const uploadId = (await client.post('/bucket/parts?uploads', { headers: begun })).one('UploadId');
      const send = (headers: Record<string, string>, source?: string) =>
        client.put(`/bucket/parts?uploadId=${uploadId}&partNumber=1`, {
          headers: { ...headers, ...(source === undefined ? {} : { '*-copy-source': source }) },
          ...(source === undefined ? { body: 'part' } : {}),
        });
      await client.put('/bucket/source', { body: 'part' });
      for (const headers of accepted)
        for (const source of [undefined, '/bucket/source'])
          expect((await send(headers, source)).status, JSON.stringify([begun, headers])).toBe(200);
      for (const headers of refused) {
        const answer = await send(headers);
        expect([answer.status, answer.code], JSON.stringify([begun, headers])).toEqual([
          400,
          'InvalidArgument',
        ]);
      }
    }
  });
});

describe('encryption headers that contradict each other or mean nothing', () => {
  const kms = '*-server-side-encryption-aws-kms-key-id';
  const context = '*-server-side-encryption-context';
  const encoded = (text: string) => Buffer.from(text).toString('base64');
  const cases: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
    ['an unknown method', { '*-server-side-encryption': 'AES128' }, 'InvalidArgument'],
    ['two layers', { '*-server-side-encryption': 'aws:kms:dsse' }, 'NotImplemented'],
    ['a key id of its own', { [kms]: 'first' }, 'InvalidArgument'],
    ['a key id beside AES256', { ...service, [kms]: 'first' }, 'InvalidArgument'],
    ['a context beside AES256', { ...service, [context]: encoded('{}') }, 'InvalidArgument'],
    ['a customer key beside AES256', { ...service, ...customer() }, 'InvalidArgument'],
    ['a customer key beside a key id', { [kms]: 'first', ...customer() }, 'InvalidArgument'],
    ['a key id with a space', provider('my key'), 'InvalidArgument'],
    ['a context that is no base64', provider('first', { [context]: '***' }), 'InvalidArgument'],
    ['a context that is no JSON', provider('first', { [context]: encoded('{') }), 'InvalidArgument'],
    ['a context of numbers', provider('first', { [context]: encoded('{"a":1}') }), 'InvalidArgument'],
    ['a context that is a list', provider('first', { [context]: encoded('["a"]') }), 'InvalidArgument'],
    [
      'a context that names the ARN',
      provider('first', { [context]: encoded('{"aws:s3:arn":"x"}') }),
      'InvalidArgument',
    ],
    [
      'a context that is too long',
      provider('first', { [context]: encoded(JSON.stringify({ a: 'x'.repeat(1030) })) }),
      'InvalidArgument',
    ],
    [
      'a bucket key that is neither',
      provider('first', { '*-server-side-encryption-bucket-key-enabled': 'yes' }),
      'InvalidArgument',
    ],
  ];
  test.each(cases)('%s', async (_, headers, code) => {
    await using world = await openGateway({ settings: await encryptingSettings() });
    await world.client.put('/bucket');
    for (const refused of [
      await world.client.put('/bucket/key', { body: 'x', headers }),
      await world.client.post('/bucket/key?uploads', { headers }),
    ]) {
      expect(refused.code).toBe(code);
      expect(refused.status).toBe(code === 'NotImplemented' ? 501 : 400);
    }
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });
});

test.each(modes.map((mode) => [mode.name, mode] as const))(
  'stored bytes of %s that do not decrypt are counted as damage, and a wrong key of a client is not',
  async (_, mode) => {
    let position = -1;
    const registry = createMetricRegistry({ version: '1', runtime: 'test' });
    await using world = await openGateway({
      telemetry: { ...registry, log: () => {} },
      settings: await encryptingSettings(),
      wrap: (context) => ({
        ...context,
        bytes: faulty(context.bytes, {
          read: (extent, range, signal, use) => ({
            async *[Symbol.asyncIterator]() {
              let at = range?.start ?? 0;
              for await (const piece of context.bytes.read(extent, range, signal, use)) {
                const bytes = new Uint8Array(piece);
                if (position >= at && position < at + bytes.length)
                  bytes.set([255 - Number(bytes[position - at])], position - at);
                at += piece.length;
                yield bytes;
              }
            },
          }),
        }),
      }),
    });
    await world.client.put('/bucket');
    const size = 6 * MiB;
    await world.client.put('/bucket/key', { body: bytesOf(size), headers: mode.write });
    const damage = async (): Promise<string | undefined> =>
      (await world.as({ credential: operator }).get('/metrics')).text.match(
        /svc_backend_errors_total\{call="data.read",why="damaged"\} (.*)/,
      )?.[1];

    expect((await world.client.get('/bucket/key', { headers: mode.read })).status).toBe(200);
    if (mode.name === 'SSE-C')
      expect((await world.client.get('/bucket/key', { headers: customer(2) })).status).toBe(403);
    expect(await damage()).toBe('0');
    position = 5;
    expect((await world.client.get('/bucket/key', { headers: mode.read })).status).toBe(500);
    const range = { range: 'bytes=0-99' };
    expect((await world.client.get('/bucket/key', { headers: { ...mode.read, ...range } })).status).toBe(500);
    expect(await damage()).toBe('2');
    position = 5 * MiB;
    await expect(world.client.get('/bucket/key', { headers: mode.read })).rejects.toThrow('is not authentic');
    expect(await damage()).toBe('3');
  },
);
