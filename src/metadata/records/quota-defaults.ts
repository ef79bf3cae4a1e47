/** The quotas that new buckets, accounts and IAM users get, where operators have set them in place of the settings. */
import {
  type At,
  type MetadataStore,
  type SideChange,
  type Stored,
  table,
} from '../../ports/metadata-store.ts';

export type QuotaDefaultKind = 'bucket' | 'account' | 'user';

export interface QuotaDefaultRow {
  readonly kind: QuotaDefaultKind;
  /** By the names of the limits; 0 is unlimited. */
  readonly limits: Readonly<Record<string, number>>;
}
export const quotaDefaults = table<QuotaDefaultRow>()({
  name: 'quota_defaults',
  kind: 'conditional',
  partition: ['kind'],
  sort: [],
  columns: { kind: 'text', limits: 'json' },
});

const quotaDefaultAt = (kind: QuotaDefaultKind): At<typeof quotaDefaults> => ({
  table: quotaDefaults,
  in: { kind },
});

export const findQuotaDefault = (
  metadata: Pick<MetadataStore, 'get'>,
  kind: QuotaDefaultKind,
): Promise<Stored<QuotaDefaultRow> | undefined> => metadata.get(quotaDefaultAt(kind), {});

/** Replaces the default that was read as `before`; no limits remove it. False when it has changed meanwhile. */
export async function replaceQuotaDefault(
  metadata: Pick<MetadataStore, 'commit'>,
  { kind, before }: { readonly kind: QuotaDefaultKind; readonly before: Stored<QuotaDefaultRow> | undefined },
  limits: QuotaDefaultRow['limits'] | undefined,
  then: readonly SideChange[],
): Promise<boolean> {
  const at = quotaDefaultAt(kind);
  const expect = before?.revision ?? 'absent';
  if (limits !== undefined)
    return (await metadata.commit(at, [{ put: { kind, limits }, expect }], { then })).applied;
  if (before === undefined) return true;
  return (await metadata.commit(at, [{ remove: {}, expect: before.revision }], { then })).applied;
}
