/**
 * Changes of a bucket's row. A change concerns the bucket that the caller was judged by, which its id says: a bucket that
 * was deleted and made again under the same name meanwhile is another one.
 */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { findBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { SideChange, Stored } from '../../ports/metadata-store.ts';
import { type Recorder, recorded } from '../events/recorder.ts';
import { retryInTurn } from '../retry-in-turn.ts';
import { assertOpen } from './buckets.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** A bucket as the caller was judged by it. */
export type JudgedBucket = Pick<BucketRow, 'id' | 'name'>;

export interface Planned {
  readonly row: BucketRow;
  /** What else happens if and only if the row changes. */
  readonly then?: readonly SideChange[];
}

export interface RowChange {
  readonly record?: Recorder | undefined;
  /** Asked again, with the row as it is then, when another writer came first. Undefined changes nothing. Refusals are thrown. */
  plan(row: BucketRow): Planned | undefined | Promise<Planned | undefined>;
}

/**
 * From its return on every request obeys it; nothing of others' changes is lost.
 * @returns the row as it was written, undefined where nothing was to change
 * @throws NoSuchBucket also where the name leads to another bucket by now
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
    // What a dead deleter left closed has been opened by a commit of its own.
    if ((await assertOpen(ctx, found)) !== found.row) return undefined;
    const planned = await plan(found.row);
    if (planned === undefined) return { value: undefined };
    const { row, then = [] } = planned;
    const outcome = await replaceBucket(ctx.metadata, found, row, [...then, ...(await recorded(record))]);
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: { row, revision: outcome.revision } };
  });

/** @param change the row as it is to be */
export async function changeBucket(
  ctx: Ctx,
  bucket: JudgedBucket,
  { record, change }: { readonly record?: Recorder | undefined; change(row: BucketRow): BucketRow },
): Promise<BucketRow> {
  const changed = await changeRow(ctx, bucket, { record, plan: (row) => ({ row: change(row) }) });
  if (changed === undefined) throw new Error('a change of a bucket that always changes it did not');
  return changed.row;
}
