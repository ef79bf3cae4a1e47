/** Whether the bytes that a row names are stored, complete, and unchanged. */
import type { ManifestPart } from '../../../../metadata/tables.ts';
import { ChunkDamaged, ChunkMissing, type Extent } from '../../../../ports/storage/object-bytes.ts';
import type { FsckFinding, FsckRun } from '../findings.ts';
import type { ContentDigests } from './content-digests.ts';

export type Fault = Pick<FsckFinding, 'kind' | 'detail' | 'cluster' | 'extent'>;

/** An extent of a version: a part, or a piece of a content that was written as one. */
export type NamedExtent = Pick<ManifestPart, 'extent' | 'checksum'> & Partial<Pick<ManifestPart, 'number'>>;

/** The first fault among the extents. @param digests of the content; given only when all bytes are read */
export async function faultAmong(
  run: FsckRun,
  parts: readonly NamedExtent[],
  digests?: ContentDigests,
): Promise<Fault | undefined> {
  for (const { extent, number, checksum } of parts) {
    run.count('named');
    const fault = (await faultIn(run, extent, digests)) ?? (await readMark(run, extent));
    if (fault !== undefined) return fault;
    if (number !== undefined) digests?.endPart(number, checksum);
  }
  return undefined;
}

/**
 * Reads the last byte of every piece, or all bytes in a deep run: a store verifies the checksum of a block before it returns a
 * byte of it. Reading the last byte is cheap, and fails if the piece is shorter, damaged there, or missing.
 */
async function faultIn(
  run: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const { bytes, signal } = run;
  const named = { cluster: extent.cluster, extent: extent.id };
  if (run.mode.deep === true) return readWhole(run, extent, digests);
  for (let start = 0; start < extent.size; start += bytes.pieceBytes) {
    const last = Math.min(start + bytes.pieceBytes, extent.size) - 1;
    try {
      let got = 0;
      for await (const piece of bytes.read(extent, { start: last, end: last }, signal)) got += piece.length;
      if (got !== 1) return { kind: 'missing', detail: `it ends before byte ${last}`, ...named };
    } catch (cause) {
      if (signal.aborted) throw cause;
      return { ...readFault(cause), ...named };
    }
  }
  return undefined;
}

/** The fault of bytes that are marked as removed but still stored: a restored backup of the metadata names them again. */
async function readMark({ bytes }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  if (extent.foreign !== undefined || (await bytes.removals?.isMarked(extent)) !== true) return undefined;
  const detail = 'its bytes are marked as removed, and go when their space is given back';
  return { kind: 'removed', detail, cluster: extent.cluster, extent: extent.id };
}

async function readWhole(
  { bytes, signal }: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const named = { cluster: extent.cluster, extent: extent.id };
  try {
    let got = 0;
    for await (const piece of bytes.read(extent, undefined, signal)) {
      got += piece.length;
      digests?.take(piece);
    }
    if (got === extent.size) return undefined;
    return { kind: 'missing', detail: `it has ${got} of ${extent.size} bytes`, ...named };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { ...readFault(cause), ...named };
  }
}

export interface ReadFault {
  readonly kind: 'missing' | 'damaged' | 'unreadable';
  readonly detail: string;
}

/** What the error of a read says about the bytes. */
export function readFault(cause: unknown): ReadFault {
  const detail = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof ChunkMissing) return { kind: 'missing', detail };
  return { kind: cause instanceof ChunkDamaged ? 'damaged' : 'unreadable', detail };
}
