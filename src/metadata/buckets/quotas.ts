/** Rows of quotas: those of accounts, and the shares that processes hold of a quota. */
import type {
  At,
  Change,
  MetadataStore,
  Outcome,
  Revision,
  SideChange,
  Stored,
} from '../../ports/metadata-store.ts';
import { type AccountQuotaRow, accountQuotas, type QuotaShareRow, quotaShares } from '../records/usage.ts';

const accountAt = (account: string): At<typeof accountQuotas> => ({ table: accountQuotas, in: { account } });
const sharesAt = (scope: string): At<typeof quotaShares> => ({ table: quotaShares, in: { scope } });

export const findAccountQuota = (
  metadata: Pick<MetadataStore, 'get'>,
  account: string,
): Promise<Stored<AccountQuotaRow> | undefined> => metadata.get(accountAt(account), {});

export const changeAccountQuota = (
  metadata: Pick<MetadataStore, 'commit'>,
  account: string,
  change: Change<typeof accountQuotas>,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof accountQuotas>> => metadata.commit(accountAt(account), [change], { then });

/** Every share of a scope, and the revision of its head. */
export interface StoredShares {
  readonly head: 'absent' | Revision;
  readonly shares: readonly Stored<QuotaShareRow>[];
}

export async function readShares(
  metadata: Pick<MetadataStore, 'scan'>,
  scope: string,
): Promise<StoredShares> {
  const cursor = metadata.scan(sharesAt(scope));
  let head: StoredShares['head'] = 'absent';
  const shares: Stored<QuotaShareRow>[] = [];
  for (let page = await cursor.next(200); page.length > 0; page = await cursor.next(200))
    for (const stored of page) {
      if (stored.row.holder === '') head = stored.revision;
      else shares.push(stored);
    }
  return { head, shares };
}

/** Replaces the head, and changes shares: refused when another process has changed the head since it was read. */
export const commitShares = (
  metadata: Pick<MetadataStore, 'commit'>,
  { scope, head, at }: { readonly scope: string; readonly head: StoredShares['head']; readonly at: number },
  changes: readonly Change<typeof quotaShares>[],
): Promise<Outcome<typeof quotaShares>> =>
  metadata.commit(sharesAt(scope), [
    { put: { scope, holder: '', bytes: 0, objects: 0, at }, expect: head },
    ...changes,
  ]);

/** A holder makes its own share smaller, which needs no turn. */
export const commitShare = (
  metadata: Pick<MetadataStore, 'commit'>,
  scope: string,
  change: Change<typeof quotaShares>,
): Promise<Outcome<typeof quotaShares>> => metadata.commit(sharesAt(scope), [change]);
