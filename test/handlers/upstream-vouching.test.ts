/**
 * The gateway does not hash what the upstream verifies (ADR 14): mismatches are refused as before, an upstream that does not verify is
 * detected, and nothing is lost or left behind.
 */
import { createHash } from 'node:crypto';
import { crc32 as crc32Of } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';
import { type BehindFaults, behindFaults, expectStored } from '../support/behind-faults.ts';
import { service } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import type { Asked, FaultyUpstream } from '../support/faulty-upstream.ts';
import type { GatewayWorld } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB } from '../support/gateway-bodies.ts';
import type { Ask } from '../support/gateway-client.ts';

let behind: BehindFaults;
let way: FaultyUpstream;
let world: GatewayWorld;
let bucket: string;
let elapsed = 0;
beforeAll(async () => {
  behind = await behindFaults();
  way = behind.way;
});
afterAll(() => behind[Symbol.asyncDispose]());
beforeEach(async () => {
  const clock = faulty(systemClock, { elapsed: () => systemClock.elapsed() + elapsed });
  const opened = await behind.open({ clock });
  world = opened;
  bucket = opened.upstreamBucket;
  way.seen();
});
afterEach(async () => {
  elapsed = 0;
  way.repair();
  await world.close();
});

const body = bytesOf(MiB);
/** The content that is sent instead of the signed one. */
const other = bytesOf(MiB, 7);
const arriving = async function* (): AsyncGenerator<Uint8Array> {
  yield other;
};
const md5Of = (bytes: Uint8Array, encoding: 'hex' | 'base64') =>
  createHash('md5').update(bytes).digest(encoding);
