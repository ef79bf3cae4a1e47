/** Changes the row of a version (ACL, tags, locks, its wrapped key) without touching its bytes. */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findVersion } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { commitLimits, type Stored } from '../../ports/metadata-store.ts';
import { isArchive } from '../../ports/storage-classes.ts';
import { drawVersion } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import { changeDocument } from '../configurations/documents.ts';
import { type ObjectLockConfiguration, objectLock } from '../configurations/families.ts';
import { type KeyUser, wrapKey } from '../content/provider-key.ts';
import type { ByProvider } from '../content/requested-encryption.ts';
import { type KeyCtx, openObjectKey } from '../content/wrapped-key.ts';
import { type CommitCtx, changeKey, type KeyState } from './commit-version.ts';
import { assertLockable, assertRemovable, lockTime, type Retention, withRetention } from './object-lock.ts';
import { assertObject, restoredUntil } from './read-object.ts';
import { stamped } from './stamp.ts';

/** A row of this length fits, however its store counts the overhead. */
const rowMax = commitLimits.rowBytes - 1024;

/** The version by which a caller was authorized: conditions of policies compare its tags, and its owner and ACL decide too. */
export interface AuthorizedVersion {
  readonly row: ObjectRow | undefined;
  /** Authorizes the caller for another one, which took its place meanwhile. @throws AccessDenied */
  again(row: ObjectRow): Promise<void>;
}

const describeDeciding = ({ version, owner, acl, headers }: ObjectRow): string =>
  JSON.stringify([version, owner, acl ?? [], headers.tags ?? []]);

async function assertAuthorized(authorized: AuthorizedVersion | undefined, row: ObjectRow): Promise<void> {
  if (authorized === undefined) return;
  const { row: former } = authorized;
  if (former === undefined || describeDeciding(former) !== describeDeciding(row)) await authorized.again(row);
}

export interface Amendment {
  readonly bucket: BucketRow;
  readonly key: string;
  /** Absent: the latest version. */
  readonly versionId?: string | undefined;
  readonly requestId: string;
  readonly record?: Recorder | undefined;
  /** Absent for changes that no caller asks for. */
  readonly authorized?: AuthorizedVersion | undefined;
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
export async function amendVersion(ctx: CommitCtx, amendment: Amendment): Promise<ObjectRow> {
  const { bucket, key, requestId, record, authorized, amend } = amendment;
  let amended: ObjectRow | undefined;
  await changeKey(ctx, {
    bucket,
    key,
    requestId,
    id: `${requestId}-${drawVersion(ctx)}`,
    record,
    decide: async (state) => {
      const target = await findTarget(ctx, amendment, state);
      await assertAuthorized(authorized, target.row);
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
  ctx: Pick<CommitCtx, 'metadata'>,
  { key, versionId }: Amendment,
  { bucket, head }: KeyState,
): Promise<Stored<ObjectRow>> {
  const found = versionId === undefined ? head : await findVersion(ctx.metadata, bucket, key, versionId);
  assertObject(found?.row, { key, versionId });
  // The cast is safe: a missing version was refused above.
  return found as Stored<ObjectRow>;
}

// Changes Object Lock: the retention and legal hold of a version, the configuration of a bucket.

type About = Omit<Amendment, 'amend'>;

/** @param requested undefined removes the retention @throws AccessDenied as `withRetention` does */
export async function putRetention(
  ctx: CommitCtx,
  about: About,
  { requested, bypass }: { readonly requested: Retention | undefined; readonly bypass: boolean },
): Promise<ObjectRow> {
  assertLockable(about.bucket);
  const now = await lockTime(ctx);
  return amendVersion(ctx, {
    ...about,
    amend: ({ lock: former, ...row }) => {
      const lock = withRetention(former, requested, { now, bypass });
      return lock === undefined ? row : { ...row, lock };
    },
  });
}

export async function putLegalHold(ctx: CommitCtx, about: About, legalHold: boolean): Promise<ObjectRow> {
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
  await changeDocument(ctx, {
    bucket,
    record,
    family: objectLock,
    text: JSON.stringify(configuration),
    amend: (row) => {
      assertVersioned(row);
      return { ...row, objectLock: true };
    },
  });
}

// Wraps an object's key again under another key, without touching the content (public API "UpdateObjectEncryption").

interface Rewrap extends Pick<Amendment, 'authorized'> {
  readonly bucket: BucketRow;
  /** The version that was read. */
  readonly row: ObjectRow;
  /** Absent: the latest version. */
  readonly versionId?: string | undefined;
  readonly how: ByProvider;
  readonly user: KeyUser;
  /** @throws AccessDenied for a key that the account of the bucket may not use */
  readonly assertOwnerMayUse: () => Promise<void>;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/**
 * @throws InvalidRequest for a version that is not encrypted, or under a customer's key; AccessDenied for a version that
 * Object Lock holds, and for keys that the user may not use; OperationAborted when another request replaced the version or
 * wrapped its key meanwhile
 */
export async function rewrapKey(ctx: CommitCtx & KeyCtx, rewrap: Rewrap): Promise<void> {
  const { bucket, row, how, user, assertOwnerMayUse, ...amendment } = rewrap;
  const { key, encryption } = row;
  if (encryption === undefined || encryption.by === 'customer')
    throw fail(
      'InvalidRequest',
      `The UpdateObjectEncryption operation doesn't support ${encryption === undefined ? 'unencrypted source objects' : 'source objects with the encryption type SSE-C'}. Only source objects encrypted with SSE-S3 or SSE-KMS are supported.`,
    );
  await assertOwnerMayUse();
  const place = { bucket, key };
  const { bytes } = await openObjectKey(ctx, place, { encryption, user });
  const context = encryption.by === 'provider' ? encryption.context : undefined;
  const wrapped = await wrapKey(ctx, place, { bytes, how: { context, ...how }, user });
  const now = await lockTime(ctx);
  await amendVersion(ctx, {
    bucket,
    key,
    ...amendment,
    amend: (current) => {
      if (current.encryption?.wrapped !== encryption.wrapped) throw fail('OperationAborted');
      assertRemovable(current, { now, bypass: false });
      return { ...current, encryption: wrapped };
    },
  });
}

// A restore of an archived version. It is done when it is answered.

const dayMs = 24 * 60 * 60 * 1000;

/** The end of a restored copy: whole days from now, rounded up to midnight (public API). */
const computeEnd = (now: number, days: number): number => Math.ceil((now + days * dayMs) / dayMs) * dayMs;

/**
 * Makes the content of an archived version readable for some days from now, and replaces the end of an earlier restore.
 * @returns whether a restored copy existed already
 * @throws InvalidObjectState for a storage class that needs no restore
 */
export async function restoreVersion(
  ctx: CommitCtx,
  about: Omit<Amendment, 'amend'>,
  days: number,
): Promise<{ readonly wasRestored: boolean }> {
  let wasRestored = false;
  await amendVersion(ctx, {
    ...about,
    amend: (row) => {
      if (!isArchive(row.storageClass)) {
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
