/** Writes one large chunk as its bytes arrive, in pieces of 256 KiB, with a checksum for each 64 KiB. */
import { type FileHandle, open, unlink } from 'node:fs/promises';
import type { ChunkRef } from '../../../ports/storage/chunk-store.ts';
import type { Owner } from '../../../ports/storage/object-bytes.ts';
import { crc32c } from '../../hashing/node.ts';
import { blockBytes } from '../chunked/buffers.ts';
import { deriveSeed, describe, encodeHeader, sealHeader } from '../chunked/record.ts';
import { encodeTail, type LargeParts, publish } from './large-chunks.ts';
import { fileMode } from './layout.ts';

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

export interface LargeWrite {
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
