/** What a holder of the disk or of the store can read and alter. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { Extent } from '../../src/ports/object-bytes.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import {
  customer,
  encryptingSettings,
  type Headers,
  keyOf,
  modes,
  provider,
  service,
} from '../support/encryption.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, MiB } from '../support/gateway-bodies.ts';

const marker = 'this must not be found anywhere';
/** Content that can be recognized in any 64 bytes of it. */
const marked = (size: number): Buffer => Buffer.alloc(size, `${marker}. `);

async function everyFile(world: GatewayWorld): Promise<Buffer> {
  const directory = world.context.config.SVC_DATA_DIR ?? '';
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile() && entry.name !== 'master.key');
  return Buffer.concat(await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name)))));
}

async function uploadMarked(world: GatewayWorld, path: string, headers: { write: Headers; read: Headers }) {
  const uploadId =
    (await world.client.post(`${path}?uploads`, { headers: headers.write })).one('UploadId') ?? '';
  const parts = [];
  for (const number of [1, 2]) {
    const query = { uploadId, partNumber: String(number) };
    const stored = await world.client.put(path, { query, body: marked(5 * MiB), headers: headers.read });
    parts.push({ number, etag: stored.header('etag') ?? '' });
  }
  await complete(world.client, path, { uploadId, parts });
}

describe('the disk', () => {
  test('has no plain content, no object key and no key of a customer or provider on it', async () => {
    const drawn: Buffer[] = [];
    const wrap = (context: Context): Context => ({
      ...context,
      random: {
        bytes(length) {
          const bytes = context.random.bytes(length);
          if (length === 32) drawn.push(Buffer.from(bytes));
          return bytes;
        },
      },
    });
    await using world = await openGateway({
      backend: 'embedded+file',
      settings: await encryptingSettings(),
      wrap,
    });
    await world.client.put('/bucket');
    await world.client.put('/bucket/plain', { body: marked(64) });
    // Positive control: the search finds unencrypted content.
    expect((await everyFile(world)).includes(marker)).toBe(true);

    await using clean = await openGateway({
      backend: 'embedded+file',
      settings: await encryptingSettings(),
      wrap,
    });
    await clean.client.put('/bucket');
    for (const mode of modes) {
      for (const size of [64, 4096, 300_000, 5 * MiB])
        await clean.client.put(`/bucket/${mode.name}-${size}`, { body: marked(size), headers: mode.write });
      await uploadMarked(clean, `/bucket/${mode.name}`, mode);
      const headers = { '*-copy-source': `bucket/${mode.name}-4096`, ...mode.source, ...mode.write };
      expect((await clean.client.put(`/bucket/${mode.name}-copy`, { headers })).status).toBe(200);
    }
    const disk = await everyFile(clean);
    expect(disk.length).toBeGreaterThan(30 * MiB);
    expect(disk.includes(marker.slice(0, 16))).toBe(false);
    expect(drawn.length).toBeGreaterThan(10);
    const keys = [keyOf(1), keyOf(101), ...drawn];
    for (const key of keys) {
      expect(disk.includes(key)).toBe(false);
      expect(disk.includes(key.toString('base64').slice(0, 42))).toBe(false);
      expect(disk.includes(key.toString('hex'))).toBe(false);
    }
  });
});

/** A gateway whose store can return the bytes of another extent, or changed bytes. */
async function tampered() {
  const instead = new Map<string, Extent>();
  const change = new Map<string, (bytes: Uint8Array) => Uint8Array>();
  /** The extents in the order of their writes, because ids that were drawn in one millisecond have no order. */
  const extents: Extent[] = [];
  const wrap = (context: Context): Context => ({
    ...context,
    bytes: {
      ...context.bytes,
      async write(...given) {
        const extent = await context.bytes.write(...given);
        extents.push(extent);
        return extent;
      },
      async *read(extent, range, signal) {
        const given = change.get(extent.id);
        const source = context.bytes.read(instead.get(extent.id) ?? extent, range, signal);
        for await (const piece of source) yield given === undefined ? piece : given(piece.slice());
      },
    },
  });
  const world = await openGateway({ settings: await encryptingSettings(), wrap });
  await world.client.put('/bucket');
  return { world, instead, change, extents };
}

const failsToRead = async (world: GatewayWorld, path: string, headers: Headers = {}): Promise<void> => {
  const read = world.client.get(path, { headers }).then(
    ({ status }) => status,
    (error: Error) => error.message,
  );
  expect([500, expect.stringMatching(/authentic/)]).toContainEqual(await read);
};

