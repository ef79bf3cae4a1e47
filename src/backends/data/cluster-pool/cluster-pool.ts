/** Chunks as objects in the pools of a Ceph cluster. */

import type { ChunkRef, ChunkStore, StoredChunk } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { chunkBytes, type Owner } from '../../../ports/object-bytes.ts';
import { checkOwner, decodeRecord, isMark, listedSize, marksIn } from './chunk-record.ts';
import { Connection } from './connection.ts';
import { type ClusterAddress, isMissing, type RadosDriver, type RadosPool } from './driver.ts';
import { clusterStatus, type OpenPool, type PoolNames, Pools } from './pools.ts';
import type { ReadBudget } from './read-budget.ts';
import { Lane, readPieces } from './read-pieces.ts';
import { ChunkWrite, SlowWrites } from './write-chunk.ts';

/** Fewer than `namesAtOnce`, the gap up to which an interrupted removal is searched. */
const removalsAtOnce = 8;

interface ClusterPoolOptions {
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

// Finds chunks again: all of a store by walking over its pools, or some by their names.

/** Records that are read concurrently. */
const atOnce = 16;

interface Listing {
  readonly pools: readonly OpenPool[];
  /** Chunks that this process is writing, which do not count as stored yet. */
  readonly isOpen: (id: string) => boolean;
}

/** One walk for any number of prefixes; everything without. */
async function* listChunks(listing: Listing, prefixes: readonly string[]): AsyncGenerator<StoredChunk> {
  for (const open of listing.pools) {
    for await (const listed of open.pool.names()) {
      const names = listed.filter((name) => !isMark(name));
      const requested =
        prefixes.length === 0
          ? names
          : names.filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));
      for (let at = 0; at < requested.length; at += atOnce) {
        yield* await found(listing, open, requested.slice(at, at + atOnce));
      }
    }
  }
}

/** Looks in every pool, because an extent may be in any of them. */
async function namedChunks(listing: Listing, names: readonly string[]): Promise<readonly StoredChunk[]> {
  const chunks: StoredChunk[] = [];
  for (const open of listing.pools) chunks.push(...(await found(listing, open, names)));
  return chunks;
}

async function found(
  { isOpen }: Listing,
  open: OpenPool,
  ids: readonly string[],
): Promise<readonly StoredChunk[]> {
  const chunks = await Promise.all(ids.filter((id) => !isOpen(id)).map((id) => look(open, id)));
  return chunks.filter((chunk) => chunk !== undefined);
}

async function look({ pool, place }: OpenPool, id: string): Promise<StoredChunk | undefined> {
  const attribute = await pool.attribute(id).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  const record = attribute === undefined ? undefined : decodeRecord(id, attribute);
  if (record === undefined) return undefined;
  return { id, size: listedSize(record), at: place, owner: JSON.parse(record.ownerJson) as Owner };
}
