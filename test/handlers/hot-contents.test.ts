/** Small contents that are read again and again: from memory, with the same answers as from the store. */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches, cacheSizes } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { service } from '../support/encryption.ts';
import { alice, backends, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { completion, setVersioning } from '../support/gateway-bodies.ts';
import { openClient } from '../support/gateway-client.ts';

const KiB = 1024;

/** Reads until a content is cached. */
const readsUntilHot = 2;

/** A gateway that counts the reads of its data backend. */
async function openCounting(options: GatewayWorldOptions = {}) {
  let reads = 0;
  const world = await openGateway({
    ...options,
    wrap: (context) => ({
      ...context,
      bytes: {
        ...context.bytes,
        read: (...args) => {
          reads += 1;
          return context.bytes.read(...args);
        },
      },
    }),
  });
  const readsOf = async (action: () => Promise<unknown>): Promise<number> => {
    const before = reads;
    await action();
    return reads - before;
  };
  return Object.assign(world, { readsOf });
}

/** Alice at another process: the same stores, and caches of its own. */
const elsewhere = (context: Context) =>
  openClient(createGateway({ ...context, caches: new Caches() }), systemClock, { credential: alice });

describe.each(backends)('a small object on %s', (backend) => {
  test('that GetObject reads a third time is not read from the data backend again', async () => {
    await using world = await openCounting({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: '0123456789' });
    const get = async (headers?: Record<string, string>) => {
      const { status, text } = await world.client.get(
        '/bucket/key',
        headers === undefined ? {} : { headers },
      );
      return [status, text];
    };
    for (let n = 0; n < readsUntilHot; n += 1) {
      expect(await world.readsOf(async () => expect(await get()).toEqual([200, '0123456789']))).toBe(1);
    }
    const later = await world.readsOf(async () => {
      expect(await get()).toEqual([200, '0123456789']);
      expect(await get({ range: 'bytes=2-5' })).toEqual([206, '2345']);
      expect(await get({ range: 'bytes=-1' })).toEqual([206, '9']);
      expect(await get()).toEqual([200, '0123456789']);
    });
    expect(later).toBe(0);
  });

  test('is read anew after another process has replaced, deleted and restored it', async () => {
    await using world = await openCounting({ backend });
    const { client } = world;
    const other = elsewhere(world.context);
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const first = (await client.put('/bucket/key', { body: 'first' })).header('*-version-id');
    for (let n = 0; n < 4; n += 1) expect((await client.get('/bucket/key')).text).toBe('first');
    await other.put('/bucket/key', { body: 'again' });
    for (let n = 0; n < 4; n += 1) expect((await client.get('/bucket/key')).text).toBe('again');
    expect((await client.get(`/bucket/key?versionId=${first}`)).text).toBe('first');
    const marker = (await other.delete('/bucket/key')).header('*-version-id');
    expect((await client.get('/bucket/key')).status).toBe(404);
    await other.delete(`/bucket/key?versionId=${marker}`);
    expect((await client.get('/bucket/key')).text).toBe('again');
    await other.delete(`/bucket/key?versionId=${first}`);
    expect((await client.get(`/bucket/key?versionId=${first}`)).status).toBe(404);
  });
});

test('an encrypted object, one of more than 16 KiB and one in parts are read from the data backend each time', async () => {
  await using world = await openCounting();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/encrypted', { body: 'secret', headers: service });
  await client.put('/bucket/large', { body: new Uint8Array(16 * KiB + 1) });
  await client.put('/bucket/largest-hot', { body: new Uint8Array(16 * KiB) });
  const id = (await client.post('/bucket/parts?uploads')).one('UploadId');
  const part = await client.put(`/bucket/parts?partNumber=1&uploadId=${id}`, { body: 'part' });
  await client.post(`/bucket/parts?uploadId=${id}`, {
    body: completion([{ number: 1, etag: part.header('etag') ?? '' }]),
  });
  const readsOf = (key: string) =>
    world.readsOf(async () => {
      for (let n = 0; n < 5; n += 1) expect((await client.get(`/bucket/${key}`)).status).toBe(200);
    });
  expect(await readsOf('encrypted')).toBe(5);
  expect(await readsOf('large')).toBe(5);
  expect(await readsOf('parts')).toBe(5);
  expect(await readsOf('largest-hot')).toBe(readsUntilHot);
});

test('hot contents take at most 8 MiB, and contents that were read once take none', async () => {
  await using world = await openCounting();
  const { client } = world;
  await client.put('/bucket');
  const keys = Array.from({ length: 700 }, (_, n) => `/bucket/${n}`);
  for (const key of keys) await client.put(key, { body: new Uint8Array(16 * KiB) });
  const bytes = () => cacheSizes().get('hot-contents')?.bytes ?? 0;
  const before = bytes();
  for (const key of keys) await client.get(key);
  expect(bytes()).toBe(before);
  for (const key of keys) await client.get(key);
  const added = bytes() - before;
  expect(added).toBeLessThanOrEqual(8 * KiB * KiB);
  expect(added).toBeGreaterThan(7 * KiB * KiB);
});
