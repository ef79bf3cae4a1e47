/** Content-MD5 and checksums, in headers and trailers (public API "Checking object integrity"). */
import { describe, expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { type ChecksumAlgorithm, checksumFacts } from '../../src/domain/content/digests.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { bytesOf, deletion, digest64 } from '../support/gateway-bodies.ts';

const algorithms = Object.keys(checksumFacts) as ChecksumAlgorithm[];
const checksum = (algorithm: ChecksumAlgorithm, body: Uint8Array | string): string => {
  const hash = nodeHasher().create(checksumFacts[algorithm].hash);
  hash.update(typeof body === 'string' ? Buffer.from(body) : body);
  return Buffer.from(hash.digest()).toString('base64');
};
const nameOf = (algorithm: string): string => `*-checksum-${algorithm.toLowerCase()}`;

test('the reference values of the public documents hold', () => {
  const body = '123456789';
  expect(algorithms.map((each) => checksum(each, body))).toEqual([
    'y/Q5Jg==',
    '4waSgw==',
    'rosUhgp5mIg=',
    digest64('sha1', body),
    digest64('sha256', body),
    digest64('sha512', body),
    digest64('md5', body),
    Buffer.from('8cb841db40e6ae83', 'hex').toString('base64'),
    Buffer.from('72dcb18b67a17dff', 'hex').toString('base64'),
    Buffer.from('33119477ede5dcd5e9716427681d5860', 'hex').toString('base64'),
  ]);
});

describe.each(backends)('on %s', (backend) => {
  test.each(algorithms)('%s in a header is verified, stored and shown when asked for', async (algorithm) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(100_000);
    const name = nameOf(algorithm);
    const value = checksum(algorithm, body);
    for (const client of [world.client, world.neutral]) {
      const put = await client.put('/bucket/key', { body, headers: { [name]: value } });
      expect([put.status, put.header(name), put.header('*-checksum-type')]).toEqual([
        200,
        value,
        'FULL_OBJECT',
      ]);
      for (const method of ['GET', 'HEAD']) {
        const asked = await client.send(method, '/bucket/key', { headers: { '*-checksum-mode': 'ENABLED' } });
        expect([asked.header(name), asked.header('*-checksum-type')]).toEqual([value, 'FULL_OBJECT']);
        expect((await client.send(method, '/bucket/key')).header(name)).toBeUndefined();
        const headers = { '*-checksum-mode': 'ENABLED', range: 'bytes=0-9' };
        const ranged = await client.send(method, '/bucket/key', { headers });
        expect([ranged.status, ranged.header(name), ranged.header('*-checksum-type')]).toEqual([
          206,
          undefined,
          undefined,
        ]);
      }
    }
    expect((await world.client.get('/bucket')).one('ChecksumAlgorithm')).toBe(algorithm);
    const wrong = await world.client.put('/bucket/key', { body: 'other', headers: { [name]: value } });
    expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
    for (const malformed of ['', 'x', 'AAA', `${value}=`, value.slice(4), value.replace(/.$/, '!')]) {
      const refused = await world.client.put('/bucket/key', { body, headers: { [name]: malformed } });
      expect([refused.status, refused.code], malformed).toEqual([400, 'InvalidRequest']);
    }
    expect(Buffer.compare((await world.client.get('/bucket/key')).bytes, body)).toBe(0);
  });

  test.each(
    algorithms.flatMap(
      (algorithm) =>
        [
          [algorithm, 'unsigned-trailer'],
          [algorithm, 'streaming-trailer'],
        ] as const,
    ),
  )('%s in the trailer of an %s body is verified and stored', async (algorithm, payload) => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const body = bytesOf(150_000);
    const name = nameOf(algorithm);
    const value = checksum(algorithm, body);
    const headers = { '*-sdk-checksum-algorithm': algorithm };
    for (const client of [world.client, world.neutral]) {
      const put = await client.put('/bucket/key', { body, payload, headers, trailers: { [name]: value } });
      expect([put.status, put.header(name)]).toEqual([200, value]);
      const got = await client.get('/bucket/key', { headers: { '*-checksum-mode': 'enabled' } });
      expect(got.header(name)).toBe(value);
      const wrong = await client.put('/bucket/new', {
        body: 'other',
        payload,
        headers,
        trailers: { [name]: value },
      });
      expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
      const malformed = await client.put('/bucket/new', {
        body,
        payload,
        headers,
        trailers: { [name]: 'x' },
      });
      expect([malformed.status, malformed.code]).toEqual([400, 'InvalidRequest']);
    }
    expect((await world.client.head('/bucket/new')).status).toBe(404);
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
  });

  test('Content-MD5 is verified: a wrong one is a BadDigest, a malformed one an InvalidDigest', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const put = (value: string) =>
      world.client.put('/bucket/key', { body: 'hello', headers: { 'content-md5': value } });
    expect((await put(digest64('md5', 'hello'))).status).toBe(200);
    const wrong = await put(digest64('md5', 'other'));
    expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
    for (const value of [
      '',
      'x',
      'not base64!',
      digest64('sha1', 'hello'),
      Buffer.from('md5').toString('base64'),
    ]) {
      const malformed = await put(value);
      expect([malformed.status, malformed.code], value).toEqual([400, 'InvalidDigest']);
    }
    expect((await world.client.get('/bucket/key')).text).toBe('hello');
  });
});

