/**
 * The format of encrypted contents (docs/adr/0006-encryption.md): segments of 64 KiB as stored, the last one shorter, each with its
 * own authentication tag. A range read needs only the segments that it overlaps, and segments align with the blocks and chunks of
 * stores. The nonce of a segment is its number and whether it is the last one: a segment that was swapped, removed, repeated or cut
 * off does not decrypt.
 */

import { loanedRing } from '../../base/loaned-buffers.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import { type CipherKey, nonceBytes, tagBytes } from '../../ports/cryptography.ts';
import { type ByteRange, ChunkDamaged, type Extent } from '../../ports/object-bytes.ts';

/** The size of a stored segment, with its tag. */
export const segmentBytes = 64 * 1024;
/** Bytes of content in a whole segment. */
export const contentBytes = segmentBytes - tagBytes;
/** The longest array that is decrypted at once. */
const groupBytes = 4 * segmentBytes;

export const encryptedSize = (size: number): number => size + Math.ceil(size / contentBytes) * tagBytes;
export const decryptedSize = (size: number): number => size - Math.ceil(size / segmentBytes) * tagBytes;

/** The size of an extent's plaintext. */
export const contentSize = ({ size }: Extent, encryption: Encryption | undefined): number =>
  encryption === undefined ? size : decryptedSize(size);

/** The consumer reads one array while the next one is filled. */
const buffersOfStream = 2;

function buildNonce(index: number, isLast: boolean): Uint8Array {
  const nonce = new Uint8Array(nonceBytes);
  new DataView(nonce.buffer).setUint32(nonceBytes - 5, index);
  nonce[nonceBytes - 1] = isLast ? 1 : 0;
  return nonce;
}

/**
 * Encrypts a content, segment by segment. An array is valid until the array after the next is requested.
 * @param key must not have encrypted anything else
 */
export async function* encryptSegments(
  source: AsyncIterable<Uint8Array>,
  key: CipherKey,
): AsyncGenerator<Uint8Array> {
  const buffers = loanedRing(buffersOfStream);
  const begun = new Segment(contentBytes);
  let index = 0;
  const seal = async (content: Uint8Array, isLast: boolean): Promise<Uint8Array> => {
    const length = content.length + tagBytes;
    const into = isLast && index === 0 ? new Uint8Array(length) : buffers.next(length);
    await key.encrypt(content, { nonce: buildNonce(index++, isLast), into });
    return into;
  };
  /** The first array until a second one arrives. Most contents are a single array and need no copy. */
  let only: Uint8Array | undefined;
  try {
    for await (const piece of source) {
      if (index === 0 && begun.length === 0 && only === undefined && piece.length <= contentBytes) {
        only = piece;
        continue;
      }
      if (only !== undefined) begun.add(only);
      only = undefined;
      // Seal a segment only when more content follows, because only the very last one is marked as the last.
      for (let rest = piece; rest.length > 0; ) {
        if (begun.isFull) yield await seal(begun.take(), false);
        if (begun.length === 0 && rest.length > contentBytes) {
          yield await seal(rest.subarray(0, contentBytes), false);
          rest = rest.subarray(contentBytes);
        } else rest = begun.add(rest);
      }
    }
    const last = only ?? begun.take();
    if (last.length > 0) {
      const isOnly = index === 0;
      const sealed = await seal(last, true);
      yield* isOnly ? [sealed] : buffers.last(sealed);
    }
  } finally {
    begun.buffers.release();
    buffers.releaseButLast();
  }
}

/** A buffer that collects one segment from pieces. */
class Segment {
  length = 0;
  readonly #size: number;
  readonly buffers = loanedRing(1);
  #bytes: Uint8Array | undefined;

  constructor(size: number) {
    this.#size = size;
  }

  get isFull(): boolean {
    return this.length === this.#size;
  }

