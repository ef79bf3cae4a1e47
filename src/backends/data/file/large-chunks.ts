/**
 * Chunks in separate files: content, then the header, then eight bytes with the header's length. Written under a temporary name as the
 * bytes arrive, flushed, and only then renamed.
 */
import fs from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import type { BufferRing, ChunkRef, StoredChunk } from '../../../ports/chunk-store.ts';
import { type ByteRange, ChunkDamaged, ChunkMissing, type Owner } from '../../../ports/object-bytes.ts';
import { crc32c } from '../../crypto/node.ts';
import {
  blockBytes,
  decodeHeader,
  deriveSeed,
  describe,
  encodeHeader,
  type Header,
  headerBytesMax,
  sealHeader,
} from '../chunked/record.ts';
import {
  type Disk,
  directoryMode,
  fileMode,
  groupMatches,
  isMissing,
  isOfOneFile,
  isTaken,
  type Layout,
  largeGroup,
  largePath,
  unreadableOwner,
} from './disk.ts';
import { readBlocks } from './read-blocks.ts';

const tailBytes = 8;
const tailMask = 0x4c415247;
/** A group can vanish, when it was empty, between our making it and our using it. */
const renameTriesMax = 5;

export interface LargeParts {
  readonly layout: Layout;
  readonly disk: Disk;
  /**
   * Groups whose directory entries this process has flushed: another process that created a group may not have done so yet. The set is
   * small; a group is used for minutes.
   */
  readonly durableGroups: Set<string>;
}

const durableGroupsMax = 64;

function encodeTail(headerBytes: number): Buffer {
  const tail = Buffer.alloc(tailBytes);
  tail.writeUInt32LE(headerBytes, 0);
  tail.writeUInt32LE((headerBytes ^ tailMask) >>> 0, 4);
  return tail;
}

/** Renames a finished and flushed temporary file, durably. */
async function publish(parts: LargeParts, id: string, temporary: string): Promise<void> {
  const { layout, disk, durableGroups } = parts;
  const group = largeGroup(id);
  const path = `${layout.large}/${group}`;
  for (let tries = 1; ; tries++) {
    try {
      await rename(temporary, largePath(layout, id));
      break;
    } catch (error) {
      if (!isMissing(error) || tries === renameTriesMax) throw error;
      // Not recursive: it would begin a new store where a disk is unmounted.
      await mkdir(path, { mode: directoryMode }).catch((cause: unknown) => {
        if (!isTaken(cause)) throw cause;
      });
      durableGroups.delete(group);
    }
  }
  try {
    if (!durableGroups.has(group)) await disk.flushDirectory(layout.large);
    await disk.flushDirectory(path);
  } catch (error) {
    // If it is not durable it does not count as stored; its id is never used again.
    await unlink(largePath(layout, id)).catch(() => {});
    throw error;
  }
  if (durableGroups.size >= durableGroupsMax) durableGroups.clear();
  durableGroups.add(group);
}

type Files = Pick<LargeParts, 'layout' | 'disk'>;

export async function* readLarge(
  { layout, disk }: Files,
  chunk: ChunkRef,
  range: ByteRange,
  options: { readonly signal: AbortSignal | undefined; readonly buffers: BufferRing | undefined },
): AsyncGenerator<Uint8Array> {
  const { signal, buffers } = options;
  let fd: number;
  try {
    // Synchronous, because a file that is read again and again has its name in the cache.
    fd = fs.openSync(largePath(layout, chunk.id), 'r');
  } catch (error) {
    if (isMissing(error)) throw new ChunkMissing(`chunk ${chunk.id} has no file`);
    throw error;
  }
  try {
    const header = await readHeader(fd, chunk.id, disk);
    if (!header || header.id !== chunk.id || header.size !== chunk.size) {
      throw new ChunkDamaged(`the file of chunk ${chunk.id} is not whole`);
    }
    yield* readBlocks({ ...header, fd, base: 0 }, range, { disk, buffers, signal });
  } finally {
    fs.closeSync(fd);
  }
}

