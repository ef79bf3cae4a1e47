/** Archived versions and their restored copies. A restore is done when it is answered. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { type Amendment, amendVersion } from './amend-version.ts';
import type { Ctx } from './commit-version.ts';

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
