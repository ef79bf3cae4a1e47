/**
 * Moves the bytes of a version to another cluster: copies them as they are stored, reads the copies back, then replaces the extents
 * in the version's row by one commit, which also queues the old extents for deletion. If a client changes the version meanwhile,
 * the client's change stays and the copies are discarded. Nothing else about the version changes, so Object Lock stays as it was.
 */
import type { Context } from '../../context.ts';
import { releaseUnmanaged } from '../../metadata/background/queues.ts';
import { findVersion, manifestParts, manifestRow } from '../../metadata/objects/objects.ts';
import type { BucketRow, Manifest, ManifestPart, ObjectRow } from '../../metadata/tables.ts';
import { commitLimits, type Op, type SideChange } from '../../ports/metadata-store.ts';
import {
  ChunkDamaged,
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
  type WriteOptions,
} from '../../ports/object-bytes.ts';
import { assertNotEmptied } from '../clusters/cluster-states.ts';
import { queueGarbage, queueGarbageAll } from '../common/garbage.ts';
import { giveUp } from '../content/store-bytes.ts';
import { changeKey } from '../objects/commit-version.ts';
import type { Pace } from './pace.ts';

export type MoveCtx = Pick<
  Context,
  'caches' | 'metadata' | 'bytes' | 'clusterStates' | 'hasher' | 'clock' | 'random' | 'config' | 'telemetry'
>;

export interface Move {
  readonly bucket: BucketRow;
  /** The version as it was read; it may have changed since. */
  readonly row: ObjectRow;
  readonly to: string;
  leaves(extent: Extent): boolean;
  /** Asked at the commit, with the present rows: false leaves the bytes where they are. */
  readonly isDue?: (bucket: BucketRow, row: ObjectRow) => boolean;
  /** Asked before each further extent: true leaves the rest to a later move. */
  isOver?(): boolean;
  readonly pace: Pace;
  readonly signal: AbortSignal;
}

/** Recorded in place of a request id. */
const requestId = 'rebalance';

/** False when the version changed meanwhile: a later pass processes it again. `begun` when `isOver` left some of its bytes. */
type Moved = boolean | 'begun';

/**
 * @throws ServiceUnavailable when the target was drained and found empty meanwhile; what has moved before stays moved
 */
export async function moveVersion(ctx: MoveCtx, move: Move): Promise<Moved> {
  let isFirst = true;
  for await (const stretch of readStretches(ctx, move.row.manifest)) {
    const leaving = stretch.pieces.filter(({ extent }) => move.leaves(extent));
    if (leaving.length === 0) continue;
    if (!isFirst && move.isOver?.()) return 'begun';
    isFirst = false;
    const moved = await moveStretch(ctx, move, { stretch, leaving });
    if (moved !== true) return moved;
  }
  return true;
}

interface Leaving {
  readonly stretch: Stretch;
  readonly leaving: readonly Piece[];
}

async function moveStretch(ctx: MoveCtx, move: Move, { stretch, leaving }: Leaving): Promise<Moved> {
  const { bucket, row, to, pace, signal } = move;
  const op = await ctx.metadata.begin({ cluster: to });
  const stored: FoundExtent[] = [];
  const copies = new Map<string, Extent>();
  let isCommitting = false;
  try {
    for (const piece of leaving) {
      if (copies.size > 0 && move.isOver?.()) break;
      const { extent: from } = piece;
      const id = `${op.id}.${stored.length}`;
      const owner = toOwner(row, piece);
      stored.push({ extent: { cluster: to, id, size: unknownSize }, owner });
      const { storageClass } = row;
      const copy = await copyExtent(ctx, from, { cluster: to, id, owner, storageClass, pace, signal });
      stored[stored.length - 1] = { extent: copy, owner };
      copies.set(
        from.id,
        row.encryption === undefined ? copy : { ...copy, sealedAs: from.sealedAs ?? from.id },
      );
    }
    await assertNotEmptied(ctx, to);
    isCommitting = true;
    const copied = leaving.filter(({ extent }) => copies.has(extent.id));
    const taken = await takeOver(ctx, move, { stretch, leaving: copied, op, copies });
    if (!taken) await discard(ctx, [...copies.values()]);
    await ctx.metadata.end(op);
    return taken && copied.length < leaving.length ? 'begun' : taken;
  } catch (cause) {
    await giveUp(ctx, { op, stored, bucket, requestId, failedCommit: isCommitting ? cause : undefined });
    throw cause;
  }
}

/** The owner record that the write would have made on that cluster. */
const toOwner = (
  { bucketId, key, version, isNull, uploadId, storageClass, encryption, replication }: ObjectRow,
  piece: Piece,
): Owner => ({
  bucketId,
  key,
  ...(('number' in piece && replication !== 'REPLICA') || isNull ? {} : { version }),
  ...('number' in piece && uploadId !== undefined ? { uploadId, part: piece.number } : {}),
  size: piece.extent.size,
  ...(storageClass === 'STANDARD' ? {} : { storageClass }),
  ...(encryption === undefined ? {} : { encrypted: true }),
});

interface TakeOver extends Leaving {
  readonly op: Op;
  readonly copies: ReadonlyMap<string, Extent>;
}

