/** Access point rows and the aliases that lead to them. */
import type { At, MetadataStore, Outcome, SideChange, Stored } from '../../ports/metadata-store.ts';
import {
  type AccessPointAliasRow,
  type AccessPointRow,
  accessPointAliases,
  accessPoints,
} from '../records/access-points.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;

const ofAccount = (account: string): At<typeof accessPoints> => ({ table: accessPoints, in: { account } });
const aliasAt = (alias: string): At<typeof accessPointAliases> => ({
  table: accessPointAliases,
  in: { alias },
});

/** The label that SDKs put in front of the endpoint's host for an ARN. Hosts have no capitals. */
export const formatHostLabel = ({ name, account }: Pick<AccessPointRow, 'name' | 'account'>): string =>
  `${name}-${account.toLowerCase()}`;

export const findAccessPoint = (
  metadata: Metadata,
  account: string,
  name: string,
): Promise<Stored<AccessPointRow> | undefined> => metadata.get(ofAccount(account), { name });

export const findAlias = (
  metadata: Metadata,
  alias: string,
): Promise<Stored<AccessPointAliasRow> | undefined> => metadata.get(aliasAt(alias), {});

/**
 * Claims the alias for the access point. If the access point already has the alias, this changes its revision, so that another
 * process's pending `dropAlias` does not drop it.
 * @returns whether the access point has the alias now
 */
export async function claimAlias(metadata: Metadata, row: AccessPointAliasRow): Promise<boolean> {
  const outcome = await metadata.commit(aliasAt(row.alias), [{ put: row, expect: 'absent' }]);
  if (outcome.applied) return true;
  const { current } = outcome;
  if (current === undefined || current.row.account !== row.account || current.row.name !== row.name)
    return false;
  return (await metadata.commit(aliasAt(row.alias), [{ put: row, expect: current.revision }])).applied;
}

/** Drops an alias in the state that was read, unless it was claimed since. */
export async function dropAlias(
  metadata: Metadata,
  { row, revision }: Stored<AccessPointAliasRow>,
): Promise<void> {
  await metadata.commit(aliasAt(row.alias), [{ remove: {}, expect: revision }]);
}

export const insertAccessPoint = (
  metadata: Metadata,
  row: AccessPointRow,
  then: readonly SideChange[],
): Promise<Outcome<typeof accessPoints>> =>
  metadata.commit(ofAccount(row.account), [{ put: row, expect: 'absent' }], { then });

export const replaceAccessPoint = (
  metadata: Metadata,
  { row, revision }: Stored<AccessPointRow>,
  { next, then }: { readonly next: AccessPointRow; readonly then: readonly SideChange[] },
): Promise<Outcome<typeof accessPoints>> =>
  metadata.commit(ofAccount(row.account), [{ put: next, expect: revision }], { then });

export const removeAccessPoint = (
  metadata: Metadata,
  { row, revision }: Stored<AccessPointRow>,
  then: readonly SideChange[],
): Promise<Outcome<typeof accessPoints>> =>
  metadata.commit(ofAccount(row.account), [{ remove: { name: row.name }, expect: revision }], { then });

/** The access points of an account by name, after a name, at most `limit`. */
export async function pageAccessPoints(
  metadata: Metadata,
  account: string,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly AccessPointRow[]> {
  const cursor = metadata.scan(ofAccount(account));
  if (after !== undefined) cursor.seek({ name: after }, { past: true });
  return (await cursor.next(limit)).map(({ row }) => row);
}

const countedAtOnce = 1_000;

/** Without their policies, so that a count needs little memory. */
export async function countAccessPoints(metadata: Metadata, account: string): Promise<number> {
  const cursor = metadata.scan(ofAccount(account), { columns: ['bucket'] });
  for (let count = 0; ; ) {
    const { length } = await cursor.next(countedAtOnce);
    count += length;
    if (length < countedAtOnce) return count;
  }
}
