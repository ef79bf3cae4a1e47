/** Chunks as objects in the pools of a Ceph cluster. */

import { Buffers, freshBytes } from '../../../base/loaned-buffers.ts';
import type { ChunkMemory, ChunkRef, ChunkStore, StoredChunk } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { chunkBytes, type Owner } from '../../../ports/object-bytes.ts';
import { blockBytes } from '../chunked/record.ts';
import {
  checkOwner,
  decodeRecord,
  encodeBegun,
  encodeRecord,
  isMark,
  listedSize,
  marksIn,
} from './chunk-record.ts';
import {
  type ClusterAddress,
  type Crc32c,
  isMissing,
  type RadosDriver,
  type RadosPool,
  type RadosWrite,
} from './driver.ts';
import { Connection, clusterStatus, type OpenPool, type PoolNames, Pools } from './pools.ts';
import type { ReadBudget } from './read-budget.ts';
import { Lane, readPieces } from './read-pieces.ts';

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
  const waitMsMax = options.address.opTimeoutMs;
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
    bufferedBytesMax: chunkBytes,
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
            const incoming = { id, owner, size, memory, signal };
            const chunk = new ChunkWrite(incoming, { pool, crc32c, inFlight, waitMsMax });
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

// The write of one chunk. Usually it is collected as it arrives and written in one operation, all or nothing. A chunk whose client is
// slow does not stay in memory: the bytes so far are written, marked as begun, and the rest follows piece by piece.

/** The piece in which a slow client's chunk is written, and the memory that it takes. */
const pieceBytes = 4 * blockBytes;
/** Where arrays of other lengths are joined while they are in the processor's cache. */
const blocks = new Buffers(blockBytes, 64 * blockBytes);

interface Incoming {
  readonly id: string;
  readonly owner: Owner;
  /** Undefined when it is not known. */
  readonly size: number | undefined;
  /** How the caller counts the memory of all writes. */
  readonly memory?: ChunkMemory | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface WriteParts {
  readonly pool: RadosPool;
  readonly crc32c: Crc32c;
  /** Bytes that the driver has and that are not stored yet. */
  readonly inFlight: Lane;
  /** How long a write waits for room in `inFlight`. Without it, writes before a cluster that does not answer wait for one time-out of others after the other. */
  readonly waitMsMax?: number;
}

export class ChunkWrite {
  readonly #chunk: Incoming;
  readonly #parts: WriteParts;
  readonly #crcs: number[] = [];
  /** The operation that is being collected, and its bytes. */
  #write: RadosWrite | undefined;
  #added = 0;
  /** The length of the pieces that are added. */
  readonly #unit: number;
  /** The beginning of a unit. */
  #gathered: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;
  /** Bytes that are on their way, or stored. */
  #sent = 0;
  /** The pieces under way, in order. */
  #sending: Promise<void> = Promise.resolve();
  #isPiecewise = false;
  #isSpilling = false;

  constructor(chunk: Incoming, parts: WriteParts) {
    this.#chunk = chunk;
    this.#parts = parts;
    this.#unit = chooseUnit(parts.pool.alignment);
    chunk.memory?.spillBy(pieceBytes + this.#unit, () => {
      if (this.isLarge) this.spill();
      this.#isPiecewise = true;
      return this.#isSpilling;
    });
  }

  /** Whether it holds more than a slow client's chunk should. */
  get isLarge(): boolean {
    return this.#added >= pieceBytes && !this.#isPiecewise;
  }

  get size(): number {
    return this.#sent + this.#added + this.#filled;
  }

