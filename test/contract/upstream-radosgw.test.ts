/**
 * The `upstream-store` backend against the contract of object bytes, with a real radosgw as its upstream; and radosgw
 * as a replication peer.
 */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type ClaimedDigests,
  ContentMismatch,
  type FoundExtent,
  type ObjectBytes,
  unknownSize,
} from '../../src/ports/object-bytes.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { extentsOn, fsckOf, openClusters } from '../support/clusters.ts';
import { service } from '../support/encryption.ts';
import { type CephCluster, noCeph, type Radosgw, startCeph, startRadosgw } from '../support/engines/ceph.ts';
import { complete, createUpload, MiB, putPart } from '../support/gateway-bodies.ts';
import { peerLaws } from '../support/peer-laws.ts';
import { signer, toRequest } from '../support/sign.ts';
import { openUpstreams, upstreamAt } from '../support/upstream.ts';
import { contentOf, inPieces, readWhole } from './chunk-store.ts';
import { objectBytesContract } from './object-bytes.ts';

describe.skipIf(noCeph !== undefined)(`on radosgw${noCeph === undefined ? '' : ` (${noCeph})`}`, () => {
  let ceph: CephCluster;
  let radosgw: Radosgw;
  let buckets = 0;
  beforeAll(async () => {
    ceph = await startCeph();
    radosgw = await startRadosgw(ceph);
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  async function bucket(): Promise<string> {
    buckets += 1;
    const name = `upstream-${buckets}`;
    const sign = signer({ ...radosgw, region: 'default', host: new URL(radosgw.endpoint).host });
    const made = await fetch(toRequest(sign.request({ method: 'PUT', path: `/${name}` })));
    if (!made.ok) throw new Error(`no bucket: ${await made.text()}`);
    return name;
  }

  async function open(): Promise<ObjectBytes> {
    const { endpoint, accessKey, secretKey } = radosgw;
    const keys = { accessKey, secretKey };
    return openUpstreams(
      upstreamAt(endpoint, await bucket(), keys),
      upstreamAt(endpoint, await bucket(), { ...keys, id: 'other', prefix: '' }),
    );
  }

  objectBytesContract('upstream-store over radosgw', async () => {
    const bytes = await open();
    return { bytes, dispose: () => bytes.close() };
  });

  test('an upload becomes one extent; until then its session is found by its name', async () => {
    const bytes = await open();
    const { uploads } = bytes;
    if (uploads === undefined) throw new Error('an upstream holds uploads');
    const uploadId = '0123456789abcdef0123456789abcdef';
    const extent = { cluster: 'default', id: `op.${uploadId}` };
    const owner = { bucketId: 'b', key: 'a key', uploadId };
    const found = async () => {
      const all: FoundExtent[] = [];
      for await (const each of bytes.find('default', 'op.')) all.push(each);
      return all;
    };
    const held = await uploads.begin({ ...extent, owner });
    const content = contentOf('c', 12_000_000);
    const part = (number: number, piece: Uint8Array) =>
      uploads.writePart(inPieces(piece, 100_000), { upload: held, part: number, size: piece.length });
    const last = await part(2, content.subarray(6_000_000));
    await part(1, contentOf('x', 6_000_000));
    const first = await part(1, content.subarray(0, 6_000_000));
    expect(await found()).toEqual([
      { extent: { ...extent, size: unknownSize }, owner: { bucketId: '', key: '', uploadId } },
    ]);
    await uploads.complete(held, [first, last]);
    await uploads.complete(held, [first, last]);
    const whole = { ...extent, size: content.length };
    expect(await found()).toEqual([{ extent: whole, owner }]);
    expect(Buffer.compare(await readWhole(bytes.read(whole)), content)).toBe(0);
    await uploads.discard(held);
    await uploads.discard(held);
    expect(await found()).toEqual([]);
    await bytes.close();
  });

  test('it verifies the digests that senders declared, and reports the MD5 of objects and parts', async () => {
    const bytes = await open();
    const { uploads } = bytes;
    if (uploads === undefined) throw new Error('an upstream holds uploads');
    const content = contentOf('a', 3_000_000);
    const digest = (name: string) => createHash(name).update(content);
    const owner = { bucketId: 'b', key: 'a key' };
    const told: string[] = [];
    const confirm = (md5: string): void => void told.push(md5);
    const sha256 = digest('sha256').digest('hex');
    const right = { sha256, md5: digest('md5').digest('base64') };
    const wrong = [
      ['sha256', { sha256: 'f'.repeat(64) }],
      ['md5', { sha256, md5: 'AAAAAAAAAAAAAAAAAAAAAA==' }],
    ] as const;
    expect(await bytes.verifies?.('default', content.length)).toBe(true);
    const upload = await uploads.begin({ cluster: 'default', id: 'op.parts', owner });
    const ways: readonly ((id: string, claimed: ClaimedDigests) => Promise<unknown>)[] = [
      (id, claimed) => {
        const options = { cluster: 'default', id, owner, size: content.length, confirm, claimed };
        return bytes.write(inPieces(content, 100_000), options);
      },
      (_, claimed) =>
        uploads.writePart(inPieces(content, 100_000), {
          upload,
          part: 1,
          size: content.length,
          confirm,
          claimed,
        }),
    ];
    for (const store of ways) {
      for (const [name, claimed] of wrong) {
        const refusal = await store(`wrong.${name}`, claimed).catch((cause: unknown) => cause);
        expect(refusal).toBeInstanceOf(ContentMismatch);
        expect(refusal).toMatchObject({ digest: name });
      }
      await store('right', right);
    }
    expect(told).toEqual([digest('md5').digest('hex'), digest('md5').digest('hex')]);
    const found: string[] = [];
    for await (const { extent } of bytes.find('default', 'wrong.', 'right')) found.push(extent.id);
    expect(found).toEqual(['right']);
    await bytes.remove([{ cluster: 'default', id: 'right', size: content.length }]);
    await uploads.discard(upload);
    await bytes.close();
  });

  test('a gateway in front of two buckets keeps objects of every kind there, and evacuates one into the other', async () => {
    const upstreams = [
      { id: 'a', bucket: await bucket() },
      { id: 'b', bucket: await bucket() },
    ];
    const { world, admin } = await openClusters('a,b', {
      settings: {
        SVC_DATA_BACKEND: 'upstream-store',
        SVC_UPSTREAMS: JSON.stringify(upstreams),
        SVC_UPSTREAM_ENDPOINT: radosgw.endpoint,
        SVC_UPSTREAM_REGION: 'default',
        SVC_UPSTREAM_ACCESS_KEY: radosgw.accessKey,
        SVC_UPSTREAM_SECRET_KEY: radosgw.secretKey,
        SVC_REBALANCE_RATE: '1TiB',
        SVC_REBALANCE_INTERVAL: '10ms',
      },
    });
    await using _ = world;
    const { client, context } = world;
    await admin.must('PUT', '/clusters/b/weight', { weight: 0 });
    await client.put('/bucket');
    const body = contentOf('body', 11 * MiB);
    for (const [name, headers] of Object.entries({ plain: {}, sealed: service })) {
      await client.put(`/bucket/${name}/small`, { body: 'small', headers });
      await client.put(`/bucket/${name}/large`, { body, headers });
      const path = `/bucket/${name}/parts`;
      const uploadId = await createUpload(client, path, { headers });
      const parts = [
        await putPart(client, path, { uploadId, number: 1, body: body.subarray(0, 5 * MiB) }),
        await putPart(client, path, { uploadId, number: 2, body: body.subarray(5 * MiB) }),
      ];
      expect((await complete(client, path, { uploadId, parts })).status).toBe(200);
    }
    const expectAll = async (): Promise<void> => {
      for (const name of ['plain', 'sealed']) {
        expect((await client.get(`/bucket/${name}/small`)).text).toBe('small');
        for (const key of ['large', 'parts'])
          expect(Buffer.compare((await client.get(`/bucket/${name}/${key}`)).bytes, body)).toBe(0);
        const headers = { range: `bytes=${5 * MiB - 2}-${5 * MiB + 1}` };
        const across = await client.get(`/bucket/${name}/parts`, { headers });
        expect([...across.bytes]).toEqual([...body.subarray(5 * MiB - 2, 5 * MiB + 2)]);
      }
    };
    await expectAll();
    expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([6, 0]);
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    const units = [rebalance(context), collectGarbage(context)];
    const left = async (): Promise<number> => {
      for (const unit of units) await unit(new AbortController().signal);
      return extentsOn(world, 'a');
    };
    await expect.poll(left, { timeout: 120_000, interval: 100 }).toBe(0);
    await expectAll();
    expect(await extentsOn(world, 'b')).toBe(6);
    expect(await fsckOf(world)).toEqual([]);
    for (const key of (await client.get('/bucket?list-type=2')).all('Key'))
      await client.delete(`/bucket/${key}`);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  describe('as a replication peer', () =>
    peerLaws({
      open: async () => ({ ...radosgw, region: 'default', [Symbol.asyncDispose]: async () => {} }),
    }));

  test('reports whether the bucket answers', async () => {
    const bytes = openUpstreams(upstreamAt(radosgw.endpoint, 'no-such-bucket', radosgw));
    const [health] = await bytes.health();
    expect(health?.pools[0]).toMatchObject({ pool: 'no-such-bucket', state: 'error' });
    await bytes.close();
  });
});
