/** The attribute of a chunk's object: id, owner, size and a CRC32C of each 64 KiB, under a CRC32C of its own. */
import { ChunkDamaged, type Owner, unknownSize } from '../../../ports/storage/object-bytes.ts';
import { blockBytes } from '../chunked/buffers.ts';
import {
  decodeHeader,
  deriveSeed,
  describe,
  encodeHeader,
  type Header,
  sealHeader,
} from '../chunked/record.ts';
import type { Crc32c } from './librados/driver.ts';

/** Refuses names and owners that no record can hold, before a byte is read. */
export function checkOwner(id: string, owner: Owner): void {
  describe(id, { owner, size: 0 });
}

export function encodeRecord(
  id: string,
  { owner, size, crcs }: { readonly owner: Owner; readonly size: number; readonly crcs: readonly number[] },
): Uint8Array {
  const record = describe(id, { owner, size });
  const { headerBytes } = record;
  const bytes = Buffer.alloc(headerBytes);
  encodeHeader(bytes, 0, { ...record, size, crcs });
  sealHeader(bytes, { at: 0, headerBytes, seed: deriveSeed(id) });
  return bytes;
}

/** The attribute of a chunk of which only the beginning is stored: its size is 0, which no complete chunk has. */
export const encodeBegun = (id: string, owner: Owner): Uint8Array =>
  encodeRecord(id, { owner, size: 0, crcs: [] });

/** Undefined for an object that is not a chunk. */
export function decodeRecord(id: string, attribute: Uint8Array): Header | undefined {
  const bytes = Buffer.from(attribute.buffer, attribute.byteOffset, attribute.length);
  const header = decodeHeader(bytes, { at: 0, seed: deriveSeed(id) });
  return header?.id === id ? header : undefined;
}

/** The size of a chunk in a listing; a chunk that was only begun has none. */
export const listedSize = ({ size }: Header): number => (size === 0 ? unknownSize : size);

/** @param blocks.first the one that the bytes begin with */
export function verifyBlocks(
  { id, crcs }: Header,
  bytes: Uint8Array,
  { first, crc32c }: { readonly first: number; readonly crc32c: Crc32c },
): void {
  for (let at = 0, block = first; at < bytes.length; at += blockBytes, block += 1) {
    if (crc32c(bytes.subarray(at, at + blockBytes)) !== crcs[block]) {
      throw new ChunkDamaged(`block ${block} of chunk ${id} does not match its checksum`);
    }
  }
}