test.each(algorithms)(
  '%s is copied, computed for a copy that asks, and shown by GetObjectAttributes',
  async (algorithm) => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    const [element, value] = [`Checksum${algorithm}`, checksum(algorithm, 'hello')];
    await client.put('/bucket/plain', { body: 'hello' });
    await client.put('/bucket/sums', { body: 'hello', headers: { [nameOf(algorithm)]: value } });
    const asked = { '*-copy-source': 'bucket/plain', '*-checksum-algorithm': algorithm };
    expect((await client.put('/bucket/asked', { headers: asked })).one(element)).toBe(value);
    const kept = await client.put('/bucket/kept', { headers: { '*-copy-source': 'bucket/sums' } });
    expect(kept.one(element)).toBe(value);
    for (const key of ['sums', 'asked', 'kept']) {
      const headers = { '*-object-attributes': 'Checksum' };
      const shown = await client.get(`/bucket/${key}?attributes`, { headers });
      expect([shown.one(element), shown.one('ChecksumType')]).toEqual([value, 'FULL_OBJECT']);
    }
  },
);

describe('a request', () => {
  test('names one checksum, once', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const body = 'hello';
    const two = { [nameOf('CRC32')]: checksum('CRC32', body), [nameOf('SHA1')]: checksum('SHA1', body) };
    const refusals = [
      await world.client.put('/bucket/key', { body, headers: two }),
      await world.client.put('/bucket/key', {
        body,
        payload: 'unsigned-trailer',
        headers: { [nameOf('CRC32')]: checksum('CRC32', body) },
        trailers: { [nameOf('SHA1')]: checksum('SHA1', body) },
      }),
      await world.client.put('/bucket/key', { body, payload: 'unsigned-trailer', trailers: two }),
    ];
    for (const refused of refusals) expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });

  test('that announces an algorithm must bring that checksum', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const body = 'hello';
    const crc = { [nameOf('CRC32')]: checksum('CRC32', body) };
    for (const [declared, given, status] of [
      ['CRC32', crc, 200],
      ['crc32', crc, 200],
      ['CRC32', {}, 400],
      ['SHA256', crc, 400],
      ['MD4', crc, 400],
    ] as const) {
      const put = await world.client.put('/bucket/key', {
        body,
        headers: { ...given, '*-sdk-checksum-algorithm': declared },
      });
      expect([put.status, put.code], `${declared} ${JSON.stringify(given)}`).toEqual([
        status,
        status === 200 ? '' : 'InvalidRequest',
      ]);
    }
  });

  test('with an unverifiable trailer is refused', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const ask = { body: 'x', payload: 'unsigned-trailer', trailers: { '*-checksum-md4': 'AAAA' } } as const;
    const refused = await world.client.put('/bucket/key', ask);
    expect([refused.status, refused.code]).toEqual([400, 'InvalidRequest']);
  });

  test('with a body of XML is held to its checksums too', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    const body = deletion(['key']);
    for (const headers of [
      { 'content-md5': digest64('md5', 'other') },
      { [nameOf('SHA256')]: digest64('sha256', 'other') },
    ]) {
      const refused = await world.client.post('/bucket?delete', { body, headers });
      expect([refused.status, refused.code]).toEqual([400, 'BadDigest']);
    }
    expect((await world.client.head('/bucket/key')).status).toBe(200);
    const headers = { [nameOf('CRC32')]: checksum('CRC32', body) };
    expect((await world.client.post('/bucket?delete', { body, headers })).status).toBe(200);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });
});

test.each(['xxhash32', 'crc16', 'sha-256', ''])(
  'a checksum by an algorithm that is not known, "%s", is refused, in a header and in a trailer',
  async (algorithm) => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const name = `*-checksum-${algorithm}`;
    const headers = { [name]: 'AAAAAA==' };
    for (const path of ['/bucket/key', '/bucket?tagging']) {
      const refused = await world.client.put(path, { body: 'content', headers });
      expect([path, refused.status, refused.code]).toEqual([path, 400, 'InvalidRequest']);
      expect(refused.one('Message')).toContain(
        'CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128',
      );
    }
    const trailed = await world.client.put('/bucket/key', {
      body: 'content',
      payload: 'unsigned-trailer',
      trailers: headers,
    });
    expect([trailed.status, trailed.code]).toEqual([400, 'InvalidRequest']);
    expect((await world.client.get('/bucket/key')).status).toBe(404);
  },
);
