/**
 * Moves the bytes of a version to another cluster: copies them as they are stored, reads the copies back, then replaces the extents
 * in the version's row by one commit, which also queues the old extents for deletion. If a client changes the version meanwhile,
 * the client's change stays and the copies are discarded. Nothing else about the version changes, so Object Lock stays as it was.
 */
import type { Context } from '../../../context.ts';
import { releaseForeign } from '../../../metadata/background/imports.ts';
import { findVersion } from '../../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { Op } from '../../../ports/metadata-store.ts';
import {
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
} from '../../../ports/storage/object-bytes.ts';
import { giveUp } from '../../content/store-bytes.ts';
import { changeKey } from '../../objects/commit-version.ts';
import { queueGarbage, queueGarbageAll } from '../garbage.ts';
import { copyExtent } from './copy-extent.ts';
import type { Pace } from './pace.ts';
import { type Piece, readStretches, type Stretch, stillHolds, withCopies } from './stretches.ts';

export type Ctx = Pick<
  Context,
  'caches' | 'metadata' | 'bytes' | 'hasher' | 'clock' | 'random' | 'config' | 'telemetry'
>;

export interface Move {
  readonly bucket: BucketRow;
  /** The version as it was read; it may have changed since. */
  readonly row: ObjectRow;
  readonly to: string;
  leaves(extent: Extent): boolean;
  readonly pace: Pace;
  readonly signal: AbortSignal;
}

/** Recorded in place of a request id. */
const requestId = 'rebalance';

/** @returns false when the version changed meanwhile; a later pass processes it again */
export async function moveVersion(ctx: Ctx, move: Move): Promise<boolean> {
  for await (const stretch of readStretches(ctx, move.row.manifest)) {
    const leaving = stretch.pieces.filter(({ extent }) => move.leaves(extent));
    if (leaving.length > 0 && !(await moveStretch(ctx, move, { stretch, leaving }))) return false;
  }
  return true;
}

interface Leaving {
  readonly stretch: Stretch;
  readonly leaving: readonly Piece[];
}

async function moveStretch(ctx: Ctx, move: Move, { stretch, leaving }: Leaving): Promise<boolean> {
  const { bucket, row, to, pace, signal } = move;
  const op = await ctx.metadata.begin({ cluster: to });
  const stored: FoundExtent[] = [];
  const copies = new Map<string, Extent>();
  try {
    for (const piece of leaving) {
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
    const taken = await takeOver(ctx, move, { stretch, leaving, op, copies });
    if (!taken) await discard(ctx, [...copies.values()]);
    await ctx.metadata.end(op);
    return taken;
  } catch (cause) {
    await giveUp(ctx, { op, stored, bucket, requestId });
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
async function takeOver(ctx: Ctx, { bucket, row }: Move, given: TakeOver): Promise<boolean> {
  const { stretch, leaving, op, copies } = given;
  const outcome = await changeKey(ctx, {
    bucket,
    key: row.key,
    requestId,
    op,
    id: op.id,
    decide: async (state) => {
      const found = await findVersion(ctx.metadata, state.bucket, row.key, row.isNull ? 'null' : row.version);
      if (found?.row.version !== row.version || !(await stillHolds(ctx, found.row, stretch)))
        return undefined;
      const { row: next, then } = withCopies(found.row, stretch, { copies, id: op.id });
      const due = (await ctx.metadata.now()) + ctx.config.SVC_GC_GRACE;
      const former = leaving.map(({ extent }) => extent);
      const garbage = queueGarbageAll(former, { id: op.id, requestId, due });
      return {
        changes: [{ put: next, expect: found.revision }],
        before: [found.row],
        gone: [],
        then: [...then, ...garbage, ...releaseForeign(bucket.id, former)],
      };
    },
  });
  return outcome.done === 'applied';
}

/** Queues the copies for immediate deletion, because they were never visible to readers. */
async function discard({ metadata }: Ctx, copies: readonly Extent[]): Promise<void> {
  const due = await metadata.now();
  await metadata.apply([queueGarbage(copies, { id: copies[0]?.id ?? '', requestId, due })]);
}
