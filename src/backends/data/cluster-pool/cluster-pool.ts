/** Chunks as objects in the pools of a Ceph cluster. */

import type { Clock } from '../../../ports/clock.ts';
import type { ChunkRef, ChunkStore } from '../../../ports/storage/chunk-store.ts';
import { chunkBytes } from '../../../ports/storage/object-bytes.ts';
import { checkOwner } from './chunk-record.ts';
import { Connection } from './connection.ts';
import { clusterStatus } from './health.ts';
import { type ClusterAddress, isMissing, type RadosDriver, type RadosPool } from './librados/driver.ts';
import { listChunks, namedChunks } from './list-chunks.ts';
import { marksIn } from './marks.ts';
import { type PoolNames, Pools } from './pools.ts';
import { Lane } from './reading/lane.ts';
import type { ReadBudget } from './reading/read-budget.ts';
import { readPieces } from './reading/read-pieces.ts';
import { SlowWrites } from './slow-writes.ts';
import { ChunkWrite } from './write-chunk.ts';

/** Fewer than `namesAtOnce`, the gap up to which an interrupted removal is searched. */
const removalsAtOnce = 8;

export interface ClusterPoolOptions {
  readonly driver: RadosDriver;
  readonly address: ClusterAddress;
  readonly pools: PoolNames;
  readonly clock: Clock;
  /** Bytes of writes that the driver holds. */
  readonly inFlightBytesMax: number;
  /** Shared by the readers of all clusters of a process. */
  readonly readBudget: ReadBudget;
}

export interface ClusterPool extends ChunkStore {
  /** Reaches the cluster and its pools; rejected as the driver, or the settings, have it. */
  check(): Promise<void>;
}

export function clusterPool(options: ClusterPoolOptions): ClusterPool {
  const { crc32c } = options.driver;
  const connection = new Connection(options);
  const pools = new Pools(connection, options.pools);
  const inFlight = new Lane(options.inFlightBytesMax);
  const slow = new SlowWrites(options.clock);
  const open = new Set<string>();
  const reads = {
    budget: options.readBudget,
    crc32c,
    openPool: ({ chunk }: { readonly chunk: ChunkRef }) => openPool(pools, chunk),
    explained: (error: unknown) => connection.explained(error),
  };
  const listing = async () => ({ pools: await pools.all(), isOpen: (id: string) => open.has(id) });

  return {
    heldBytesMax: chunkBytes,
    marks: marksIn({ connection, pools, clock: options.clock }),

    check: async () => void (await pools.all()),

    async write(id, source, { owner, storageClass, size, memory, signal }) {
      const iterator = source[Symbol.asyncIterator]();
      open.add(id);
      try {
        checkOwner(id, owner);
        signal?.throwIfAborted();
        let written = 0;
        const { place } = await connection.attempt(() =>
          pools.write(storageClass, async (pool) => {
            const chunk = new ChunkWrite({ id, owner, size, memory }, { pool, crc32c, inFlight });
            written = await writeFrom({ iterator, chunk, slow, signal });
          }),
        );
        return { id, size: written, at: place };
      } catch (error) {
        await iterator.return?.().catch(() => {
          // The first error is the one to report.
        });
        throw error;
      } finally {
        open.delete(id);
      }
    },

    read: (chunk, range, { signal } = {}) => readPieces(reads, [{ chunk, range }], signal),

    readAcross: (pieces, signal) => readPieces(reads, pieces, signal),

    remove: (chunks) =>
      connection.attempt(async () => {
        const left = chunks.values();
        const work = async (): Promise<void> => {
          for (const chunk of left) await removeChunk(pools, chunk);
        };
        await Promise.all(Array.from({ length: removalsAtOnce }, work));
      }),

    async *list(...prefixes) {
      try {
        yield* listChunks(await listing(), prefixes);
      } catch (error) {
        throw connection.explained(error);
      }
    },

    named: (ids) => connection.attempt(async () => namedChunks(await listing(), ids)),

    pools: pools.configured,
    health: () => clusterStatus(connection, pools),

    close: () => connection.close(),
  };
}

interface Arriving {
  readonly iterator: AsyncIterator<Uint8Array>;
  readonly chunk: ChunkWrite;
  readonly slow: SlowWrites;
  readonly signal: AbortSignal | undefined;
}

/** @returns the size */
async function writeFrom({ iterator, chunk, slow, signal }: Arriving): Promise<number> {
  try {
    while (true) {
      const step = await slow.await(chunk, iterator.next());
      signal?.throwIfAborted();
      if (step.done === true) break;
      const adding = chunk.add(step.value);
      if (adding !== undefined) await adding;
    }
    const { size } = chunk;
    await chunk.finish();
    return size;
  } catch (error) {
    await chunk.abandon();
    throw error;
  }
}

/** The pool of a chunk: noted with its extent, else the pool of chunks without a class. */
async function openPool(pools: Pools, { at, lastAt }: ChunkRef): Promise<RadosPool> {
  const place = at ?? lastAt;
  return place === undefined ? (await pools.forClass(undefined)).pool : pools.at(place);
}

async function removeChunk(pools: Pools, { id, at, lastAt }: ChunkRef): Promise<void> {
  const place = at ?? lastAt;
  const candidates = place === undefined ? (await pools.all()).map(({ pool }) => pool) : [pools.at(place)];
  for (const candidate of candidates) {
    try {
      await (await candidate).remove(id);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
