/** Changing what a bucket's row says of it, where that concerns no write under way. */
import type { Context } from '../context.ts';
import { fail } from '../errors/refusal.ts';
import { findBucket, replaceBucket } from '../metadata/buckets.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { assertOpen } from './buckets.ts';
import { type Recorder, recorded } from './recorder.ts';

/** How often a change to a bucket row is tried against concurrent ones. */
const attemptsMax = 8;

/** From its return on every request obeys it. @param change the row as it is to be; nothing of others' changes is lost */
export async function changeBucket(
  ctx: Pick<Context, 'metadata'>,
  name: string,
  { record, change }: { readonly record?: Recorder | undefined; change(row: BucketRow): BucketRow },
): Promise<BucketRow> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findBucket(ctx.metadata, name);
    if (found === undefined) throw fail('NoSuchBucket', { elements: { BucketName: name } });
    await assertOpen(ctx, found);
    const row = change(found.row);
    const outcome = await replaceBucket(ctx.metadata, found, row, await recorded(record));
    if (!outcome.applied) continue;
    record?.applied();
    return row;
  }
  throw fail('OperationAborted');
}
