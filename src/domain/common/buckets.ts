/** Looks up and changes the rows of buckets. */

import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow, SigningKey } from '../../metadata/tables.ts';
import type { SideChange, Stored } from '../../ports/metadata-store.ts';
import { type Recorder, recorded, type State } from './recorder.ts';
import { retryInTurn } from './retry-in-turn.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** A DeleteBucket that has not finished within this time has died, and the bucket opens again. */
const closedMaxMs = 30_000;
/** How long a writer waits for a running DeleteBucket, which usually finds an object and reopens the bucket; and its polling interval. */
const deleterMsMax = 1_000;
const deleterLookMs = 25;

/** No bucket has a longer name. */
const nameMax = 63;

/** Whether a bucket may have the name. Others are not looked up, because a store may not be able to hold them. */
export const mayBeBucket = (name: string): boolean =>
  name !== '' && name.length <= nameMax && !name.includes('\0');

export const lookUpBucket = async (
  ctx: Pick<Ctx, 'metadata'>,
  name: string,
): Promise<BucketRow | undefined> =>
  mayBeBucket(name) ? (await findBucket(ctx.metadata, name))?.row : undefined;

/**
 * The account of a bucket, for turns between accounts; the bucket's id where it is gone or cannot be read. It does not throw, so that one
 * row that the store refuses does not stop the work on the other buckets: the work on this bucket reads the row again, and reports why.
 */
export async function findBucketAccount(
  { metadata }: Pick<Ctx, 'metadata'>,
  { bucket, bucketId }: { readonly bucket: string; readonly bucketId: string },
): Promise<string> {
  const found = await findBucket(metadata, bucket).catch(() => undefined);
  return found?.row.id === bucketId ? found.row.owner : bucketId;
}

export async function openBucket(ctx: Pick<Ctx, 'metadata'>, name: string): Promise<BucketRow> {
  const row = await lookUpBucket(ctx, name);
  if (row === undefined) throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return row;
}

/**
 * Reads the bucket again for a writer whose commit was fenced, and raises every shard to the generation of the row, so that
 * the next request completes a change that was interrupted.
 */
export async function refreshBucket(
  ctx: Pick<Ctx, 'metadata' | 'clock'>,
  stale: BucketRow,
): Promise<BucketRow> {
  const open = await rereadBucket(ctx, stale);
  await ctx.metadata.raiseFence(objectsAt(open), open.generation);
  return open;
}

/** Reads the bucket again, after the change that holds it closed. @throws NoSuchBucket; OperationAborted */
export const rereadBucket = async (
  ctx: Pick<Ctx, 'metadata' | 'clock'>,
  stale: BucketRow,
): Promise<BucketRow> => assertOpen(ctx, await whenLetGo(ctx, stale));

/** The row once no DeleteBucket holds it, or its state after the longest wait: the bytes of the write are stored already. */
async function whenLetGo(ctx: Pick<Ctx, 'metadata' | 'clock'>, stale: BucketRow): Promise<Stored<BucketRow>> {
  for (let waitedMs = 0; ; waitedMs += deleterLookMs) {
    const found = await findAuthorized(ctx, stale);
    if (waitedMs >= deleterMsMax || !(await isBeingDeleted(ctx, found.row))) return found;
    await ctx.clock.sleep(deleterLookMs);
  }
}

const isBeingDeleted = async (ctx: Pick<Ctx, 'metadata'>, { closedAt }: BucketRow): Promise<boolean> =>
  closedAt !== 0 && (await ctx.metadata.now()) - closedAt < closedMaxMs;

/** Refuses while a DeleteBucket runs; reopens a bucket that a dead one left closed. */
export async function assertOpen(ctx: Pick<Ctx, 'metadata'>, found: Stored<BucketRow>): Promise<BucketRow> {
  if (found.row.closedAt === 0) return found.row;
  if (await isBeingDeleted(ctx, found.row)) {
    throw fail('OperationAborted', 'The bucket is being deleted by another request. Please try again.');
  }
  const reopened = { ...found.row, closedAt: 0, generation: found.row.generation + 1 };
  const outcome = await replaceBucket(ctx.metadata, found, reopened);
  if (!outcome.applied) throw fail('OperationAborted');
  return reopened;
}

// Changes of a bucket's row. A change applies to the bucket that the caller was authorized for, identified by its id: if the
// bucket was deleted and another one has its name now, the change is refused.

/** The bucket for which the caller was authorized. */
export type AuthorizedBucket = Pick<BucketRow, 'id' | 'name'>;

/** @throws NoSuchBucket also when another bucket has the name now, because the caller is not authorized for that one */
export async function findAuthorized(
  ctx: Pick<Ctx, 'metadata'>,
  { id, name }: AuthorizedBucket,
): Promise<Stored<BucketRow>> {
  const found = await findBucket(ctx.metadata, name);
  if (found?.row.id !== id) throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return found;
}

interface Planned {
  readonly row: BucketRow;
  /** Side changes that are committed together with the row. */
  readonly then?: readonly SideChange[];
  /** The texts of the configuration that the change sets or removes, for the audit row. */
  readonly document?: { readonly former: string | undefined; readonly text: string | undefined };
}

interface RowChange {
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
  bucket: AuthorizedBucket,
  { record, plan }: RowChange,
): Promise<Stored<BucketRow> | undefined> =>
  retryInTurn(ctx, `bucket ${bucket.name}`, async () => {
    const found = await findAuthorized(ctx, bucket);
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
  bucket: AuthorizedBucket,
  { record, change }: { readonly record?: Recorder | undefined; change(row: BucketRow): BucketRow },
): Promise<BucketRow> {
  const changed = await changeRow(ctx, bucket, { record, plan: (row) => ({ row: change(row) }) });
  if (changed === undefined) throw new Error('a change of a bucket that always changes it did not');
  return changed.row;
}

/**
 * As `changeBucket`, and refuses commits of writers that have read an earlier row: each reads the row again and decides afresh.
 * @param change absent: only the generation changes
 */
export async function fenceWriters(
  ctx: Ctx,
  bucket: AuthorizedBucket,
  {
    record,
    change = (row) => row,
  }: { readonly record?: Recorder | undefined; readonly change?: (row: BucketRow) => BucketRow } = {},
): Promise<BucketRow> {
  const row = await changeBucket(ctx, bucket, {
    record,
    change: (former) => ({ ...change(former), generation: former.generation + 1 }),
  });
  await ctx.metadata.raiseFence(objectsAt(row), row.generation);
  return row;
}

/** Names the signing key of a bucket: the same for a key before and after it was wrapped again, and different for each rotation. */
export function signingKeyIdentity(key: SigningKey): string;
export function signingKeyIdentity(key: SigningKey | undefined): string | undefined;
export function signingKeyIdentity(key: SigningKey | undefined): string | undefined {
  return key?.id ?? key?.wrapped;
}
