/** The store of a real Ceph cluster against the contracts of its ports, each case in a namespace of its own. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { chunked, chunksLeft } from '../../src/backends/data/chunked/chunked.ts';
import type { RadosCluster, RadosDriver, RadosPool } from '../../src/backends/data/cluster-pool/driver.ts';
import { type Extent, unknownSize } from '../../src/ports/object-bytes.ts';
import { type CephCluster, noCeph, startCeph } from '../support/engines/ceph.ts';
import { faulty } from '../support/faulty.ts';
import { type PoolStores, poolStores } from '../support/pool-stores.ts';
import {
  chunkStoreContract,
  contentOf,
  expectIntact,
  idsOf,
  inPieces,
  listAll,
  owner,
  put,
} from './chunk-store.ts';
import { objectBytesContract } from './object-bytes.ts';

describe.skipIf(noCeph !== undefined)(`cluster-pool${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let stores: PoolStores;

  beforeAll(async () => {
    ceph = await startCeph(['chunks']);
    stores = await poolStores(ceph);
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  const fixture = async () => stores.open('chunks');

  describe('a chunk whose client is slow', () => {
    const id = 'slow.0';
    const content = contentOf(id, 2_500_000);
    const begun = 700_000;
    /** Sends the beginning of the content, and the rest after `until` resolves. */
    async function* slowly(until: Promise<unknown>) {
      yield* inPieces(content.subarray(0, begun), 100_000);
      await until;
      yield* inPieces(content.subarray(begun), 100_000);
    }

    test('is written as it arrives, is listed as torn by others, and is complete at the end', async () => {
      const { store, reopen, dispose } = await fixture();
      const other = reopen();
      const held = Promise.withResolvers<void>();
      const writing = store.write(id, slowly(held.promise), { owner });
      await vi.waitFor(async () => expect(idsOf(await listAll(other))).toEqual([id]), { timeout: 120_000 });
      expect((await listAll(other))[0]).toMatchObject({ size: unknownSize, owner });
      expect(await listAll(store)).toEqual([]);
      held.resolve();
      const chunk = await writing;
      expect(chunk.size).toBe(content.length);
      await expectIntact(other, chunk);
      expect(await listAll(store)).toEqual([{ ...chunk, owner }]);
      await other.close();
      await dispose();
    });

    test('leaves nothing behind when it never comes', async () => {
      const { store, reopen, dispose } = await fixture();
      const other = reopen();
      const held = Promise.withResolvers<void>();
      const writing = store.write(id, slowly(held.promise), { owner });
      await vi.waitFor(async () => expect(await listAll(other)).toHaveLength(1), { timeout: 120_000 });
      held.reject(new Error('gone'));
      await expect(writing).rejects.toThrow('gone');
      expect(await listAll(other)).toEqual([]);
      await other.close();
      await dispose();
    });

    test('is found as torn, and can be removed, where its gateway died', async () => {
      const { store, reopen, dispose } = await fixture();
      const bytes = chunked({ default: reopen() });
      const writing = store.write(id, slowly(new Promise(() => {})), { owner });
      writing.catch(() => {});
      const found = async () => {
        const extents: Extent[] = [];
        for await (const { extent } of bytes.find('default', 'slow')) extents.push(extent);
        return extents;
      };
      const torn = [{ cluster: 'default', id: 'slow', size: unknownSize }];
      await vi.waitFor(async () => expect(await found()).toEqual(torn), { timeout: 120_000 });
      await bytes.remove(await found());
      expect(await found()).toEqual([]);
      await bytes.close();
      await dispose();
    });
  });

  test('finds the chunks of an extent by their names, the last ones first, over a gap', async () => {
    const { store, dispose } = await fixture();
    for (const index of [0, 1, 2, 7, 20]) await put(store, `e.1.${index}`, 100);
    await put(store, 'e.10.0', 100);
    const found: string[] = [];
    for await (const chunk of chunksLeft(store, 'e.1')) found.push(chunk.id);
    expect(found).toEqual(['e.1.20', 'e.1.7', 'e.1.2', 'e.1.1', 'e.1.0']);
    await dispose();
  });

  test('reads ahead of its reader, into the next chunks too, and by no more than the window', async () => {
    const { options, readAheadBytes } = stores;
    let asked = 0;
    const connect: RadosDriver['connect'] = async (address) => {
      const cluster = await options.driver.connect(address);
      const pool: RadosCluster['pool'] = async (...place) => {
        const opened = await cluster.pool(...place);
        const read: RadosPool['read'] = (name, into, how) => {
          asked += into.length;
          return opened.read(name, into, how);
        };
        return faulty(opened, { read });
      };
      return faulty(cluster, { pool });
    };
    const { store } = stores.open('chunks', faulty(options.driver, { connect }));
    const bytes = chunked({ default: store });
    const size = 20 << 20;
    const source = inPieces(contentOf('window', size), 1 << 20);
    const extent = await bytes.write(source, { cluster: 'default', id: 'window', owner, size });
    let taken = 0;
    for await (const piece of bytes.read(extent)) {
      taken += piece.length;
      expect(asked).toBeLessThanOrEqual(taken + readAheadBytes);
      if (taken < size) expect(asked).toBeGreaterThan(taken);
    }
    expect([taken, asked]).toEqual([size, size]);
    await bytes.remove([extent]);
    await bytes.close();
  });

  chunkStoreContract('cluster-pool', fixture);
  objectBytesContract('cluster-pool', async () => {
    const [one, two] = [await fixture(), await fixture()];
    return {
      bytes: chunked({ default: one.store, other: two.store }),
      dispose: async () => void (await Promise.all([one.dispose(), two.dispose()])),
    };
  });
});
