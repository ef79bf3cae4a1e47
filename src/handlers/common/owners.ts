/** Owners in replies: an account's id, with its name where that is known. */
import type { Context } from '../../context.ts';
import { readOwnership } from '../../domain/access/object-ownership.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Owner } from '../../protocol/schemas/common.ts';

export type Names = ReadonlyMap<string, string>;

/** The names of accounts by id, without those that are not configured. */
export async function ownerNames(
  ctx: Pick<Context, 'credentials'>,
  bucket: Pick<BucketRow, 'owner' | 'ownerName'>,
  ids: Iterable<string>,
): Promise<Names> {
  const names = new Map([[bucket.owner, bucket.ownerName]]);
  for (const owner of new Set(ids)) {
    if (names.has(owner)) continue;
    const account = await ctx.credentials.account({ owner });
    if (account !== undefined) names.set(owner, account.displayName);
  }
  return names;
}

export function namedOwner(names: Names, id: string): Owner {
  const DisplayName = names.get(id);
  return DisplayName === undefined ? { ID: id } : { ID: id, DisplayName };
}

export type OwnerOf = (row: { readonly owner: string }) => Owner;

/** Whom the objects of a bucket belong to, as listings show it: where its owner is enforced, all belong to it. */
export async function objectOwners(
  ctx: Pick<Context, 'caches' | 'credentials' | 'metadata'>,
  bucket: BucketRow,
  rows: readonly { readonly owner: string }[],
): Promise<OwnerOf> {
  const own = { ID: bucket.owner, DisplayName: bucket.ownerName };
  if ((await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced') return () => own;
  const names = await ownerNames(
    ctx,
    bucket,
    rows.map(({ owner }) => owner),
  );
  return ({ owner }) => namedOwner(names, owner);
}
