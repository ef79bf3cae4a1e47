/** Writes an object: places and stores its bytes, commits the row by compare-and-set, and decides the answer to the loser of a race. */
import type { Context } from '../../context.ts';
import { findHead } from '../../metadata/objects/objects.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import type {
  BucketRow,
  CheckedColumns,
  Checksum,
  Grant,
  Lock,
  Manifest,
  ObjectHeaders,
  ObjectRow,
} from '../../metadata/tables.ts';
import type { Op, SideChange } from '../../ports/metadata-store.ts';
import { assertUnblocked } from '../access/object-ownership.ts';
import { placeWrite } from '../clusters/placement.ts';
import { drawVersion, versionFor } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import type { ObjectKey } from '../content/extent-keys.ts';
import { type Content, queueUnowned, storeBytes } from '../content/store-bytes.ts';
import { admit } from '../quotas/admit.ts';
import type { Freed } from '../quotas/amounts.ts';
import { hasQuota, type Reservation, withReservation } from '../quotas/reservation.ts';
import { changeKey, type KeyState } from './commit-version.ts';
import { type Conditions, checkCommit, checkWrite, presentRow } from './conditions.ts';
import { lockAtWrite } from './object-lock.ts';
import { planNewVersion } from './versions.ts';

export type WriteCtx = Pick<
  Context,
  | 'caches'
  | 'metadata'
  | 'bytes'
  | 'clusterStates'
  | 'hasher'
  | 'cipher'
  | 'config'
  | 'telemetry'
  | 'clock'
  | 'random'
>;

