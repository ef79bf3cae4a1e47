/** A signing key that another machine rotates or deletes: this one obeys within `SVC_CONFIG_CACHE_TTL`. */
import { expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import { buckets } from '../../src/metadata/tables.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { KeyFailure, type KeyProvider } from '../../src/ports/key-provider.ts';
import { type AnyTable, type MetadataStore, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { combined } from '../support/keyed-buckets.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm, signFormV2 } from '../support/post-form.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const ttlMs = 2_000;
const path = '/admin/v1/buckets/bucket/signing-key';

const openWorld = async (clock: Clock, settings: Readonly<Record<string, string>> = {}) =>
  openGateway({
    clock,
    settings: {
      ...(await encryptingSettings()),
      SVC_KMS_DEFAULT_KEY_ID: 'first',
      SVC_CONFIG_CACHE_TTL: `${ttlMs}ms`,
      ...settings,
    },
  });

/** A gateway with caches of its own, which hears of no change by others: its metadata is a round trip away, on the same store. */
const machine = (context: Context) =>
  createGateway({
    ...context,
    caches: new Caches(),
    metadata: faulty(context.metadata, { isDistant: true }),
  });

test('another gateway obeys a rotation and a deletion of a signing key after SVC_CONFIG_CACHE_TTL at the latest', async () => {
  const clock = virtualClock();
  await using world = await openWorld(clock);
  const [here, there] = [machine(world.context), machine(world.context)];
  const admin = openClient(here, clock, { credential: operator });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const seen = async (gateway: typeof here, secretKey: string) => {
    const client = openClient(gateway, clock, { credential: { ...alice, secretKey } });
    const answers = [await client.get('/bucket/key'), await client.put('/bucket/other', { body: 'x' })];
    return answers.map(({ status, code }) => (status === 200 ? 'ok' : code));
  };
  const ok = ['ok', 'ok'];
  const refused = ['SignatureDoesNotMatch', 'SignatureDoesNotMatch'];
  const rotate = async (): Promise<string> =>
    JSON.parse((await admin.post(`${path}/rotate`)).text).secret_access_key;

  let former = alice.secretKey;
  const change = async (next: () => Promise<string>): Promise<void> => {
    // Both have cached the bucket with the former key.
    expect([await seen(here, former), await seen(there, former)]).toEqual([ok, ok]);
    const secret = await next();
    expect([await seen(here, former), await seen(here, secret)]).toEqual([refused, ok]);
    // Until then reads there are judged by the cached row, without which this test would show nothing.
    const stale = openClient(there, clock, { credential: { ...alice, secretKey: former } });
    expect((await stale.get('/bucket/key')).status).toBe(200);
    await clock.advance(ttlMs);
    expect([await seen(there, former), await seen(there, secret)]).toEqual([refused, ok]);
    former = secret;
  };
  for (let round = 0; round < 3; round += 1) await change(rotate);
  await change(async () => {
    expect((await admin.delete(path)).status).toBe(204);
    return alice.secretKey;
  });
});

test('requests do not prolong the time for which another gateway takes a rotated key', async () => {
  const clock = virtualClock();
  await using world = await openWorld(clock);
  const there = machine(world.context);
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const client = openClient(there, clock, { credential: alice });
  expect((await client.get('/bucket/key')).status).toBe(200);
  expect((await world.as({ credential: operator }).post(`${path}/rotate`)).status).toBe(200);
  const steps = 8;
  for (let step = 0; step < steps; step += 1) {
    await client.get('/bucket/key');
    await clock.advance(ttlMs / steps);
  }
  expect((await client.get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
});

test.each<[string, (client: Client) => ReturnType<Client['get']>]>([
  ['DeleteObject', (client) => client.delete('/bucket/key')],
  ['PutObject', (client) => client.put('/bucket/key', { body: 'other' })],
  ['ListObjectsV2', (client) => client.get('/bucket?list-type=2')],
  ['GetObject of a missing key', (client) => client.get('/bucket/missing')],
])(
  '%s with a key that was rotated is refused at once by a gateway that has cached that key',
  async (_, send) => {
    const clock = virtualClock();
    await using world = await openWorld(clock);
    const there = machine(world.context);
    const admin = world.as({ credential: operator });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'text' });
    let client = openClient(there, clock, { credential: alice });
    // The first key of the bucket replaces the caller's own secret, the second one the first.
    for (const round of ['first', 'second']) {
      const former = client;
      expect((await former.get('/bucket/key')).status, round).toBe(200);
      const secretKey: string = JSON.parse((await admin.post(`${path}/rotate`)).text).secret_access_key;
      client = openClient(there, clock, { credential: { ...alice, secretKey } });
      // The cached row still verifies the signature, without which this test would show nothing.
      expect((await former.get('/bucket/key')).status, round).toBe(200);
      expect((await send(former)).code, round).toBe('AccessDenied');
      const kept = await client.get('/bucket/key');
      expect([kept.status, kept.text], round).toEqual([200, 'text']);
    }
  },
);

/** Two machines on one store; `there` counts its reads of rows of buckets, which fail while `isAway`. */
async function openTwo(clock: VirtualClock, settings: Readonly<Record<string, string>> = {}) {
  const world = await openWorld(clock, settings);
  const reads = { count: 0, isAway: false };
  const { metadata } = world.context;
  const get = ((at, key) => {
    if ((at.table as AnyTable) !== buckets) return metadata.get(at, key);
    reads.count += 1;
    return reads.isAway ? Promise.reject(new StoreUnavailable('away')) : metadata.get(at, key);
  }) as MetadataStore['get'];
  const refusing = { keyId: '' };
  const provider = world.context.keys as KeyProvider;
  const keys = faulty(provider, {
    async unwrap(wrapped, about, account) {
      if (wrapped.keyId === refusing.keyId) throw new KeyFailure('denied', 'so');
      return provider.unwrap(wrapped, about, account);
    },
  });
  const there = createGateway({
    ...world.context,
    caches: new Caches(),
    metadata: faulty(metadata, { isDistant: true, get }),
    keys,
  });
  const admin = world.as({ credential: operator });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  return Object.assign(world, {
    clock,
    reads,
    refusing,
    /** Rotates the signing key at the other machine. */
    async rotate(keyId?: string): Promise<string> {
      const answer = await admin.post(
        `${path}/rotate`,
        keyId === undefined ? {} : { body: JSON.stringify({ key_id: keyId }) },
      );
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      return JSON.parse(answer.text).secret_access_key;
    },
    async removeKey(): Promise<string> {
      expect((await admin.delete(path)).status).toBe(204);
      return alice.secretKey;
    },
    client: (secretKey: string) => openClient(there, clock, { credential: { ...alice, secretKey } }),
    anonymous: openClient(there, clock, { anonymous: true }),
    /** Makes this machine cache the row that it has now. */
    async cache(secretKey: string): Promise<void> {
      expect(
        (await openClient(there, clock, { credential: { ...alice, secretKey } }).get('/bucket')).status,
      ).toBe(200);
    },
  });
}
type Two = Awaited<ReturnType<typeof openTwo>>;

const conditions = [{ bucket: 'bucket' }, ['starts-with', '$key', '']];
const postForm = ({ anonymous }: Two, signed: Readonly<Record<string, string>>) =>
  anonymous.post('/bucket', {
    body: encodeForm([...fieldsOf({ key: 'form', ...signed }), fileOf('content')]),
    headers: multipart(),
  });

type SendTo = (world: Two, secretKey: string) => ReturnType<Client['get']>;
const sent: readonly (readonly [string, SendTo])[] = [
  ['GetObject', (world, secretKey) => world.client(secretKey).get('/bucket/key')],
  [
    'GetObject by a presigned URL',
    (world, secretKey) => world.client(secretKey).presigned('GET', '/bucket/key'),
  ],
  ['ListObjectsV2', (world, secretKey) => world.client(secretKey).get('/bucket?list-type=2')],
  ...(['signed', 'unsigned', 'streaming', 'streaming-trailer', 'unsigned-trailer'] as const).map(
    (payload): [string, SendTo] => [
      `PutObject with a payload that is ${payload}`,
      (world, secretKey) => world.client(secretKey).put('/bucket/other', { body: 'x', payload }),
    ],
  ),
  [
    'a form',
    (world, secretKey) =>
      postForm(world, signForm({ ...alice, secretKey }, { conditions, now: world.clock.now() })),
  ],
];

test.each(sent)('%s with a new secret is served at once where the former row is cached', async (_, send) => {
  const clock = virtualClock();
  await using world = await openTwo(clock);
  let former = alice.secretKey;
  for (const change of [() => world.rotate(), () => world.rotate(), () => world.removeKey()]) {
    await world.cache(former);
    const next = await change();
    // The cached row still verifies, without which this test would show nothing.
    expect((await world.client(former).get('/bucket/key')).status).toBe(200);
    const { status, code } = await send(world, next);
    expect([Math.floor(status / 100), code]).toEqual([2, '']);
    // The row that was read has replaced the cached one.
    expect((await world.client(former).get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
    former = next;
  }
});

test('the combined secret of a new key is served at once where the former row is cached', async () => {
  const clock = virtualClock();
  await using world = await openTwo(clock);
  await world.cache(alice.secretKey);
  const { secretKey } = combined(alice, await world.rotate());
  expect((await world.client(secretKey).get('/bucket/key')).text).toBe('text');
});

test.each<[string, SendTo]>([
  ['a presigned URL', (world, secretKey) => world.client(secretKey).presignedV2('GET', '/bucket/key')],
  [
    'a form',
    (world, secretKey) =>
      postForm(world, signFormV2({ ...alice, secretKey }, { conditions, now: world.clock.now() })),
  ],
])(
  '%s in version 2 is served at once after the signing key of the cached row was deleted',
  async (_, send) => {
    const clock = virtualClock();
    await using world = await openTwo(clock, { SVC_SIGV2_PRESIGN: 'true' });
    const secret = await world.rotate();
    await world.cache(secret);
    const own = await world.removeKey();
    expect((await world.client(secret).get('/bucket/key')).status).toBe(200);
    expect(Math.floor((await send(world, own)).status / 100)).toBe(2);
  },
);

test('a signing key that expires in the cached row refuses no request that is signed with its successor', async () => {
  const clock = virtualClock();
  await using world = await openTwo(clock, { SVC_KEY_MAX_AGE: '24h' });
  const former = await world.rotate();
  await clock.advance(24 * 3_600_000 - 500);
  await world.cache(former);
  const next = await world.rotate();
  await clock.advance(1_000);
  expect((await world.client(next).get('/bucket/key')).text).toBe('text');
});

test('a key of the provider that is denied in the cached row refuses no request that is signed with its successor', async () => {
  const clock = virtualClock();
  await using world = await openTwo(clock, { SVC_DEK_CACHE_TTL: '30s' });
  const former = await world.rotate();
  await clock.advance(60_000);
  await world.cache(former);
  const next = await world.rotate('second');
  await clock.advance(1_000);
  world.refusing.keyId = 'first';
  expect((await world.client(next).get('/bucket/key')).text).toBe('text');
});

test('a wrong signature costs one read of the row at most, and none more where the row was just read', async () => {
  const clock = virtualClock();
  await using world = await openTwo(clock);
  const secret = await world.rotate();
  const wrong = world.client('wrong');
  const refuse = async (reads: number): Promise<void> => {
    world.reads.count = 0;
    expect((await wrong.get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
    expect(world.reads.count).toBe(reads);
  };
  // One for the check and one for the access log.
  await refuse(2);
  await world.cache(secret);
  await refuse(2);
  // What it read is cached for the requests that follow.
  world.reads.count = 0;
  expect((await world.client(secret).get('/bucket/key')).status).toBe(200);
  expect(world.reads.count).toBe(0);
});

test('while the row cannot be read, a signature that the cached one does not verify is answered with 503', async () => {
  const clock = virtualClock();
  await using world = await openTwo(clock);
  await world.cache(alice.secretKey);
  const next = await world.rotate();
  world.reads.isAway = true;
  expect((await world.client(next).get('/bucket/key')).status).toBe(503);
  world.reads.isAway = false;
  expect((await world.client(next).get('/bucket/key')).text).toBe('text');
});