/** Replaces the extents in the version's row by the copies, if the row still names the originals. */
async function takeOver(
  ctx: MoveCtx,
  { bucket, row, isDue = () => true }: Move,
  input: TakeOver,
): Promise<boolean> {
  const { stretch, leaving, op, copies } = input;
  const outcome = await changeKey(ctx, {
    bucket,
    key: row.key,
    requestId,
    op,
    id: op.id,
    decide: async (state) => {
      const found = await findVersion(ctx.metadata, state.bucket, row.key, row.isNull ? 'null' : row.version);
      if (
        found?.row.version !== row.version ||
        !isDue(state.bucket, found.row) ||
        !(await stillHolds(ctx, found.row, stretch))
      )
        return undefined;
      const { row: next, then } = withCopies(found.row, stretch, { copies, id: op.id });
      const due = (await ctx.metadata.now()) + ctx.config.SVC_GC_GRACE;
      const former = leaving.map(({ extent }) => extent);
      const garbage = queueGarbageAll(former, { id: op.id, requestId, due });
      return {
        changes: [{ put: next, expect: found.revision }],
        before: [found.row],
        gone: [],
        then: [...then, ...garbage, ...releaseUnmanaged(bucket.id, former)],
      };
    },
  });
  return outcome.done === 'applied';
}

/** Queues the copies for immediate deletion, because they were never visible to readers. */
async function discard({ metadata }: MoveCtx, copies: readonly Extent[]): Promise<void> {
  const due = await metadata.now();
  await metadata.apply([queueGarbage(copies, { id: copies[0]?.id ?? '', requestId, due })]);
}

// Splits a manifest into pieces that one commit can replace: its inline extents, or one of its rows.

type StretchesCtx = Pick<Context, 'metadata'>;

interface Stretch {
  readonly pieces: readonly Piece[];
  /** Set for a manifest that has rows of its own. */
  readonly segment?: number;
}

/** An extent, with its part number for a multipart object. */
type Piece = { readonly extent: Extent } | ManifestPart;

async function* readStretches(ctx: StretchesCtx, manifest: Manifest): AsyncGenerator<Stretch> {
  const inline = inlinePieces(manifest);
  if (inline !== undefined) yield { pieces: inline };
  else if ('manifestId' in manifest) {
    let segment = 0;
    for await (const pieces of manifestParts(ctx.metadata, manifest.manifestId)) {
      yield { pieces, segment };
      segment += 1;
    }
  }
}

/** Whether a version still has these extents in this place. */
async function stillHolds(
  ctx: StretchesCtx,
  { manifest }: ObjectRow,
  { pieces, segment }: Stretch,
): Promise<boolean> {
  const now = segment === undefined ? inlinePieces(manifest) : await readSegment(ctx, manifest, segment);
  return now?.length === pieces.length && now.every((piece, i) => isSame(piece.extent, pieces[i]?.extent));
}

const isSame = (one: Extent, other: Extent | undefined): boolean =>
  one.id === other?.id && one.cluster === other.cluster;

function inlinePieces(manifest: Manifest): readonly Piece[] | undefined {
  if ('extents' in manifest) return manifest.extents.map((extent) => ({ extent }));
  if (manifest.whole !== undefined) return [{ extent: manifest.whole }];
  return 'parts' in manifest ? manifest.parts : undefined;
}

async function readSegment(
  ctx: StretchesCtx,
  manifest: Manifest,
  segment: number,
): Promise<readonly Piece[] | undefined> {
  if (!('manifestId' in manifest)) return undefined;
  return (await manifestParts(ctx.metadata, manifest.manifestId, segment).next()).value ?? undefined;
}

/** The row with other extents in one stretch, and the side changes that must be committed with it. */
interface Replaced {
  readonly row: ObjectRow;
  readonly then: readonly SideChange[];
}

/** @param copies by the ids of the extents that they replace @param id names the manifest's rows, where it needs some */
function withCopies(
  row: ObjectRow,
  { pieces, segment }: Stretch,
  { copies, id }: { readonly copies: ReadonlyMap<string, Extent>; readonly id: string },
): Replaced {
  const { manifest } = row;
  const next = pieces.map((piece) => ({ ...piece, extent: copies.get(piece.extent.id) ?? piece.extent }));
  if ('extents' in manifest)
    return { row: { ...row, manifest: { extents: next.map(({ extent }) => extent) } }, then: [] };
  const [{ extent: whole } = {}] = next;
  if (manifest.whole !== undefined && whole !== undefined)
    return { row: { ...row, manifest: { ...manifest, whole } }, then: [] };
  // The cast is safe: manifests without parts returned above.
  const parts = next as readonly ManifestPart[];
  if ('manifestId' in manifest) return { row, then: [manifestRow(manifest.manifestId, segment ?? 0, parts)] };
  const inline = { ...row, manifest: { parts } };
  if (JSON.stringify(inline).length <= rowMax) return { row: inline, then: [] };
  // The notes of copies may be longer than those of the originals.
  const segmented = { manifestId: id, partCount: parts.length, offsets: [0] };
  return { row: { ...row, manifest: segmented }, then: [manifestRow(id, 0, parts)] };
}

/** A row of this length fits, however its store counts the overhead. */
const rowMax = commitLimits.rowBytes - 1024;

// Copies an extent to another cluster, byte for byte as it is stored, and verifies the copy.

type CopyExtentCtx = Pick<Context, 'bytes' | 'hasher'>;

interface ExtentCopy extends Pick<WriteOptions, 'cluster' | 'id' | 'owner' | 'storageClass'> {
  readonly pace: Pace;
  readonly signal: AbortSignal;
}

/** @throws ChunkDamaged when the copy differs from the original */
async function copyExtent(
  { bytes, hasher }: CopyExtentCtx,
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