  /** @returns a promise where the next array has to wait */
  add(arrived: Uint8Array): Promise<void> | undefined {
    const { size, id } = this.#chunk;
    const total = this.size + arrived.length;
    if (size !== undefined && total > size) throw new Error(`a source of ${size} bytes gave more`);
    if (total > chunkBytes) throw new Error(`chunk ${id} is larger than ${chunkBytes} bytes`);
    // The end need not be a whole block.
    const isLast = total === size;
    for (let at = 0; at < arrived.length; ) {
      const count = Math.min(arrived.length - at, this.#unit - this.#filled);
      const bytes = arrived.subarray(at, at + count);
      if (this.#filled === 0 && (count === this.#unit || isLast)) this.#take(bytes);
      else this.#fill(bytes);
      at += count;
    }
    if (!this.#isPiecewise || this.#added < pieceBytes) return undefined;
    this.#sendPiece();
    return this.#sending;
  }

  #fill(bytes: Uint8Array): void {
    this.#gathered ??= this.#unit === blockBytes ? blocks.borrow() : freshBytes(this.#unit);
    this.#gathered.set(bytes, this.#filled);
    this.#filled += bytes.length;
    if (this.#filled === this.#unit) this.#takeFilled();
  }

  #takeFilled(): void {
    const [gathered, filled] = [this.#gathered, this.#filled];
    if (gathered === undefined || filled === 0) return;
    this.#filled = 0;
    this.#take(gathered.subarray(0, filled));
  }

  #take(bytes: Uint8Array): void {
    this.#write ??= this.#newWrite();
    this.#write.add(bytes, this.#sent + this.#added);
    for (let at = 0; at < bytes.length; at += blockBytes) {
      this.#crcs.push(this.#parts.crc32c(bytes.subarray(at, at + blockBytes)));
    }
    this.#added += bytes.length;
  }

  #newWrite(): RadosWrite {
    const { id, size = chunkBytes } = this.#chunk;
    return this.#parts.pool.write(id, { isNew: this.#sent === 0, size });
  }

  /** Writes the bytes so far, because the client is slow; from now on piece by piece. */
  spill(): void {
    this.#isPiecewise = true;
    this.#isSpilling = true;
    this.#sendPiece();
    const release = (): void => {
      this.#isSpilling = false;
      this.#chunk.memory?.release();
    };
    // A failure rejects the next `add`, or `finish`.
    this.#sending.then(release, release);
  }

  /** The first piece marks the chunk as begun. */
  #sendPiece(): void {
    const { id, owner } = this.#chunk;
    this.#send(this.#sent === 0 ? encodeBegun(id, owner) : undefined);
  }

  async finish(): Promise<void> {
    const { id, owner, size: announced } = this.#chunk;
    const { size } = this;
    if (announced !== undefined && size !== announced) {
      throw new Error(`a source of ${announced} bytes gave ${size}`);
    }
    this.#takeFilled();
    this.#send(encodeRecord(id, { owner, size, crcs: this.#crcs }));
    await this.#sending;
    this.#giveBackGathered();
  }

  /** Hands over what was added; what is left begins the next piece. */
  #send(attribute?: Uint8Array): void {
    const [write, length] = [this.#write ?? this.#newWrite(), this.#added];
    this.#write = undefined;
    this.#added = 0;
    this.#sent += length;
    this.#sending = this.#sending.then(
      () => this.#run(write, length, { attribute }),
      (error: unknown) => {
        write.drop();
        throw error;
      },
    );
  }

  async #run(
    write: RadosWrite,
    length: number,
    { attribute }: { readonly attribute: Uint8Array | undefined },
  ): Promise<void> {
    const { inFlight, waitMsMax } = this.#parts;
    const patience = { signal: this.#chunk.signal, waitMsMax };
    const taken = await inFlight.take(length, patience).catch((cause: unknown) => {
      write.drop();
      throw cause;
    });
    try {
      await write.run(attribute);
    } finally {
      inFlight.give(taken);
    }
  }

  /** Discards the chunk. */
  async abandon(): Promise<void> {
    this.#giveBackGathered();
    this.#write?.drop();
    this.#write = undefined;
    if (!this.#isPiecewise) return;
    await this.#sending.catch(() => {});
    // The caller queues the extent, which removes what this leaves; report the first error.
    await this.#parts.pool.remove(this.#chunk.id).catch(() => {});
  }

  #giveBackGathered(): void {
    if (this.#gathered?.length === blockBytes) blocks.giveBack(this.#gathered);
    this.#gathered = undefined;
  }
}

/** Whole blocks that the pool takes one after another; a chunk at most, which it takes in any length. */
export function chooseUnit(alignment: number): number {
  for (let unit = blockBytes; unit < chunkBytes; unit += blockBytes) {
    if (unit % alignment === 0) return unit;
  }
  return chunkBytes;
}

// Spills chunks whose clients are slow: their bytes must leave memory, because their share of the write budget is lent.

/** A client that sends nothing for this long is slow. */
const patienceMs = 100;

class SlowWrites {
  readonly #clock: Pick<Clock, 'sleep'>;
  /** Writes that wait for their clients, and whether they did at the last check. */
  readonly #waiting = new Map<ChunkWrite, boolean>();
  #isLooking = false;

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock;
  }

  /** Waits for the client; no other task works on its chunk meanwhile. */
  async await<T>(chunk: ChunkWrite, next: Promise<T>): Promise<T> {
    if (!chunk.isLarge) return next;
    this.#waiting.set(chunk, false);
    void this.#look();
    try {
      return await next;
    } finally {
      this.#waiting.delete(chunk);
    }
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#waiting.size > 0) {
      await this.#clock.sleep(patienceMs);
      for (const [chunk, wasWaiting] of this.#waiting) {
        if (wasWaiting && chunk.isLarge) chunk.spill();
        if (wasWaiting) this.#waiting.delete(chunk);
        else this.#waiting.set(chunk, true);
      }
    }
    this.#isLooking = false;
  }
}