async function readHeader(fd: number, id: string, disk: Disk): Promise<Header | undefined> {
  const { size } = fs.fstatSync(fd);
  // One read gets the tail and nearly every header.
  const start = Math.max(0, size - 2048);
  let bytes = Buffer.allocUnsafe(size - start);
  if ((await disk.read(fd, bytes, start)) !== bytes.length || bytes.length < tailBytes) return undefined;
  const headerBytes = bytes.readUInt32LE(bytes.length - tailBytes);
  const check = bytes.readUInt32LE(bytes.length - 4);
  if (check !== (headerBytes ^ tailMask) >>> 0 || headerBytes > headerBytesMax) return undefined;
  let at = bytes.length - tailBytes - headerBytes;
  if (at < 0) {
    bytes = Buffer.allocUnsafe(headerBytes);
    const position = size - tailBytes - headerBytes;
    if (position < 0 || (await disk.read(fd, bytes, position)) !== headerBytes) return undefined;
    at = 0;
  }
  const header = decodeHeader(bytes, { at, seed: deriveSeed(id) });
  return header && header.size + header.headerBytes + tailBytes === size ? header : undefined;
}

/** Durable on return; missing files are no error. */
export async function removeLarge({ layout, disk }: Files, ids: readonly string[]): Promise<void> {
  const groups = new Set<string>();
  for (const id of ids) {
    try {
      await unlink(largePath(layout, id));
      groups.add(largeGroup(id));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  for (const group of groups) {
    await disk.flushDirectory(`${layout.large}/${group}`).catch((error: unknown) => {
      // The group was empty and has been removed.
      if (!isMissing(error)) throw error;
    });
  }
}

export async function* listLarge({ layout, disk }: Files, prefix: string): AsyncGenerator<StoredChunk> {
  for (const group of await readdir(layout.large)) {
    if (!groupMatches(group, prefix)) continue;
    for (const id of await namesIn(`${layout.large}/${group}`)) {
      if (!id.startsWith(prefix)) continue;
      const found = await describeLarge({ layout, disk }, id);
      if (found) yield found;
    }
  }
}

export async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** A file that cannot be read any more is listed too: it takes space and can be removed. */
async function describeLarge({ layout, disk }: Files, id: string): Promise<StoredChunk | undefined> {
  try {
    const handle = await open(largePath(layout, id), 'r');
    try {
      const header = await readHeader(handle.fd, id, disk);
      if (header?.id === id) return { id, size: header.size, owner: JSON.parse(header.ownerJson) as Owner };
      return { id, size: (await handle.stat()).size, owner: unreadableOwner };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    if (isOfOneFile(layout, error)) return { id, size: 0, owner: unreadableOwner };
    throw error;
  }
}

// Writes one large chunk as its bytes arrive, in pieces of 256 KiB, with a checksum for each 64 KiB.

export const pieceBytes = 256 * 1024;
/** A write of less costs more than the copy that joins it with others. */
const directBytesMin = 2 * blockBytes;
const spareMax = 16;
const spare: Buffer[] = [];

/** Pieces never leave the writers that borrow them, so they can be lent again. */
export const borrowPiece = (): Buffer => spare.pop() ?? Buffer.allocUnsafeSlow(pieceBytes);
export function returnPiece(piece: Buffer): void {
  if (spare.length < spareMax) spare.push(piece);
  // Detaching frees its memory immediately.
  else (piece.buffer as ArrayBuffer).transfer(0);
}

interface LargeWrite {
  readonly id: string;
  readonly owner: Owner;
  readonly size: number | undefined;
  readonly signal: AbortSignal | undefined;
  /** The path of the file before it is renamed. */
  readonly temporary: string;
}

export async function writeLarge(
  parts: LargeParts,
  source: AsyncIterator<Uint8Array>,
  write: LargeWrite,
): Promise<ChunkRef> {
  const { id, temporary } = write;
  const file = await open(temporary, 'wx', fileMode);
  try {
    const size = await writeContent(file, parts, source, write);
    await parts.disk.flush(file.fd);
    await file.close();
    await publish(parts, id, temporary);
    return { id, size };
  } catch (error) {
    await file.close().catch(() => {});
    await unlink(temporary).catch(() => {});
    throw error;
  }
}

/** Holds a piece until the last byte is with the kernel: a flush takes long and needs none. @returns bytes of content */
async function writeContent(
  file: FileHandle,
  parts: LargeParts,
  source: AsyncIterator<Uint8Array>,
  { id, owner, size, signal }: LargeWrite,
): Promise<number> {
  const content = new Content(file, parts, size);
  try {
    for (let step = await source.next(); !step.done; step = await source.next()) {
      signal?.throwIfAborted();
      await content.add(step.value);
    }
    signal?.throwIfAborted();
    await content.finish(id, owner);
    return content.written;
  } finally {
    content.close();
  }
}

/** The bytes so far: whole pieces on disk, the rest in a piece that is borrowed for arrays of other lengths. */
class Content {
  #piece: Buffer | undefined;
  written = 0;
  readonly #file: FileHandle;
  readonly #parts: LargeParts;
  readonly #size: number | undefined;
  readonly #crcs: number[] = [];
  #filled = 0;

  constructor(file: FileHandle, parts: LargeParts, size: number | undefined) {
    this.#file = file;
    this.#parts = parts;
    this.#size = size;
  }

  async add(arrived: Uint8Array): Promise<void> {
    if (this.#size !== undefined && this.written + this.#filled + arrived.length > this.#size) {
      throw new Error(`a source of ${this.#size} bytes gave more`);
    }
    let bytes = arrived;
    while (bytes.length > 0) {
      const direct = this.#filled === 0 ? this.#countDirect(bytes) : 0;
      if (direct > 0) {
        await this.#store(bytes.subarray(0, direct));
        bytes = bytes.subarray(direct);
      } else {
        this.#piece ??= borrowPiece();
        const count = Math.min(bytes.length, pieceBytes - this.#filled);
        this.#piece.set(bytes.subarray(0, count), this.#filled);
        this.#filled += count;
        bytes = bytes.subarray(count);
        if (this.#filled === pieceBytes) await this.#storePiece(this.#piece);
      }
    }
  }

  /** How many bytes are long enough to be written without a copy: whole blocks, or the end of the content. */
  #countDirect({ length }: Uint8Array): number {
    if (length <= pieceBytes && this.written + length === this.#size) return length;
    const whole = length - (length % blockBytes);
    return whole < directBytesMin ? 0 : Math.min(whole, pieceBytes);
  }

  close(): void {
    if (this.#piece !== undefined) returnPiece(this.#piece);
    this.#piece = undefined;
  }

  async finish(id: string, owner: Owner): Promise<void> {
    if (this.#piece !== undefined && this.#filled > 0) await this.#storePiece(this.#piece);
    if (this.#size !== undefined && this.written !== this.#size) {
      throw new Error(`a source of ${this.#size} bytes gave ${this.written}`);
    }
    const record = describe(id, { owner, size: this.written });
    const { headerBytes } = record;
    const header = Buffer.alloc(headerBytes);
    encodeHeader(header, 0, { ...record, size: this.written, crcs: this.#crcs });
    sealHeader(header, { at: 0, headerBytes, seed: deriveSeed(id) });
    await this.#parts.disk.write(
      this.#file.fd,
      Buffer.concat([header, encodeTail(headerBytes)]),
      this.written,
    );
  }

  async #storePiece(piece: Buffer): Promise<void> {
    await this.#store(piece.subarray(0, this.#filled));
    this.#filled = 0;
  }

  async #store(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += blockBytes) {
      this.#crcs.push(crc32c(bytes.subarray(at, at + blockBytes)));
    }
    await this.#parts.disk.write(this.#file.fd, bytes, this.written);
    this.written += bytes.length;
  }
}
