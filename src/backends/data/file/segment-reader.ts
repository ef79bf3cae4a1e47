/** Reads small chunks out of segments, a few of which are kept open. */
import fs from 'node:fs';
import type { BufferRing, ChunkRef } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { type ByteRange, ChunkDamaged, ChunkMissing } from '../../../ports/object-bytes.ts';
import { crc32c } from '../../crypto/node.ts';
import { blockBytes, blockCrc, decodeHeader, deriveSeed, isHeader } from '../chunked/record.ts';
import { type Disk, type Layout, type Place, parsePlace, segmentPath } from './disk.ts';
import { openSegment } from './maker.ts';
import { locate, type PackedTable, packedTableBytes } from './packed.ts';
import { readBlocks } from './read-blocks.ts';

const openMax = 64;
/** For the cached tables of compacted segments; a table may have one or two MiB. */
const tableBytesMax = 16 * 1024 * 1024;
/**
 * A packing or removal by another process leaves our descriptor on the old file, which stays right to
 * read but keeps its space: we look again this often.
 */
const recheckMs = 10_000;
/** Small reads are carved from slabs: an allocation each would cost more than the read. */
const slabBytes = 64 * 1024;
const carvedBytesMax = 16 * 1024;

interface Handle {
  readonly segment: string;
  readonly fd: number;
  readonly inode: number;
  readonly table: PackedTable | undefined;
  readonly seed: number;
  checkedAt: number;
  /** Reads in progress: the descriptor is closed after the last one. */
  users: number;
  isDropped: boolean;
}

export interface SmallReadOptions {
  readonly signal: AbortSignal | undefined;
  readonly buffers: BufferRing | undefined;
}

export class SegmentReader {
  readonly #layout: Layout;
  readonly #disk: Disk;
  readonly #clock: Clock;
  /** In order of last use. */
  readonly #handles = new Map<string, Handle>();
  #tableBytes = 0;
  #slab = Buffer.alloc(0);
  #slabUsed = 0;

  constructor({ layout, disk, clock }: { layout: Layout; disk: Disk; clock: Clock }) {
    this.#layout = layout;
    this.#disk = disk;
    this.#clock = clock;
  }

  async *read(
    chunk: ChunkRef & { readonly at: string },
    range: ByteRange,
    options: SmallReadOptions,
  ): AsyncGenerator<Uint8Array> {
    const place = parsePlace(chunk.at);
    const handle = this.#use(place.segment);
    if (!handle) throw new ChunkMissing(`chunk ${chunk.id}: segment ${place.segment} is gone`);
    try {
      const position = handle.table ? locate(handle.table, place.offset) : place.offset;
      if (position === undefined) throw new ChunkMissing(`chunk ${chunk.id} was removed from its segment`);
      if (chunk.size <= blockBytes) {
        yield await this.#readWhole(handle, { chunk, place, position, range });
      } else {
        yield* this.#readParts(handle, { chunk, place, position, range }, options);
      }
    } finally {
      handle.users--;
      if (handle.isDropped && handle.users === 0) fs.closeSync(handle.fd);
    }
  }

