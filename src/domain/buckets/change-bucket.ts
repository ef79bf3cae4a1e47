/**
 * Changes of a bucket's row. A change applies to the bucket that the caller was authorized for, identified by its id: if the
 * bucket was deleted and another one has its name now, the change is refused.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { findBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { SideChange, Stored } from '../../ports/metadata-store.ts';
import type { State } from '../events/audit/state-changes.ts';
import { type Recorder, recorded } from '../events/recorder.ts';
import { assertOpen } from './buckets.ts';
import { retryInTurn } from './retry-in-turn.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** The bucket for which the caller was authorized. */
export type JudgedBucket = Pick<BucketRow, 'id' | 'name'>;

export interface Planned {
  readonly row: BucketRow;
  /** Side changes that are committed together with the row. */
  readonly then?: readonly SideChange[];
  /** The texts of the configuration that the change sets or removes, for the audit row. */
  readonly document?: { readonly former: string | undefined; readonly text: string | undefined };
}

export interface RowChange {
  readonly record?: Recorder | undefined;
  /** Called again with the new row when another writer committed first. Undefined changes nothing. Refusals are thrown. */
  plan(row: BucketRow): Awaitable<Planned | undefined>;
}

/**
 * Every request that begins after it returns obeys the change; changes by other writers are not lost.
 * @returns the row that was written, undefined when there was nothing to change
 * @throws NoSuchBucket also when another bucket has the name now
 */
export const changeRow = (
  ctx: Ctx,
  bucket: JudgedBucket,
  { record, plan }: RowChange,
): Promise<Stored<BucketRow> | undefined> =>
  retryInTurn(ctx, `bucket ${bucket.name}`, async () => {
    const found = await findBucket(ctx.metadata, bucket.name);
    if (found === undefined || found.row.id !== bucket.id)
      throw fail('NoSuchBucket', { elements: { BucketName: bucket.name } });
    // `assertOpen` has reopened a bucket that a dead DeleteBucket left closed, so this row is stale: retry.
    if ((await assertOpen(ctx, found)) !== found.row) return undefined;
    const planned = await plan(found.row);
    if (planned === undefined) return { value: undefined };
    const { row, then = [], document } = planned;
    record?.change?.(
      { ...bucketState(found.row), configuration: document?.former },
      { ...bucketState(row), configuration: document?.text },
    );
    const outcome = await replaceBucket(ctx.metadata, found, row, [...then, ...(await recorded(record))]);
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: { row, revision: outcome.revision } };
  });

/** What operators set, as their reads show it. */
const bucketState = ({ quota, placement, placementMode, signingKey, ...row }: BucketRow): State => ({
  ...quota,
  ...(placement === undefined ? {} : { placement, mode: placementMode || 'weighted' }),
  defaultClass: row.defaultClass ?? 'STANDARD',
  versioning: row.versioning || 'unset',
  ...(signingKey === undefined
    ? {}
    : { signingKey: { keyId: signingKey.keyId, createdAt: new Date(signingKey.createdAt).toISOString() } }),
});

/** @param change returns the new row */
export async function changeBucket(
  ctx: Ctx,
  bucket: JudgedBucket,
  { record, change }: { readonly record?: Recorder | undefined; change(row: BucketRow): BucketRow },
): Promise<BucketRow> {
  const changed = await changeRow(ctx, bucket, { record, plan: (row) => ({ row: change(row) }) });
  if (changed === undefined) throw new Error('a change of a bucket that always changes it did not');
  return changed.row;
}
