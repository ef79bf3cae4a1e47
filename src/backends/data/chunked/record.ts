/**
 * The header before a small chunk in a segment and after a large one in its file. It suffices to verify every block, and to list and
 * rebuild everything from disk alone.
 *
 * Little-endian: magic u32 · version u8 · id length u8 · owner length u16 · size u32 · CRC32C of the rest of the header u32 ·
 * CRC32C of each 64 KiB block u32 · id · owner as JSON.
 */

import type { Owner } from '../../../ports/object-bytes.ts';
import { crc32c } from '../../crypto/node.ts';

/** Each block of a stored record has a checksum. */
export const blockBytes = 64 * 1024;

const magic = 0x31434c53; // "SLC1"
const version = 1;
const crcAt = 12;
const fixedBytes = 16;
const idBytesMax = 255;
const ownerBytesMax = 65_535;
export const headerBytesMax = fixedBytes + 64 * 4 + idBytesMax + ownerBytesMax;

export interface Header {
  readonly id: string;
  readonly size: number;
  readonly headerBytes: number;
  readonly crcs: Uint32Array;
  readonly ownerJson: string;
}

/** Makes records of different places distinguishable: a copy of a record inside a client's object is not accepted. */
export const deriveSeed = (place: string): number => crc32c(Buffer.from(place, 'latin1'));

export const blockCount = (size: number): number => Math.ceil(size / blockBytes);

export interface Unwritten {
  readonly id: string;
  readonly ownerJson: string;
  readonly ownerBytes: number;
  readonly headerBytes: number;
}

const idForm = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$/;

export function describe(id: string, { owner, size }: { owner: Owner; size: number }): Unwritten {
  if (!idForm.test(id)) throw new Error(`a chunk cannot be named ${JSON.stringify(id)}`);
  const ownerJson = JSON.stringify(owner);
  const ownerBytes = Buffer.byteLength(ownerJson);
  if (ownerBytes > ownerBytesMax) throw new Error(`the owner of chunk ${id} takes ${ownerBytes} bytes`);
  return {
    id,
    ownerJson,
    ownerBytes,
    headerBytes: fixedBytes + 4 * blockCount(size) + id.length + ownerBytes,
  };
}

/** Writes the header at `at`, all but its own CRC; `crcs` are of the blocks, in order. */
export function encodeHeader(
  into: Buffer,
  at: number,
  record: Unwritten & { readonly size: number; readonly crcs: ArrayLike<number> },
): void {
  const { id, ownerJson, ownerBytes, size, crcs } = record;
  into.writeUInt32LE(magic, at);
  into[at + 4] = version;
  into[at + 5] = id.length;
  into.writeUInt16LE(ownerBytes, at + 6);
  into.writeUInt32LE(size, at + 8);
  let next = at + fixedBytes;
  for (let block = 0; block < crcs.length; block++, next += 4) {
    into.writeUInt32LE(crcs[block] as number, next);
  }
  into.write(id, next, 'latin1');
  into.write(ownerJson, next + id.length, 'utf8');
}

/** Completes a header once its place, and so the seed, is known. */
export function sealHeader(
  into: Buffer,
  place: { readonly at: number; readonly headerBytes: number; readonly seed: number },
): void {
  into.writeUInt32LE(headerCrc(into, place), place.at + crcAt);
}

function headerCrc(
  bytes: Buffer,
  { at, headerBytes, seed }: { readonly at: number; readonly headerBytes: number; readonly seed: number },
): number {
  const before = crc32c(bytes.subarray(at, at + crcAt), seed);
  return crc32c(bytes.subarray(at + fixedBytes, at + headerBytes), before);
}

/** The length of the header at `at`, from its fixed part; undefined when there is none. */
export function headerLength(bytes: Buffer, at: number): number | undefined {
  if (at + fixedBytes > bytes.length) return undefined;
  if (bytes.readUInt32LE(at) !== magic || bytes[at + 4] !== version) return undefined;
  const blocks = blockCount(bytes.readUInt32LE(at + 8));
  return fixedBytes + 4 * blocks + (bytes[at + 5] as number) + bytes.readUInt16LE(at + 6);
}

/** Whether there is a valid header of this length, id and size at `at`; the hot path's check. */
export function isHeader(
  bytes: Buffer,
  at: number,
  requested: {
    readonly id: string;
    readonly size: number;
    readonly headerBytes: number;
    readonly seed: number;
  },
): boolean {
  const { id, size, headerBytes, seed } = requested;
  if (headerLength(bytes, at) !== headerBytes || bytes.readUInt32LE(at + 8) !== size) return false;
  if (at + headerBytes > bytes.length) return false;
  if (bytes.readUInt32LE(at + crcAt) !== headerCrc(bytes, { at, headerBytes, seed })) return false;
  const idAt = at + fixedBytes + 4 * blockCount(size);
  return bytes[at + 5] === id.length && bytes.toString('latin1', idAt, idAt + id.length) === id;
}

/** The CRC that the header at `at` holds for a block. */
export const blockCrc = (bytes: Buffer, at: number, block: number): number =>
  bytes.readUInt32LE(at + fixedBytes + 4 * block);

export function decodeHeader(
  bytes: Buffer,
  { at, seed }: { readonly at: number; readonly seed: number },
): Header | undefined {
  const headerBytes = headerLength(bytes, at);
  if (headerBytes === undefined || at + headerBytes > bytes.length) return undefined;
  if (bytes.readUInt32LE(at + crcAt) !== headerCrc(bytes, { at, headerBytes, seed })) return undefined;
  const size = bytes.readUInt32LE(at + 8);
  const crcs = Uint32Array.from({ length: blockCount(size) }, (_, block) => blockCrc(bytes, at, block));
  const idAt = at + fixedBytes + 4 * crcs.length;
  const ownerAt = idAt + (bytes[at + 5] as number);
  return {
    id: bytes.toString('latin1', idAt, ownerAt),
    size,
    headerBytes,
    crcs,
    ownerJson: bytes.toString('utf8', ownerAt, at + headerBytes),
  };
}

/** The next position with a header's magic, starting at `from`; -1 when there is none. */
export function findMagic(bytes: Buffer, from: number): number {
  const requested = Buffer.alloc(4);
  requested.writeUInt32LE(magic);
  return bytes.indexOf(requested, from);
}