  /** Takes what fits, and returns the rest. */
  add(piece: Uint8Array): Uint8Array {
    this.#bytes ??= this.buffers.next(this.#size);
    const fitting = piece.subarray(0, this.#size - this.length);
    this.#bytes.set(fitting, this.length);
    this.length += fitting.length;
    return piece.subarray(fitting.length);
  }

  /** Empties it; the array is valid until something is added. */
  take(): Uint8Array {
    const { length } = this;
    this.length = 0;
    return (this.#bytes ?? nothing).subarray(0, length);
  }
}
const nothing = new Uint8Array(0);

export interface Encrypted {
  /** The stored size of the whole extent, which determines the last segment. */
  readonly size: number;
  /** Reads stored bytes. */
  read(range: ByteRange): AsyncIterable<Uint8Array>;
  /** Called for damage that the checksums of the store do not show. */
  onDamage?(): void;
}

function damaged(encrypted: Encrypted, message: string): ChunkDamaged {
  encrypted.onDamage?.();
  return new ChunkDamaged(message);
}

/**
 * Decrypts a range of a content. An array is valid until the array after the next is requested; one that holds the whole range
 * may be kept by the consumer.
 * @throws ChunkDamaged before it yields any byte of a segment that fails authentication
 */
export async function* decryptSegments(
  encrypted: Encrypted,
  key: CipherKey,
  range: ByteRange,
): AsyncGenerator<Uint8Array> {
  const { size } = encrypted;
  const rest = size % segmentBytes;
  if (rest > 0 && rest <= tagBytes) throw damaged(encrypted, `the rest of ${rest} bytes is not authentic`);
  const lastIndex = Math.ceil(size / segmentBytes) - 1;
  const firstIndex = Math.floor(range.start / contentBytes);
  const start = firstIndex * segmentBytes;
  const end = Math.min((Math.floor(range.end / contentBytes) + 1) * segmentBytes, size) - 1;
  const buffers = loanedRing(buffersOfStream);
  let index = firstIndex;
  let left = end - start + 1;
  try {
    for await (const group of wholeSegments(encrypted, { start, end })) {
      left -= group.length;
      const groupStart = index * contentBytes;
      const length = decryptedSize(group.length);
      const isWhole = index === firstIndex && left === 0 && length <= contentBytes;
      const into = isWhole ? new Uint8Array(length) : buffers.next(length);
      for (let at = 0, to = 0; at < group.length; at += segmentBytes, to += contentBytes, index += 1) {
        const segment = group.subarray(at, at + segmentBytes);
        const how = {
          nonce: buildNonce(index, index === lastIndex),
          into: into.subarray(to, to + segment.length - tagBytes),
        };
        if (!(await key.decrypt(segment, how))) throw damaged(encrypted, `segment ${index} is not authentic`);
      }
      const requested = into.subarray(Math.max(0, range.start - groupStart), range.end + 1 - groupStart);
      yield* left === 0 && !isWhole ? buffers.last(requested) : [requested];
    }
  } finally {
    buffers.releaseButLast();
  }
}

/** Cuts stored bytes into arrays of whole segments, without a copy where they arrive that way. */
async function* wholeSegments(encrypted: Encrypted, range: ByteRange): AsyncGenerator<Uint8Array> {
  const begun = new Segment(segmentBytes);
  let left = range.end - range.start + 1;
  try {
    for await (const piece of encrypted.read(range)) {
      left -= piece.length;
      if (left < 0) throw damaged(encrypted, `${-left} bytes too many were read`);
      let rest = begun.length > 0 ? begun.add(piece) : piece;
      if (begun.isFull || (left === 0 && begun.length > 0)) yield begun.take();
      const whole = rest.subarray(0, rest.length - (left === 0 ? 0 : rest.length % segmentBytes));
      for (let at = 0; at < whole.length; at += groupBytes) yield whole.subarray(at, at + groupBytes);
      rest = rest.subarray(whole.length);
      if (rest.length > 0) begun.add(rest);
    }
  } finally {
    begun.buffers.release();
  }
  if (left !== 0) throw damaged(encrypted, `${left} bytes are missing at the end`);
}