  /** Header and content with one read. */
  async #readWhole(handle: Handle, { chunk, place, position, range }: Read): Promise<Uint8Array> {
    const { headerBytes } = place;
    const bytes = this.#carve(headerBytes + chunk.size);
    const count = await this.#disk.read(handle.fd, bytes, position);
    const requested = { id: chunk.id, size: chunk.size, headerBytes, seed: handle.seed };
    if (count !== bytes.length || !isHeader(bytes, 0, requested)) {
      throw new ChunkDamaged(`chunk ${chunk.id} does not stand at ${chunk.at}`);
    }
    const content = bytes.subarray(headerBytes);
    if (chunk.size > 0 && crc32c(content) !== blockCrc(bytes, 0, 0)) {
      throw new ChunkDamaged(`chunk ${chunk.id} does not match its checksum`);
    }
    // A plain Uint8Array: a Buffer's `slice` does not copy, and a consumer may count on that it does.
    const length = Math.min(range.end + 1, chunk.size) - range.start;
    return new Uint8Array(bytes.buffer, bytes.byteOffset + headerBytes + range.start, length);
  }

  async *#readParts(
    handle: Handle,
    { chunk, place, position, range }: Read,
    { signal, buffers }: SmallReadOptions,
  ): AsyncGenerator<Uint8Array> {
    const { headerBytes } = place;
    const bytes = Buffer.allocUnsafe(headerBytes);
    const count = await this.#disk.read(handle.fd, bytes, position);
    const requested = { id: chunk.id, size: chunk.size, headerBytes, seed: handle.seed };
    const header =
      count === headerBytes && isHeader(bytes, 0, requested)
        ? decodeHeader(bytes, { at: 0, seed: handle.seed })
        : undefined;
    if (!header) throw new ChunkDamaged(`chunk ${chunk.id} does not stand at ${chunk.at}`);
    const blocks = { ...header, fd: handle.fd, base: position + headerBytes };
    yield* readBlocks(blocks, range, { disk: this.#disk, buffers, signal });
  }

  #carve(length: number): Buffer {
    if (length > carvedBytesMax) return Buffer.allocUnsafeSlow(length);
    if (this.#slabUsed + length > this.#slab.length) {
      this.#slab = Buffer.allocUnsafeSlow(slabBytes);
      this.#slabUsed = 0;
    }
    const start = this.#slabUsed;
    this.#slabUsed += (length + 7) & ~7;
    return this.#slab.subarray(start, start + length);
  }

  #use(segment: string): Handle | undefined {
    let handle = this.#handles.get(segment);
    if (handle && this.#clock.elapsed() - handle.checkedAt > recheckMs && !this.#isCurrent(handle)) {
      this.drop(segment);
      handle = undefined;
    }
    if (!handle) {
      const open = openSegment(this.#layout, segment);
      if (!open) return undefined;
      const checkedAt = this.#clock.elapsed();
      handle = { ...open, segment, seed: deriveSeed(segment), checkedAt, users: 0, isDropped: false };
      this.#makeSpace();
      this.#tableBytes += handleTableBytes(handle);
    } else {
      this.#handles.delete(segment);
    }
    this.#handles.set(segment, handle);
    handle.users++;
    return handle;
  }

  #isCurrent(handle: Handle): boolean {
    const path = segmentPath(this.#layout, handle.segment, 'seg');
    handle.checkedAt = this.#clock.elapsed();
    return fs.statSync(path, { throwIfNoEntry: false })?.ino === handle.inode;
  }

  #makeSpace(): void {
    for (const segment of this.#handles.keys()) {
      if (this.#handles.size < openMax && this.#tableBytes <= tableBytesMax) return;
      this.drop(segment);
    }
  }

  /** Forgets a segment; reads in progress keep what they have. */
  drop(segment: string): void {
    const handle = this.#handles.get(segment);
    if (!handle) return;
    this.#handles.delete(segment);
    this.#tableBytes -= handleTableBytes(handle);
    handle.isDropped = true;
    if (handle.users === 0) fs.closeSync(handle.fd);
  }

  /** Closes segments that other processes have replaced, whether they are read or not. */
  dropReplaced(): void {
    for (const handle of this.#handles.values()) {
      if (!this.#isCurrent(handle)) this.drop(handle.segment);
    }
  }

  close(): void {
    for (const segment of this.#handles.keys()) this.drop(segment);
  }
}

interface Read {
  readonly chunk: ChunkRef;
  readonly place: Place;
  readonly position: number;
  readonly range: ByteRange;
}

const handleTableBytes = ({ table }: Handle): number =>
  table === undefined ? 0 : packedTableBytes(table.from.length);