describe('a store that', () => {
  test.each(modes)('gives another object’s bytes is found out: $name', async ({ write, read }) => {
    const { world, instead, extents } = await tampered();
    await using _ = world;
    for (const size of [100, 200_000]) {
      extents.length = 0;
      await world.client.put('/bucket/one', { body: bytesOf(size, 1), headers: write });
      await world.client.put('/bucket/two', { body: bytesOf(size, 2), headers: write });
      const [one, two] = extents;
      if (one === undefined || two === undefined) throw new Error('two extents');
      instead.set(one.id, two);
      await failsToRead(world, '/bucket/one', read);
      instead.clear();
      expect((await world.client.get('/bucket/one', { headers: read })).bytes).toEqual(
        Buffer.from(bytesOf(size, 1)),
      );
    }
  });

  test('gives an older content of the same key', async () => {
    const { world, instead, extents } = await tampered();
    await using _ = world;
    await world.client.put('/bucket/key', { body: 'old content', headers: service });
    await world.client.put('/bucket/key', { body: 'new content', headers: service });
    const [old, fresh] = extents;
    if (old === undefined || fresh === undefined) throw new Error('two extents');
    instead.set(fresh.id, old);
    await failsToRead(world, '/bucket/key');
  });

  test('gives one part of an upload for another', async () => {
    const { world, instead, extents } = await tampered();
    await using _ = world;
    await uploadMarked(world, '/bucket/key', { write: service, read: {} });
    const [one, two] = extents;
    if (one === undefined || two === undefined) throw new Error('two extents');
    instead.set(one.id, two);
    instead.set(two.id, one);
    await failsToRead(world, '/bucket/key');
    instead.clear();
    expect(
      Buffer.compare((await world.client.get('/bucket/key')).bytes, marked(10 * MiB).fill(marked(5 * MiB))),
    ).toBe(0);
  });

  test('flips a bit or cuts the end off', async () => {
    const { world, change, extents } = await tampered();
    await using _ = world;
    await world.client.put('/bucket/key', { body: bytesOf(1000), headers: service });
    const [extent] = extents;
    if (extent === undefined) throw new Error('an extent');
    for (const give of [
      (bytes: Uint8Array) => bytes.with(500, (bytes[500] as number) ^ 1),
      (bytes: Uint8Array) => bytes.subarray(0, 900),
      (bytes: Uint8Array) => new Uint8Array([...bytes, 0]),
    ]) {
      change.set(extent.id, give);
      expect((await world.client.get('/bucket/key')).code).toBe('InternalError');
    }
    change.clear();
    expect((await world.client.get('/bucket/key')).bytes).toEqual(Buffer.from(bytesOf(1000)));
  });
});

test('the same content under the same customer’s key is other bytes each time, also as parts and copies', async () => {
  const { world, extents } = await tampered();
  await using _ = world;
  const body = bytesOf(5 * MiB);
  for (const path of ['/bucket/key', '/bucket/key', '/bucket/other'])
    await world.client.put(path, { body, headers: customer() });
  const uploadId =
    (await world.client.post('/bucket/key?uploads', { headers: customer() })).one('UploadId') ?? '';
  for (const partNumber of ['1', '1', '2'])
    await world.client.put('/bucket/key', { query: { uploadId, partNumber }, body, headers: customer() });
  const copying = { '*-copy-source': 'bucket/key', ...customer(1, 'copy-source-'), ...customer() };
  await world.client.put('/bucket/copy', { headers: copying });
  const first = new Set<string>();
  const all = extents;
  for (const extent of all) {
    for await (const piece of world.context.bytes.read(extent, { start: 0, end: 63 }))
      first.add(Buffer.from(piece).toString('hex'));
  }
  expect([all.length, first.size]).toEqual([7, 7]);
});

test('a range of 4 KiB reads two segments of a large object at most, however large it is', async () => {
  let bytesRead = 0;
  const wrap = (context: Context): Context => ({
    ...context,
    bytes: {
      ...context.bytes,
      async *read(extent, range, signal) {
        for await (const piece of context.bytes.read(extent, range, signal)) {
          bytesRead += piece.length;
          yield piece;
        }
      },
    },
  });
  await using world = await openGateway({
    backend: 'embedded+file',
    settings: await encryptingSettings(),
    wrap,
  });
  await world.client.put('/bucket');
  const body = bytesOf(40 * MiB);
  await world.client.put('/bucket/key', { body, headers: provider('first') });
  for (const start of [0, 65_519, 4 * MiB - 100, 20 * MiB + 1, 40 * MiB - 4096]) {
    bytesRead = 0;
    const got = await world.client.get('/bucket/key', {
      headers: { range: `bytes=${start}-${start + 4095}` },
    });
    expect(Buffer.compare(got.bytes, body.subarray(start, start + 4096))).toBe(0);
    expect(bytesRead).toBeLessThanOrEqual(128 * 1024);
  }
});

test('keys are in no log, no reply and no refusal', async () => {
  const lines: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    log: (...given: readonly unknown[]) => void lines.push(JSON.stringify(given)),
  };
  await using world = await openGateway({ settings: await encryptingSettings(), telemetry });
  await world.client.put('/bucket');
  const replies = [
    await world.client.put('/bucket/key', { body: 'x', headers: customer(1) }),
    await world.client.get('/bucket/key', { headers: customer(1) }),
    await world.client.get('/bucket/key', { headers: customer(2) }),
    await world.bob.put('/bucket/key', { body: 'x', headers: customer(1) }),
    await world.client.put('/bucket/key', { body: 'x', headers: { ...customer(1), ...service } }),
  ];
  const said = lines.join('') + replies.map(({ text, headers }) => text + JSON.stringify(headers)).join('');
  for (const key of [keyOf(1), keyOf(2)]) expect(said.includes(key.toString('base64'))).toBe(false);
  expect(lines.length).toBeGreaterThan(0);
});