const sha256 = createHash('sha256').update(body).digest('hex');
const wrongMd5 = { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' };

/** True for requests of this test's gateway: aborted requests of another one may arrive late. */
const isOurs = ({ target }: Asked): boolean => target.startsWith(`/${bucket}/`);
const isProbe = (asked: Asked): boolean => isOurs(asked) && asked.target.endsWith('/sluice-probe');
const isPut = (asked: Asked): boolean => isOurs(asked) && asked.method === 'PUT' && !isProbe(asked);
/** The hashes in the PUTs that the upstream received since the last call. */
const signedAs = (): unknown[] =>
  way
    .seen()
    .filter(isPut)
    .map(({ headers }) => headers['x-amz-content-sha256']);

const put = (ask: Partial<Ask> = {}) => world.client.put('/bucket/key', { body, ...ask });

const nothingIsLeft = (objects: number): Promise<void> => {
  way.repair();
  return expectStored(world, objects);
};

describe('a large content that is signed by its hash', () => {
  test('is sent upstream in one request signed with that hash, and has the upstream’s ETag', async () => {
    const headers = { 'content-md5': md5Of(body, 'base64') };
    const stored = await put({ headers });
    expect([stored.status, stored.header('etag')]).toEqual([200, `"${md5Of(body, 'hex')}"`]);
    const sent = way.seen().filter((asked) => isOurs(asked) && !isProbe(asked));
    expect(sent.map(({ method }) => method)).toEqual(['PUT']);
    expect(sent[0]?.headers).toMatchObject({ 'x-amz-content-sha256': sha256, ...headers });
    const read = await world.client.get('/bucket/key');
    expect([read.header('etag'), Buffer.compare(read.bytes, body)]).toEqual([stored.header('etag'), 0]);
    await nothingIsLeft(1);
  });

  test('that differs from its hashes is refused and changes nothing', async () => {
    await world.client.put('/bucket/key', { body: 'former' });
    const torn = await put({ arriving });
    expect([torn.status, torn.code]).toEqual([400, 'XAmzContentSHA256Mismatch']);
    expect(torn.one('ClientComputedContentSHA256')).toBe(sha256);
    const claimed = await put({ headers: wrongMd5 });
    expect([claimed.status, claimed.code]).toEqual([400, 'BadDigest']);
    expect((await world.client.get('/bucket/key')).text).toBe('former');
    expect(signedAs().slice(1)).toEqual([sha256, sha256]);
    await nothingIsLeft(1);
  });

  test('that is shorter than it was said to be is refused before it is whole upstream', async () => {
    const short = async function* () {
      yield body.subarray(1);
    };
    expect((await put({ arriving: short })).code).toBe('IncompleteBody');
    await nothingIsLeft(0);
  });

  test('has its checksum compared here all the same', async () => {
    const crc32 = Buffer.alloc(4);
    crc32.writeUInt32BE(crc32Of(body));
    const stored = await put({ headers: { '*-checksum-crc32': crc32.toString('base64') } });
    expect([stored.status, stored.header('*-checksum-crc32')]).toEqual([200, crc32.toString('base64')]);
    expect(signedAs()).toEqual([sha256]);
    expect((await put({ headers: { '*-checksum-crc32': 'AAAAAA==' } })).code).toBe('BadDigest');
    await nothingIsLeft(1);
  });

  test('is a part like that, too: one that was refused replaces nothing', async () => {
    const uploadId = await createUpload(world.client, '/bucket/key');
    const part = (ask: Partial<Ask> = {}) => put({ query: { uploadId, partNumber: '1' }, ...ask });
    const stored = await part();
    expect([stored.status, stored.header('etag')]).toEqual([200, `"${md5Of(body, 'hex')}"`]);
    expect((await part({ arriving })).code).toBe('XAmzContentSHA256Mismatch');
    expect((await part({ headers: wrongMd5 })).code).toBe('BadDigest');
    expect(signedAs()).toEqual([sha256, sha256, sha256]);
    const parts = [{ number: 1, etag: stored.header('etag') ?? '' }];
    expect((await complete(world.client, '/bucket/key', { uploadId, parts })).status).toBe(200);
    expect(Buffer.compare((await world.client.get('/bucket/key')).bytes, body)).toBe(0);
    await nothingIsLeft(1);
  });

  test('that the upstream has, but tells another MD5 of than its sender did, is not acknowledged', async () => {
    await put();
    way.fail(isPut, { headers: { etag: '"00000000000000000000000000000000"' } });
    const headers = { 'content-md5': md5Of(body, 'base64') };
    expect((await put({ headers })).status).toBe(503);
    await nothingIsLeft(1);
  });
});

test.each([
  ['is unsigned', { payload: 'unsigned' }],
  ['is signed in chunks', { payload: 'streaming' }],
  ['is to be encrypted', { headers: service }],
  ['is small', { body: 'small' }],
] as const)('a content that %s is hashed here', async (_, ask) => {
  expect((await put(ask)).status).toBe(200);
  expect(signedAs()).toEqual(['UNSIGNED-PAYLOAD']);
  expect(
    (await put({ ...ask, headers: { ...('headers' in ask ? ask.headers : {}), ...wrongMd5 } })).code,
  ).toBe('BadDigest');
  await nothingIsLeft(1);
});

describe('an upstream', () => {
  const isHashedHere = async (objects = 1): Promise<void> => {
    way.seen();
    const stored = await put();
    expect([stored.status, stored.header('etag')]).toEqual([200, `"${md5Of(body, 'hex')}"`]);
    expect((await put({ arriving })).code).toBe('XAmzContentSHA256Mismatch');
    // A PUT that is refused for its content may send nothing to the upstream.
    expect(new Set(signedAs())).toEqual(new Set(['UNSIGNED-PAYLOAD']));
    await nothingIsLeft(objects);
  };

  test('is probed once for whether it compares contents with their hashes, and the probe leaves nothing there', async () => {
    await Promise.all([put(), put()]);
    await put();
    expect(
      way
        .seen()
        .filter(isProbe)
        .map(({ method }) => method),
    ).toEqual(['PUT', 'PUT', 'DELETE']);
    const listed = await behind.upstream.world.client.get(
      `/${bucket}?list-type=2&prefix=sluice/sluice-probe`,
    );
    expect(listed.all('Key')).toEqual([]);
  });

  test('that accepts a wrong hash is not trusted, so the gateway hashes itself', async () => {
    let asked = 0;
    const second = (each: Asked): boolean => each.method === 'PUT' && isProbe(each) && ++asked === 2;
    way.fail(second, { status: 200 });
    await isHashedHere();
    expect(asked).toBe(2);
  });

  test.each([
    ['are no MD5s', { etag: '"abc"' }],
    ['are other MD5s', { etag: '"00000000000000000000000000000000"' }],
    ['say nothing of the content', { 'x-amz-server-side-encryption': 'aws:kms' }],
  ])('whose ETags %s is left nothing to compare', async (_, headers) => {
    way.fail(isProbe, { headers });
    await isHashedHere();
  });

  test.each([
    ['answers 503', { status: 503, code: 'SlowDown' }],
    ['refuses to say', { status: 403, code: 'AccessDenied' }],
    ['breaks off', { reset: 'after' }],
  ] as const)('that %s is asked again a minute later', async (_, fault) => {
    way.fail(isProbe, fault);
    await isHashedHere();
    await isHashedHere();
    elapsed = 60_000;
    await put();
    expect(signedAs().at(-1)).toBe(sha256);
    await nothingIsLeft(1);
  });

  test.each([
    ['no MD5s', { etag: '"abc"' }],
    ['those of something encrypted', { 'x-amz-server-side-encryption': 'AES256' }],
  ])('whose ETags become %s is believed no more: the next attempt is hashed here', async (_, headers) => {
    await put();
    way.fail(isPut, { headers }, 1);
    const refused = await put();
    expect([refused.status, Number(refused.header('retry-after')) > 0]).toEqual([503, true]);
    way.seen();
    way.fail(isProbe, { headers: { etag: '"abc"' } });
    expect((await put()).status).toBe(200);
    expect(signedAs()).toEqual(['UNSIGNED-PAYLOAD']);
    await nothingIsLeft(1);
  });
});
