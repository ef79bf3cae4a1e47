/** Changes Object Lock: the retention and legal hold of a version, the configuration of a bucket. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { changeDocument } from '../configurations/documents.ts';
import { type ObjectLockConfiguration, objectLock } from '../configurations/families.ts';
import { type Amendment, amendVersion } from './amend-version.ts';
import type { Ctx } from './commit-version.ts';
import { assertLockable, lockTime, type Retention, withRetention } from './object-lock.ts';

/** Classes whose content is read from a restored copy only (public API). */
type About = Omit<Amendment, 'amend'>;

/** @param requested undefined removes the retention @throws AccessDenied as `withRetention` does */
export async function putRetention(
  ctx: Ctx,
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
