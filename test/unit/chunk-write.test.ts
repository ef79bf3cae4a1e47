/** Assembling a chunk for replicated and erasure-coded pools. */
import { setTimeout, setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { crc32c } from '../../src/backends/crypto/node.ts';
import { ChunkWrite, chooseUnit, clusterPool } from '../../src/backends/data/cluster-pool/cluster-pool.ts';
import {
  errno,
  type RadosDriver,
  RadosFailure,
  type RadosPool,
} from '../../src/backends/data/cluster-pool/driver.ts';
import { ReadBudget } from '../../src/backends/data/cluster-pool/read-budget.ts';
import { Lane } from '../../src/backends/data/cluster-pool/read-pieces.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { chunkBytes, DataUnavailable } from '../../src/ports/object-bytes.ts';

const size = 3_000_001;
const content = Uint8Array.from({ length: size }, (_, at) => (at * 31 + (at >> 8)) & 0xff);
const owner = { bucketId: 'b', key: 'k' };
const until = { timeout: 60_000, interval: 5 };

/** A pool that accepts, like an erasure-coded one, only appends at a multiple of its stripe. */
function strictPool(alignment: number) {
  const stored = new Uint8Array(size);
  let length = 0;
  const pool = {
    alignment,
    write: () => ({
      add(bytes: Uint8Array, offset: number) {
        if (offset !== length || offset % alignment !== 0) throw new Error(`refused at ${offset}`);
        stored.set(bytes, offset);
        length += bytes.length;
      },
      async run() {},
      drop() {},
    }),
  };
  return { stored, pool: pool as unknown as RadosPool };
}

describe.each([1, 4096, 12_288, 20_480, 65_536, 45_056])('a pool with stripes of %i bytes', (alignment) => {
  test.each([1000, 65_536, 100_001, size])('takes a chunk that comes %i bytes at a time', async (step) => {
    for (const announced of [size, undefined]) {
      const { pool, stored } = strictPool(alignment);
      const parts = { pool, crc32c, inFlight: new Lane(chunkBytes) };
      const chunk = new ChunkWrite({ id: 'c.0', owner, size: announced }, parts);
      for (let at = 0; at < size; at += step) {
        await chunk.add(content.subarray(at, at + step));
        // From here on the client is slow.
        if (at < size / 3 && at + step >= size / 3) chunk.spill();
      }
      await chunk.finish();
      expect(Buffer.compare(stored, content)).toBe(0);
    }
  });
});

describe('before a cluster that does not answer', () => {
  const opTimeoutMs = 500;
  const writesMax = 4;

  /** Each write fails after the time-out. */
  function hungCluster() {
    let begun = 0;
    const dropped: string[] = [];
    const write = (id: string) => ({
      add() {},
      async run() {
        begun += 1;
        await setTimeout(opTimeoutMs);
        throw new RadosFailure('write', errno.timedOut);
      },
      drop: () => dropped.push(id),
    });
    const pool = { alignment: 1, write, remove: async () => {} };
    const connected = { poolId: async () => 1, pool: async () => pool, close: async () => {} };
    const driver = { crc32c, connect: async () => connected } as unknown as RadosDriver;
    const store = clusterPool({
      driver,
      address: { id: 'a', user: 'client.a', opTimeoutMs, monTimeoutMs: 1_000 },
      pools: { fallback: { pool: 'data', namespace: '' }, byClass: {} },
      clock: systemClock,
      inFlightBytesMax: writesMax * chunkBytes,
      readBudget: new ReadBudget({ bytesMax: chunkBytes, aheadBytes: chunkBytes }),
    });
    async function* source() {
      yield new Uint8Array(chunkBytes);
    }
    const put = (id: number, signal?: AbortSignal): Promise<unknown> =>
      store.write(`c.${id}`, source(), { owner, size: chunkBytes, ...(signal && { signal }) });
    return { put, dropped, begun: () => begun };
  }

  test('writes fail after two time-outs at most, however many wait', async () => {
    const { put } = hungCluster();
    const since = performance.now();
    const writes = Array.from({ length: 6 * writesMax }, (_, id) => put(id));
    for (const { status, ...outcome } of await Promise.allSettled(writes)) {
      expect(status).toBe('rejected');
      expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(DataUnavailable);
    }
    expect(performance.now() - since).toBeLessThan(3.5 * opTimeoutMs);
  });

  test('a write whose client has left waits for no other', async () => {
    const { put, dropped, begun } = hungCluster();
    const first = Array.from({ length: writesMax }, (_, id) => put(id));
    await vi.waitFor(() => expect(begun()).toBe(writesMax), until);
    const client = new AbortController();
    const waiting = put(writesMax, client.signal);
    await turn();
    client.abort(new Error('the client has left'));
    await expect(waiting).rejects.toThrow('the client has left');
    expect(dropped).toEqual([`c.${writesMax}`]);
    await Promise.allSettled(first);
    expect(begun()).toBe(writesMax);
  });
});

describe('a chunk whose memory is wanted by others', () => {
  function slowPool() {
    const stored = Promise.withResolvers<void>();
    const attributes: (Uint8Array | undefined)[] = [];
    const pool = {
      alignment: 1,
      write: () => ({
        add() {},
        async run(attribute?: Uint8Array) {
          attributes.push(attribute);
          await stored.promise;
        },
        drop() {},
      }),
    };
    return { pool: pool as unknown as RadosPool, stored: stored.resolve, attributes };
  }

  function begin() {
    const { pool, stored, attributes } = slowPool();
    const memory = { held: 0, releases: 0, spill: (): boolean => false };
    const chunk = new ChunkWrite(
      {
        id: 'c.0',
        owner,
        size: undefined,
        memory: {
          spillBy: (held, spill) => Object.assign(memory, { held, spill }),
          release: () => {
            memory.releases += 1;
          },
        },
      },
      { pool, crc32c, inFlight: new Lane(chunkBytes) },
    );
    return { chunk, memory, stored, attributes };
  }

  test('gives it back when the cluster has stored it, not when the write begins', async () => {
    const { chunk, memory, stored, attributes } = begin();
    await chunk.add(content.subarray(0, 2_000_000));
    expect([memory.spill(), memory.spill()]).toEqual([true, true]);
    await turn();
    expect(attributes.length).toBe(1);
    expect(memory.releases).toBe(0);
    stored();
    await turn();
    expect(memory.releases).toBe(1);
    expect(memory.spill()).toBe(false);
  });

  test('holds no more than it said from then on, also where it held little', async () => {
    const { chunk, memory, stored, attributes } = begin();
    await chunk.add(content.subarray(0, 65_536));
    expect(memory.spill()).toBe(false);
    stored();
    for (let at = 65_536; at < 2_000_000; at += 65_536) {
      await chunk.add(content.subarray(at, at + 65_536));
    }
    expect(memory.held).toBe(5 * 65_536);
    // One piece for each 256 KiB; the first one marks the chunk as begun.
    expect(attributes.length).toBeGreaterThanOrEqual(7);
    expect(attributes.map((each) => each !== undefined)).toEqual(attributes.map((_, at) => at === 0));
    await chunk.finish();
    expect(attributes.at(-1)).toBeDefined();
  });
});

test('a unit is as small as it can be, and a chunk at most', () => {
  expect([1, 4096, 12_288, 65_536, 131_072].map(chooseUnit)).toEqual([
    65_536, 65_536, 196_608, 65_536, 131_072,
  ]);
  expect(chooseUnit(4096 * 127)).toBe(chunkBytes);
});
