/** A signing key that another machine rotates or deletes: this one obeys within `SVC_CONFIG_CACHE_TTL`. */
import { expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const ttlMs = 2_000;
const path = '/admin/v1/buckets/bucket/signing-key';

const openWorld = async (clock: Clock) =>
  openGateway({
    clock,
    settings: {
      ...(await encryptingSettings()),
      SVC_KMS_DEFAULT_KEY_ID: 'first',
      SVC_CONFIG_CACHE_TTL: `${ttlMs}ms`,
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
