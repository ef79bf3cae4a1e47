/**
 * The write of one chunk. Usually it is collected as it arrives and written in one operation, all or nothing. A chunk whose client is
 * slow does not stay in memory: the bytes so far are written, marked as begun, and the rest follows piece by piece.
 */
import type { ChunkMemory } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { chunkBytes, type Owner } from '../../../ports/object-bytes.ts';
import { Buffers, blockBytes, freshBytes } from '../chunked/buffers.ts';
import { encodeBegun, encodeRecord } from './chunk-record.ts';
import type { Crc32c, RadosPool, RadosWrite } from './driver.ts';
import type { Lane } from './read-pieces.ts';

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
}

interface WriteParts {
  readonly pool: RadosPool;
  readonly crc32c: Crc32c;
  /** Bytes that the driver has and that are not stored yet. */
  readonly inFlight: Lane;
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
    const { inFlight } = this.#parts;
    const taken = await inFlight.take(length);
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

export class SlowWrites {
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
