/** Copies an extent to another cluster, byte for byte as it is stored, and verifies the copy. */
import type { Context } from '../../../context.ts';
import { ChunkDamaged, type Extent, type WriteOptions } from '../../../ports/storage/object-bytes.ts';
import type { Pace } from './pace.ts';

type Ctx = Pick<Context, 'bytes' | 'hasher'>;

export interface ExtentCopy extends Pick<WriteOptions, 'cluster' | 'id' | 'owner' | 'storageClass'> {
  readonly pace: Pace;
  readonly signal: AbortSignal;
}

/** @throws ChunkDamaged when the copy differs from the original */
export async function copyExtent(
  { bytes, hasher }: Ctx,
  from: Extent,
  { pace, signal, ...into }: ExtentCopy,
): Promise<Extent> {
  const read = hasher.create('crc32c');
  async function* source(): AsyncGenerator<Uint8Array> {
    for await (const piece of bytes.read(from, undefined, signal)) {
      await pace(piece.length, signal);
      read.update(piece);
      yield piece;
    }
  }
  const copy = await bytes.write(source(), { ...into, size: from.size, signal });
  const arrived = hasher.create('crc32c');
  for await (const piece of bytes.read(copy, undefined, signal)) arrived.update(piece);
  const sum = arrived.digest();
  if (read.digest().some((byte, i) => byte !== sum[i]))
    throw new ChunkDamaged(`extent ${from.id} did not arrive on ${into.cluster} as it was read`);
  return copy;
}
