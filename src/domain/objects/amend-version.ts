/** Changes the row of a version (ACL, tags, locks, its wrapped key) without touching its bytes. */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findVersion, objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { commitLimits, type Stored } from '../../ports/metadata-store.ts';
import { changeDocument } from '../configurations/documents.ts';
import { type ObjectLockConfiguration, objectLock } from '../configurations/families.ts';
import type { Recorder } from '../events/recorder.ts';
import { type Ctx, changeKey, type KeyState } from './commit-version.ts';
import { assertLockable, lockTime, type Retention, withRetention } from './object-lock.ts';
import { assertObject } from './read-object.ts';
import { stamped } from './replica/stamp.ts';
import { drawVersion } from './versions.ts';

/** A row of this length fits, however its store counts the overhead. */
const rowMax = commitLimits.rowBytes - 1024;

interface Amendment {
  readonly bucket: BucketRow;
  readonly key: string;
  /** Absent: the latest version. */
  readonly versionId?: string | undefined;
  readonly requestId: string;
  readonly record?: Recorder | undefined;
  /**
   * The new row; its place, bytes and size must stay. Returning the same row changes nothing. Refusals are thrown.
   * @param bucket the bucket row that the commit checks
   */
  amend(row: ObjectRow, bucket: BucketRow): Awaitable<ObjectRow>;
}

/** @throws InvalidRequest for a row that is too long to store */
export function assertFits(row: ObjectRow): void {
  if (JSON.stringify(row).length > rowMax)
    throw fail('InvalidRequest', 'The tags, metadata and ACL of the object are too large together.');
}

/**
 * Amends one version. Changes of it by concurrent requests are not lost.
 * @throws NoSuchKey, NoSuchVersion, MethodNotAllowed for a delete marker
 */
export async function amendVersion(ctx: Ctx, amendment: Amendment): Promise<ObjectRow> {
  const { bucket, key, requestId, record, amend } = amendment;
  let amended: ObjectRow | undefined;
  await changeKey(ctx, {
    bucket,
    key,
    requestId,
    id: `${requestId}-${drawVersion(ctx)}`,
    record,
    decide: async (state) => {
      const target = await findTarget(ctx, amendment, state);
      amended = await amend(target.row, state.bucket);
      if (amended === target.row) return undefined;
      amended = await stamped(ctx, state.bucket, { former: target.row, amended });
      assertFits(amended);
      const changes = [{ put: amended, expect: target.revision }];
      return { changes, before: [target.row], gone: [], amended, former: target.row };
    },
  });
  if (amended === undefined) throw new Error('nothing was decided');
  return amended;
}

async function findTarget(
  ctx: Pick<Ctx, 'metadata'>,
  { key, versionId }: Amendment,
  { bucket, head }: KeyState,
): Promise<Stored<ObjectRow>> {
  const found = versionId === undefined ? head : await findVersion(ctx.metadata, bucket, key, versionId);
  assertObject(found?.row, { key, versionId });
  // The cast is safe: a missing version was refused above.
  return found as Stored<ObjectRow>;
}

// Archived versions and their restored copies. A restore is done when it is answered.

/** Classes whose content is read from a restored copy only (public API). */
const archives = new Set(['GLACIER', 'DEEP_ARCHIVE']);
const dayMs = 24 * 60 * 60 * 1000;

/** When the restored copy expires; undefined when there is none, or it has expired. */
export function restoredUntil(
  { clock }: Pick<Context, 'clock'>,
  { restore }: Pick<ObjectRow, 'restore'>,
): number | undefined {
  return restore !== undefined && restore.expires > clock.now() ? restore.expires : undefined;
}

/** @throws InvalidObjectState for an archived version without a restored copy */
export function assertReadable(
  ctx: Pick<Context, 'clock'>,
  row: ObjectRow,
  message = "The operation is not valid for the object's storage class",
): void {
  if (archives.has(row.storageClass) && restoredUntil(ctx, row) === undefined)
    throw fail('InvalidObjectState', { message, elements: { StorageClass: row.storageClass } });
}

/** The end of a restored copy: whole days from now, rounded up to midnight (public API). */
const computeEnd = (now: number, days: number): number => Math.ceil((now + days * dayMs) / dayMs) * dayMs;

/**
 * Makes the content of an archived version readable for some days from now, and replaces the end of an earlier restore.
 * @returns whether a restored copy existed already
 * @throws InvalidObjectState for a storage class that needs no restore
 */
export async function restoreVersion(
  ctx: Ctx,
  about: Omit<Amendment, 'amend'>,
  days: number,
): Promise<{ readonly wasRestored: boolean }> {
  let wasRestored = false;
  await amendVersion(ctx, {
    ...about,
    amend: (row) => {
      if (!archives.has(row.storageClass)) {
        throw fail('InvalidObjectState', {
          message: "Restore is not allowed for the object's current storage class",
          elements: { StorageClass: row.storageClass },
        });
      }
      wasRestored = restoredUntil(ctx, row) !== undefined;
      return { ...row, restore: { expires: computeEnd(ctx.clock.now(), days) } };
    },
  });
  return { wasRestored };
}

// Changes Object Lock: the retention and legal hold of a version, the configuration of a bucket.

type About = Omit<Amendment, 'amend'>;

/** @param wanted undefined removes the retention @throws AccessDenied as `withRetention` does */
export async function putRetention(
  ctx: Ctx,
  about: About,
  { wanted, bypass }: { readonly wanted: Retention | undefined; readonly bypass: boolean },
): Promise<ObjectRow> {
  assertLockable(about.bucket);
  const now = await lockTime(ctx);
  return amendVersion(ctx, {
    ...about,
    amend: ({ lock: former, ...row }) => {
      const lock = withRetention(former, wanted, { now, bypass });
      return lock === undefined ? row : { ...row, lock };
    },
  });
}

export async function putLegalHold(ctx: Ctx, about: About, legalHold: boolean): Promise<ObjectRow> {
  assertLockable(about.bucket);
  return amendVersion(ctx, { ...about, amend: (row) => ({ ...row, lock: { ...row.lock, legalHold } }) });
}

/** @throws InvalidBucketState for a bucket that cannot have Object Lock */
export function assertVersioned({ versioning }: Pick<BucketRow, 'versioning'>): void {
  if (versioning !== 'Enabled')
    throw fail(
      'InvalidBucketState',
      "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
    );
}

/**
 * Enables Object Lock permanently and sets the default retention. Every version that is committed after it returns gets the
 * default, also where the write began before.
 * @throws InvalidBucketState unless versioning is enabled
 */
export async function configureObjectLock(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>,
  { bucket, record }: Pick<Amendment, 'bucket' | 'record'>,
  configuration: ObjectLockConfiguration,
): Promise<void> {
  let changed = bucket;
  await changeDocument(ctx, {
    bucket,
    record,
    family: objectLock,
    text: JSON.stringify(configuration),
    amend: (row) => {
      assertVersioned(row);
      changed = { ...row, objectLock: true, generation: row.generation + 1 };
      return changed;
    },
  });
  await ctx.metadata.raiseFence(objectsAt(changed), changed.generation);
}
