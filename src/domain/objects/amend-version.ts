/** Changes the row of a version (ACL, tags, locks, its wrapped key) without touching its bytes. */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import { findVersion } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { commitLimits, type Stored } from '../../ports/metadata-store.ts';
import { drawVersion } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import { type Ctx, changeKey, type KeyState } from './commit-version.ts';
import { assertObject } from './read-object.ts';
import { stamped } from './stamp.ts';

/** A row of this length fits, however its store counts the overhead. */
const rowMax = commitLimits.rowBytes - 1024;

export interface Amendment {
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
