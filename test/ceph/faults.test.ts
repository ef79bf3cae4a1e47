/** Faults of a real cluster: 503 while they last, never a wrong byte, and recovery without a restart. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ChunkDamaged, chunkBytes } from '../../src/ports/object-bytes.ts';
import { contentOf } from '../contract/chunk-store.ts';
import { type CephCluster, daemons, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

const patience = { timeout: 180_000, interval: 250 };

/** A client session in the monitor's report. */
interface Session {
  readonly entity_name: string;
  readonly addrs: { readonly addrvec: readonly { readonly addr: string; readonly nonce: number }[] };
}

const expectAway = (answer: Answer): void => {
  expect(answer.status).toBe(503);
  expect(answer.code).toBe('ServiceUnavailable');
  expect(Number(answer.header('retry-after'))).toBeGreaterThan(0);
};

const expectFull = (answer: Answer): void => {
  expect(answer.status).toBe(507);
  expect(answer.code).toBe('InsufficientStorage');
};

describe.skipIf(noCeph !== undefined)(`a Ceph cluster${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let world: GatewayWorld;
  const body = contentOf('kept', chunkBytes + 70_000);

  beforeAll(async () => {
    ceph = await startCeph(['chunks', 'cold']);
    world = await openGateway({
      settings: {
        ...settingsOf(ceph),
        SVC_STORAGE_CLASSES: 'standard-ia=cold',
        SVC_POOL_OP_TIMEOUT: '3s',
        SVC_POOL_MON_TIMEOUT: '2s',
      },
    });
    await world.client.put('/bucket');
    await world.client.put('/bucket/kept', { body });
    await world.client.put('/bucket/small', { body: 'small' });
  });
  afterAll(async () => {
    await world?.close();
    await ceph?.[Symbol.asyncDispose]();
  });

  const put = (key: string): Promise<Answer> => world.client.put(`/bucket/${key}`, { body });
  const expectKept = async (): Promise<void> => {
    const got = await world.client.get('/bucket/kept');
    expect(got.status).toBe(200);
    expect(Buffer.compare(got.bytes, body)).toBe(0);
  };
  /** Expects that the cluster works again and that refused requests left nothing behind. */
  const expectWell = async (): Promise<void> => {
    await vi.waitFor(expectKept, patience);
    await vi.waitFor(async () => expect((await put('after')).status).toBe(200), patience);
    await world.client.delete('/bucket/after');
    await vi.waitFor(async () => {
      await world.sweep();
      await world.gc();
      expect([...(await world.stored())].sort()).toEqual([...(await world.owned('bucket'))].sort());
    }, patience);
  };
  const health = async (): Promise<Answer> =>
    world.as({ credential: operator }).get('/admin/v1/storage/data');

  test('answers 503 to reads and writes while its OSD is down, and serves again when it is up', async () => {
    await ceph.stop('osd.0');
    const { client } = world;
    const answers = [client.get('/bucket/small'), client.get('/bucket/kept'), put('refused')];
    for (const answer of await Promise.all(answers)) expectAway(answer);
    await ceph.start();
    await expectWell();
  });

  test('without its monitor serves on, for its OSDs are there', async () => {
    await ceph.stop('mon.a');
    await expectKept();
    expect((await put('unwatched')).status).toBe(200);
    expect((await health()).text).toContain('unreachable');
    await ceph.start();
    await expectWell();
    await vi.waitFor(async () => expect((await health()).text).not.toContain('unreachable'), patience);
  });

  test('that hangs costs its own requests a timeout, and no others', async () => {
    for (const daemon of daemons) ceph.signal(daemon, 'SIGSTOP');
    let isOver = false;
    const asked = Promise.all([
      ...Array.from({ length: 40 }, () => world.client.get('/bucket/small')),
      ...Array.from({ length: 10 }, (_, n) => put(`stuck${n}`)),
    ]).finally(() => {
      isOver = true;
    });
    // Requests without stored bytes are answered meanwhile.
    for (let n = 0; n < 20; n += 1) expect((await world.client.head('/bucket/kept')).status).toBe(200);
    expect(isOver).toBe(false);
    for (const answer of await asked) expectAway(answer);
    expect((await health()).text).toContain('unreachable');
    for (const daemon of daemons) ceph.signal(daemon, 'SIGCONT');
    await expectWell();
  });

  test('that is full refuses writes, serves reads, and lets objects be deleted', async () => {
    await ceph.ceph('osd', 'pool', 'set-quota', 'chunks', 'max_objects', '1');
    await vi.waitFor(async () => expectFull(await put('full')), patience);
    await expectKept();
    expect((await world.client.delete('/bucket/small')).status).toBe(204);
    await vi.waitFor(async () => {
      await world.gc();
      expect([...(await world.stored())].sort()).toEqual([...(await world.owned('bucket'))].sort());
    }, patience);
    await setRatios('0.0005', '0.0008', '0.001');
    await ceph.ceph('osd', 'pool', 'set-quota', 'chunks', 'max_objects', '0');
    await vi.waitFor(async () => expect(await ceph.ceph('health', 'detail')).toContain('OSD_FULL'), patience);
    await vi.waitFor(async () => expectFull(await put('full')), patience);
    await expectKept();
    await setRatios('0.85', '0.90', '0.95');
    await expectWell();
  });

  test('that loses a pool reports it, serves the others, and accepts writes when the pool is created again', async () => {
    const headers = { 'x-amz-storage-class': 'STANDARD_IA' };
    expect((await world.client.put('/bucket/cold', { body, headers })).status).toBe(200);
    await ceph.ceph('osd', 'pool', 'delete', 'cold', 'cold', '--yes-i-really-really-mean-it');
    await vi.waitFor(
      async () => expectAway(await world.client.put('/bucket/cold2', { body, headers })),
      patience,
    );
    expect((await world.client.get('/bucket/cold')).status).toBe(500);
    await expectKept();
    expect((await health()).text).toContain('pool stats failed for cold: ');
    await ceph.ceph('osd', 'pool', 'create', 'cold', '8');
    await vi.waitFor(
      async () => expect((await world.client.put('/bucket/cold2', { body, headers })).status).toBe(200),
      patience,
    );
    await world.client.delete('/bucket/cold');
    await world.client.delete('/bucket/cold2');
    await expectWell();
  });

  test('that puts the gateway on its blocklist is connected to anew', async () => {
    const sessions = JSON.parse(await ceph.ceph('tell', 'mon.a', 'sessions')) as readonly Session[];
    const ours = sessions.filter(({ entity_name: name }) => name === ceph.user);
    expect(ours).toHaveLength(1);
    for (const { addrs } of ours) {
      const { addr, nonce } = addrs.addrvec[0] ?? { addr: '', nonce: 0 };
      await ceph.ceph('osd', 'blocklist', 'add', `${addr}/${nonce}`);
    }
    await vi.waitFor(async () => expectAway(await put('blocked')), patience);
    await expectWell();
  });

  test('with a flipped byte returns an error, and never that byte', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
    await world.client.put('/bucket/flipped', { body });
    await world.client.put('/bucket/flipped-small', { body: 'a small one' });
    const names = (await ceph.rados('-p', 'chunks', 'ls')).split('\n').filter((name) => name !== '');
    for (const name of names) await flip(name, directory);
    for (const key of ['flipped-small', 'flipped'])
      expect((await world.client.get(`/bucket/${key}`)).status).toBe(500);
    // The damaged block of the second chunk is met when the reply has begun.
    const later = world.client.get('/bucket/flipped', { headers: { range: 'bytes=131072-' } });
    await expect(later).rejects.toThrow(ChunkDamaged);
    // The bytes before the damaged block can be read.
    const sound = await world.client.get('/bucket/flipped', { headers: { range: 'bytes=0-65535' } });
    expect(sound.status).toBe(206);
    expect(Buffer.compare(sound.bytes, body.subarray(0, 65_536))).toBe(0);
    await rm(directory, { recursive: true, force: true });
  });

  /** The ratios of use from which OSDs warn, refuse backfills, and refuse writes. */
  async function setRatios(near: string, backfill: string, full: string): Promise<void> {
    await ceph.ceph('osd', 'set-nearfull-ratio', near);
    await ceph.ceph('osd', 'set-backfillfull-ratio', backfill);
    await ceph.ceph('osd', 'set-full-ratio', full);
  }

  async function flip(name: string, directory: string): Promise<void> {
    const file = join(directory, 'chunk');
    await ceph.rados('-p', 'chunks', 'get', name, file);
    const bytes = await readFile(file);
    const at = Math.min(bytes.length - 1, 100_000);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await writeFile(file, bytes);
    await ceph.rados('-p', 'chunks', 'put', name, file);
  }
});