/** A new version, however its bytes arrive. */
export interface NewObject {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly storageClass: string;
  readonly headers: ObjectHeaders;
  readonly acl?: readonly Grant[] | undefined;
  readonly lock?: Lock | undefined;
  readonly owner: string;
  /** Undefined for an unconditional write. */
  readonly conditions: Conditions | undefined;
  /** The content was read from the key itself, so the write depends on the present version. */
  readonly copiesItself?: boolean;
  /** Absent: the content is stored unencrypted. */
  readonly objectKey?: ObjectKey | undefined;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** The version in the answer: the written one, or that one with the ETag and the time of the concurrent one that replaced it. */
export interface WrittenObject {
  readonly row: ObjectRow;
  readonly won: boolean;
}

export const writeObject = (ctx: WriteCtx, object: NewObject, content: Content): Promise<WrittenObject> =>
  hasQuota(object.bucket)
    ? withReservation(ctx, async (reservation) =>
        writeReserved(ctx, { ...object, reservation }, await admit(ctx, object, { content, reservation })),
      )
    : writeReserved(ctx, object, content);

async function writeReserved(
  ctx: WriteCtx,
  requested: NewObject & { readonly reservation?: Reservation },
  content: Content,
): Promise<WrittenObject> {
  const { conditions } = requested;
  const object =
    conditions === undefined
      ? requested
      : { ...requested, conditions: await checkEarly(ctx, requested, conditions) };
  const { bucket, key, storageClass, objectKey, requestId, signal } = object;
  const cluster = await placeWrite(ctx, object, requestId);
  // The id is stored beside the bytes too, so that an index rebuilt from them has the version ids that clients know.
  const version = bucket.versioning === 'Enabled' ? drawVersion(ctx) : undefined;
  const owner = { bucketId: bucket.id, key, ...(version === undefined ? {} : { version }) };
  const write = { cluster, bucket, owner, storageClass, objectKey, requestId, signal };
  return storeBytes(ctx, content, write, async (stored, op) => {
    const checksum: Checksum | undefined = stored.checksum && { ...stored.checksum, type: 'FULL_OBJECT' };
    const owned = {
      size: stored.size,
      etag: stored.etag,
      manifest: { extents: stored.size === 0 ? [] : [stored.extent] },
      ...(checksum && { checksum }),
      ...(objectKey && { encryption: objectKey.encryption }),
    };
    const written = await commitObject(ctx, object, {
      op,
      content: owned,
      requested: version,
      reservation: object.reservation,
    });
    if (!written.won) await queueUnowned(ctx, stored.extent, { requestId });
    return written;
  });
}

/** Refuses a conditional write that cannot hold, ahead of its body. @returns the conditions with the head that they were checked against */
export async function checkEarly(
  { metadata }: Pick<WriteCtx, 'metadata'>,
  { bucket, key }: Pick<NewObject, 'bucket' | 'key'>,
  conditions: Conditions,
): Promise<Conditions> {
  const seen = conditions.seen ?? { head: await findHead(metadata, bucket, key) };
  checkWrite(conditions, presentRow(seen.head));
  return { ...conditions, seen };
}

/** Content that is stored already, as a version is about to own it. */
interface OwnedContent {
  readonly size: number;
  readonly etag: string;
  readonly manifest: Manifest;
  readonly checksum?: Checksum;
  readonly encryption?: Encryption;
  readonly uploadId?: string;
}

export interface ObjectCommit {
  readonly op: Op;
  readonly content: OwnedContent;
  /** The version id that is stored beside the bytes: used unless another version was committed first. */
  readonly requested?: string | undefined;
  /** Side changes that are committed together with the version. */
  readonly then?: readonly SideChange[];
  /** Room that the caller has reserved and gives back. */
  readonly reservation?: Reservation | undefined;
  /** Parts that leave the counters with the commit. */
  readonly freed?: Freed | undefined;
}

/**
 * Commits a version over stored content. In a versioned bucket every write keeps its own version.
 *
 * In an unversioned bucket a concurrent write may come between the read of the head and the commit. If both writes are
 * unconditional, the loser is answered 200 with the winner: it took effect directly before the winner, which replaced it.
 * That order exists because the winner committed while the loser's request was open. If the winner is conditional, the
 * order does not exist: its condition held without the loser's value. Then, and after a DELETE or a change of
 * versioning, the loser commits again over the new head. `SVC_PUT_RACE=retry` makes every loser commit again.
 */
export async function commitObject(
  ctx: WriteCtx,
  object: NewObject,
  { op, content, requested, then, reservation, freed }: ObjectCommit,
): Promise<WrittenObject> {
  const { bucket, key, storageClass, headers, acl, lock, owner, conditions, record, requestId } = object;
  const fresh = {
    ...content,
    bucketId: bucket.id,
    key,
    marker: false,
    modified: ctx.clock.now(),
    storageClass,
    headers,
    owner,
    ...(acl === undefined ? {} : { acl }),
    requestId,
    ...(conditions !== undefined || object.copiesItself ? { conditional: true } : {}),
  };
  const planWrite = ({ bucket: now, head, oldNull }: KeyState) => {
    const plan = (currentLock?: Lock) =>
      planNewVersion(now, head, oldNull, {
        fresh:
          currentLock === undefined
            ? (fresh satisfies CheckedColumns<'write', typeof fresh & Pick<ObjectRow, 'lock'>>)
            : { ...fresh, lock: currentLock },
        version: versionFor(ctx, requested, { behind: head?.row.version }),
      });
    const planLocked = () => (now.objectLock ? lockAtWrite(ctx, now, lock).then(plan) : plan());
    return acl === undefined ? planLocked() : assertUnblocked(ctx, now, acl).then(planLocked);
  };
  const outcome = await changeKey(ctx, {
    bucket,
    key,
    known: conditions?.seen,
    requestId,
    op,
    id: op.id,
    ...(then === undefined ? {} : { then }),
    reservation,
    freed,
    record,
    // A condition was checked before the body arrived. The head may be another one now: a stale one refuses the commit.
    decide:
      conditions === undefined
        ? planWrite
        : (state) => checkCommit(conditions, state.head, checkWrite).then(() => planWrite(state)),
    // The same version is no new write: a mover or an amendment changed its row.
    lost: (winner, { bucket: now, head }) =>
      ctx.config.SVC_PUT_RACE === 'winner' &&
      now.versioning === '' &&
      conditions === undefined &&
      winner.isNull &&
      winner.conditional !== true &&
      winner.version !== head?.row.version,
  });
  if (outcome.done === 'lost') {
    // Nothing else of the winner is answered, because the caller may have no right to read it, nor to use its key.
    const { space, slot, version, isNull, etag, modified } = outcome.winner;
    return { row: { ...fresh, space, slot, version, isNull, etag, modified }, won: false };
  }
  if (outcome.done === 'nothing' || outcome.plan.fresh === undefined)
    throw new Error('a write planned no version');
  return { row: outcome.plan.fresh, won: true };
}
