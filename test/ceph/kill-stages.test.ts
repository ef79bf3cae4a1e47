/** kill -9 of gateways over two real clusters at chosen moments of an evacuation, of completions and of gc. */
import { describe, expect, test, vi } from 'vitest';
import { noCeph } from '../support/engines/ceph.ts';
import { cephPair } from '../support/engines/ceph-pair.ts';
import { Killable, patience } from '../support/killable.ts';
import { completeSpec, createUpload, elements, pathOf, uploadParts } from '../support/load-client.ts';
import { bytesOf, md5Hex } from '../support/load-model.ts';

describe.skipIf(noCeph !== undefined)(`kill -9 on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  const clusters = cephPair();

  test.concurrent('in the middle of an evacuation: acknowledged objects stay, and the evacuation continues until the cluster is empty', async () => {
    await using gateway = await Killable.begin(clusters, 'evacuation');
    await gateway.admin('PUT', '/clusters/b/weight', { weight: 0 });
    const held = new Map<string, Uint8Array>();
    const put = async (key: string, size: number): Promise<void> => {
      const body = bytesOf({ seed: held.size, size });
      await gateway.put(key, body, held.size % 3 === 0 ? { 'x-amz-server-side-encryption': 'AES256' } : {});
      held.set(key, body);
    };
    for (let i = 0; i < 24; i += 1) await put(`still-${i}`, [17, 4096, 300_000, 5_000_000][i % 4] ?? 1);
    expect(await gateway.chunks('b')).toBe(0);
    await gateway.admin('PUT', '/clusters/b/weight', { weight: 100 });

    for (let kills = 0; kills < 3; kills += 1) {
      await gateway.kill();
      await gateway.start({ SVC_REBALANCE_RATE: '2MiB' });
      if (kills === 0) await gateway.admin('POST', '/clusters/a/drain', { mode: 'evacuate' });
      await put(`meanwhile-${kills}`, 70_000);
      const before = await gateway.chunks('b');
      await vi.waitFor(async () => expect(await gateway.chunks('b')).toBeGreaterThan(before + 1), patience);
      await gateway.kill();
      expect(await gateway.chunks('a'), 'it was killed in the middle').toBeGreaterThan(0);
    }

    await gateway.start();
    await gateway.expectHeld(held);
    await vi.waitFor(async () => expect(await gateway.chunks('a')).toBe(0), patience);
    await gateway.expectHeld(held);
    await gateway.expectSound();
    expect(await gateway.admin('GET', '/clusters/a/drain-progress')).toMatchObject({
      chunks: 0,
      gcQueue: 0,
    });
  });

  test.concurrent('in the middle of completions: what was acknowledged is there, and every other upload can be completed again', async () => {
    await using gateway = await Killable.begin(clusters, 'completions');
    const held = new Map<string, Uint8Array>();
    let unanswered = 0;
    for (let round = 0; round < 10 && unanswered < 20; round += 1) {
      const uploads = await Promise.all(
        Array.from({ length: 48 }, (_, i) => {
          const sizes = i === 0 ? [5 * 1024 * 1024, 70_000] : [70_000];
          return openUpload(gateway, { key: `${round}-${i}`, sizes, seed: 100 * round + i });
        }),
      );
      const acknowledged = new Set<string>();
      const first = Promise.withResolvers<void>();
      const all = uploads.map(async ({ key, spec }) => {
        const answer = await gateway.client.send(spec).catch(() => undefined);
        if (answer?.status === 200) acknowledged.add(key);
        first.resolve();
      });
      await first.promise;
      await gateway.kill();
      await Promise.all(all);
      unanswered += uploads.length - acknowledged.size;

      await gateway.start();
      for (const { key, body, spec } of uploads) {
        if (!acknowledged.has(key)) await completeAgain(gateway, key, spec);
        held.set(key, body);
      }
      await gateway.expectHeld(held);
    }
    expect(unanswered, 'it was killed in the middle').toBeGreaterThan(0);
    const open = await gateway.client.expect({ path: pathOf(gateway.bucket), query: { uploads: '' } });
    expect(elements(open.text, 'UploadId')).toEqual([]);
    await gateway.expectSound();
  });

  test.concurrent('in the middle of gc: the rest goes once it is started again, and nothing that is owned', async () => {
    await using gateway = await Killable.begin(clusters, 'gc');
    const held = new Map<string, Uint8Array>();
    const count = 1000;
    let halves = 0;
    for (let round = 0; round < 10 && halves < 2; round += 1) {
      await gateway.kill();
      await gateway.start({ SVC_WORKERS: '' });
      const kept = bytesOf({ seed: round, size: 5_000_000 });
      await gateway.put(`${round}/kept`, kept);
      held.set(`${round}/kept`, kept);
      await putAndRemove(
        gateway,
        Array.from({ length: count }, (_, i) => `${round}/${i}`),
      );
      const all = await gateway.chunks();
      expect(all).toBeGreaterThanOrEqual(count);

      await gateway.kill();
      await gateway.start();
      const often = { ...patience, interval: 5 };
      await vi.waitFor(async () => expect(await queued(gateway)).toBeLessThan(count), often);
      await gateway.kill();
      const left = await gateway.chunks();
      expect(left).toBeLessThan(all);
      if (left > 2 * held.size) halves += 1;
      await gateway.start();
      await gateway.expectHeld(held);
      await vi.waitFor(async () => expect(await gateway.chunks()).toBe(2 * held.size), patience);
    }
    expect(halves, 'it was killed in the middle').toBeGreaterThan(0);
    await gateway.expectHeld(held);
    await gateway.expectSound();
  });
});

async function openUpload({ client, bucket }: Killable, { key, sizes, seed }: Uploaded) {
  const bodies = sizes.map((size, at) => bytesOf({ seed: 2 * seed + at, size }));
  const to = { bucket, key, uploadId: await createUpload(client, bucket, key) };
  const etags = await uploadParts(client, to, bodies);
  return { key, body: Buffer.concat(bodies), spec: completeSpec(to, etags) };
}

interface Uploaded {
  readonly key: string;
  /** The sizes of the parts. */
  readonly sizes: readonly number[];
  readonly seed: number;
}

/** The upload was completed without an answer, or is still open; gc settles an interrupted completion. */
async function completeAgain(
  gateway: Killable,
  key: string,
  spec: ReturnType<typeof completeSpec>,
): Promise<void> {
  await vi.waitFor(async () => {
    if ((await gateway.get(key)).status === 200) return;
    const again = await gateway.client.send(spec);
    expect(again.status, again.text).toBe(200);
  }, patience);
}

async function putAndRemove({ client, bucket }: Killable, keys: readonly string[]): Promise<void> {
  for (let at = 0; at < keys.length; at += 50) {
    const some = keys.slice(at, at + 50);
    await Promise.all(
      some.map((key) => client.expect({ method: 'PUT', path: pathOf(bucket, key), body: Buffer.from(key) })),
    );
  }
  const body = `<Delete>${keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`;
  const headers = { 'content-md5': Buffer.from(md5Hex(Buffer.from(body)), 'hex').toString('base64') };
  const query = { delete: '' };
  const { text } = await client.expect({ method: 'POST', path: pathOf(bucket), query, body, headers });
  expect(elements(text, 'Key')).toHaveLength(keys.length);
}

async function queued(gateway: Killable): Promise<number> {
  const told = await Promise.all(
    ['a', 'b'].map((id) => gateway.admin('GET', `/clusters/${id}/drain-progress`)),
  );
  return told.reduce((sum, { gcQueue }) => sum + Number(gcQueue), 0);
}
