/** The records of rate limits and of default quotas. */
import {
  type At,
  int,
  json,
  type MetadataStore,
  type RowOf,
  type SideChange,
  type Stored,
  table,
  text,
} from '../../ports/metadata-store.ts';
import { soundPages } from '../sound-rows.ts';

// The rate limits that operators set.

/** An absent field is unlimited. */
export interface RateLimit {
  readonly requestsPerSecond?: number;
  /** Of bodies, in both directions together. */
  readonly bytesPerSecond?: number;
  /** Requests whose reply has not ended. */
  readonly concurrentRequests?: number;
  /** How many seconds of an unused allowance add up. Absent: 1. */
  readonly burstSeconds?: number;
}

export const rateLimits = table({
  name: 'rate_limits',
  kind: 'conditional',
  isExported: true,
  partition: ['slot'],
  sort: ['scope'],
  columns: {
    /** Always 0: one scan reads all limits. */
    slot: int(),
    /** `account:<id>`, `bucket:<id of the bucket>`, or `anonymous`. */
    scope: text(),
    /** The name of the bucket; else ''. */
    name: text(),
    limit: json<RateLimit>(),
  },
});
export interface RateLimitRow extends RowOf<typeof rateLimits> {}

const rateLimitsAt: At<typeof rateLimits> = { table: rateLimits, in: { slot: 0 } };
const pageMax = 1_000;

export async function readRateLimits(
  metadata: Pick<MetadataStore, 'scan'>,
): Promise<readonly RateLimitRow[]> {
  const cursor = metadata.scan(rateLimitsAt);
  const rows: RateLimitRow[] = [];
  for (;;) {
    const page = await cursor.next(pageMax);
    for (const { row } of page) rows.push(row);
    if (page.length < pageMax) return rows;
  }
}

/** Damaged rows are left out. */
export async function* everyRateLimit(
  metadata: Pick<MetadataStore, 'scan'>,
): AsyncGenerator<Stored<RateLimitRow>> {
  for await (const page of soundPages(metadata.scan(rateLimitsAt), 100)) yield* page;
}

export const findRateLimit = (
  metadata: Pick<MetadataStore, 'get'>,
  scope: string,
): Promise<Stored<RateLimitRow> | undefined> => metadata.get(rateLimitsAt, { scope });

/** Replaces the limit that was read as `before`, or removes it. False when it has changed meanwhile. */
export async function replaceRateLimit(
  metadata: Pick<MetadataStore, 'commit'>,
  before: Stored<RateLimitRow> | undefined,
  after: Omit<RateLimitRow, 'slot'> | undefined,
  then: readonly SideChange[],
): Promise<boolean> {
  const expect = before?.revision ?? 'absent';
  if (after !== undefined)
    return (await metadata.commit(rateLimitsAt, [{ put: { slot: 0, ...after }, expect }], { then })).applied;
  if (before === undefined) return true;
  const change = { remove: { scope: before.row.scope }, expect: before.revision };
  return (await metadata.commit(rateLimitsAt, [change], { then })).applied;
}

// The quotas that new buckets, accounts and IAM users get, where operators have set them in place of the settings.

export type QuotaDefaultKind = 'bucket' | 'account' | 'user';

export const quotaDefaults = table({
  name: 'quota_defaults',
  kind: 'conditional',
  isExported: true,
  partition: ['kind'],
  sort: [],
  columns: {
    kind: text<QuotaDefaultKind>(),
    /** By the names of the limits; 0 is unlimited. */
    limits: json<Readonly<Record<string, number>>>(),
  },
});
export interface QuotaDefaultRow extends RowOf<typeof quotaDefaults> {}

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
