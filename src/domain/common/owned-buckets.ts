/** The buckets of all accounts for operators, by name, with what each holds now. */
import type { Context } from '../../context.ts';
import { bucketNames, findBucket, pageBuckets } from '../../metadata/buckets/buckets.ts';
import { type BucketUsage, readBucketUsage } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { inParallelTurns } from './turns.ts';

type Ctx = Pick<Context, 'metadata'>;

/** Absent: any. */
export interface BucketFilter {
  readonly prefix: string;
  readonly owner?: string | undefined;
  /** '' stands for buckets whose versioning was never set. */
  readonly versioning?: BucketRow['versioning'] | undefined;
  readonly hasQuota?: boolean | undefined;
  /** Whether the bucket has a placement of its own. */
  readonly hasPlacement?: boolean | undefined;
  readonly hasObjectLock?: boolean | undefined;
  /** The family of a configuration that is set, such as `website` or `policy`. */
  readonly configuration?: string | undefined;
}

export interface OwnedBucket {
  readonly row: BucketRow;
  readonly usage: BucketUsage;
}

/** Rows that one page reads, at most: where a filter lets few through, the page is short and more may follow. */
const looksMax = 2_000;
const looksAtOnce = 100;
const readsMax = 16;

const passes = ({ prefix: _, ...filter }: BucketFilter, row: BucketRow): boolean =>
  (filter.owner === undefined || row.owner === filter.owner) &&
  (filter.versioning === undefined || row.versioning === filter.versioning) &&
  (filter.hasQuota === undefined || (row.quota !== undefined) === filter.hasQuota) &&
  (filter.hasPlacement === undefined || (row.placement !== undefined) === filter.hasPlacement) &&
  (filter.hasObjectLock === undefined || row.objectLock === filter.hasObjectLock) &&
  (filter.configuration === undefined || filter.configuration in row.documents);

/** @param rest of `openTurns` @returns `next`: the name after which the next page begins; absent at the end */
export async function pageOwnedBuckets(
  ctx: Ctx,
  filter: BucketFilter,
  {
    after,
    limit,
    rest,
  }: { readonly after: string | undefined; readonly limit: number; readonly rest: () => Promise<void> },
): Promise<{ readonly buckets: readonly OwnedBucket[]; readonly next?: string }> {
  const buckets: OwnedBucket[] = [];
  const reads = { limit: readsMax, rest };
  let looked = 0;
  for (let last = after; ; ) {
    const count = Math.min(looksAtOnce, limit);
    const names = await pageNames(ctx, filter, { after: last, count });
    const found = await inParallelTurns(reads, names, (name) => findBucket(ctx.metadata, name));
    const rows = found.flatMap((stored) =>
      stored !== undefined && passes(filter, stored.row) ? [stored.row] : [],
    );
    const taken = rows.slice(0, limit - buckets.length);
    buckets.push(
      ...(await inParallelTurns(reads, taken, async (row) => ({
        row,
        usage: await readBucketUsage(ctx.metadata, row.id),
      }))),
    );
    looked += names.length;
    last = taken.length < rows.length ? taken.at(-1)?.name : names.at(-1);
    if (names.length < count && taken.length === rows.length) return { buckets };
    if ((buckets.length >= limit || looked >= looksMax) && last !== undefined) return { buckets, next: last };
  }
}

/** From the list of the owner where one is named, else from the lists of all buckets. */
async function pageNames(
  { metadata }: Ctx,
  { prefix, owner }: BucketFilter,
  { after, count }: { readonly after: string | undefined; readonly count: number },
): Promise<readonly string[]> {
  if (owner !== undefined)
    return (await pageBuckets(metadata, owner, { prefix, after, limit: count })).map(({ name }) => name);
  const names: string[] = [];
  for await (const name of bucketNames(metadata, { prefix, after })) {
    names.push(name);
    if (names.length === count) break;
  }
  return names;
}
