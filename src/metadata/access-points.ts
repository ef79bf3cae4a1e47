/** Access point rows and the aliases that lead to them. */
import type { At, MetadataStore, Outcome, SideChange, Stored } from '../ports/metadata-store.ts';
import {
  type AccessPointAliasRow,
  type AccessPointRow,
  accessPointAliases,
  accessPoints,
} from './access-point-tables.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;

const ofAccount = (account: string): At<typeof accessPoints> => ({ table: accessPoints, in: { account } });
const aliasAt = (alias: string): At<typeof accessPointAliases> => ({
  table: accessPointAliases,
  in: { alias },
});

/** What SDKs put in front of the endpoint's host for an ARN. Hosts have no capitals. */
export const hostLabelOf = ({ name, account }: Pick<AccessPointRow, 'name' | 'account'>): string =>
  `${name}-${account.toLowerCase()}`;

export const findAccessPoint = (
  metadata: Metadata,
  account: string,
  name: string,
): Promise<Stored<AccessPointRow> | undefined> => metadata.get(ofAccount(account), { name });

export async function findAlias(metadata: Metadata, alias: string): Promise<AccessPointAliasRow | undefined> {
  return (await metadata.get(aliasAt(alias), {}))?.row;
}

/** Whether the alias is the access point's, from now on or from before. */
export async function claimAlias(metadata: Metadata, row: AccessPointAliasRow): Promise<boolean> {
  const outcome = await metadata.commit(aliasAt(row.alias), [{ put: row, expect: 'absent' }]);
  if (outcome.applied) return true;
  const holder = outcome.current?.row;
  return holder?.account === row.account && holder.name === row.name;
}

export async function dropAlias(metadata: Metadata, alias: string): Promise<void> {
  const found = await metadata.get(aliasAt(alias), {});
  if (found !== undefined) await metadata.commit(aliasAt(alias), [{ remove: {}, expect: found.revision }]);
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
export async function accessPointsOf(
  metadata: Metadata,
  account: string,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<readonly AccessPointRow[]> {
  const cursor = metadata.scan(ofAccount(account));
  if (after !== undefined) cursor.seek({ name: after }, { past: true });
  return (await cursor.next(limit)).map(({ row }) => row);
}
