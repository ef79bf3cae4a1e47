/**
 * The quotas that new buckets, accounts and IAM users begin with: those that operators have set, else those of the settings. A quota is
 * copied when its holder is created, so a changed default leaves what exists as it is.
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { changeAccountQuota } from '../../metadata/buckets/quotas.ts';
import {
  findQuotaDefault,
  type QuotaDefaultKind,
  type QuotaDefaultRow,
  replaceQuotaDefault,
} from '../../metadata/records/limits.ts';
import type { BucketQuota } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { drawId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import type { AccountQuota } from './quota-limits.ts';

export interface DefaultLimits {
  readonly bucket: Pick<BucketQuota, 'maxBytes' | 'maxObjects' | 'maxBytesPerObject'>;
  readonly account: Pick<AccountQuota, 'maxBuckets' | 'totalMaxBytes'>;
  readonly user: Pick<AccountQuota, 'maxBuckets' | 'totalMaxBytes'>;
}

export interface DefaultQuota<K extends QuotaDefaultKind> {
  readonly limits: DefaultLimits[K];
  readonly source: 'operator' | 'settings';
}

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

const ofSettings = ({ config }: Pick<Ctx, 'config'>): DefaultLimits => ({
  bucket: {
    maxBytes: config.SVC_DEFAULT_BUCKET_MAX_BYTES,
    maxObjects: config.SVC_DEFAULT_BUCKET_MAX_OBJECTS,
    maxBytesPerObject: config.SVC_DEFAULT_BUCKET_MAX_OBJECT_BYTES,
  },
  account: {
    maxBuckets: config.SVC_DEFAULT_ACCOUNT_MAX_BUCKETS,
    totalMaxBytes: config.SVC_DEFAULT_ACCOUNT_MAX_BYTES,
  },
  user: {
    maxBuckets: config.SVC_DEFAULT_USER_MAX_BUCKETS,
    totalMaxBytes: config.SVC_DEFAULT_USER_MAX_BYTES,
  },
});

export async function readDefaultQuota<K extends QuotaDefaultKind>(
  ctx: Pick<Ctx, 'metadata' | 'config'>,
  kind: K,
): Promise<DefaultQuota<K>> {
  return defaultIn(ctx, kind, await findQuotaDefault(ctx.metadata, kind));
}

function defaultIn<K extends QuotaDefaultKind>(
  ctx: Pick<Ctx, 'config'>,
  kind: K,
  found: Stored<QuotaDefaultRow> | undefined,
): DefaultQuota<K> {
  if (found === undefined) return { limits: ofSettings(ctx)[kind], source: 'settings' };
  // The cast: rows of a kind are only written with its limits.
  return { limits: found.row.limits as unknown as DefaultLimits[K], source: 'operator' };
}

interface DefaultChange<K extends QuotaDefaultKind> {
  readonly kind: K;
  /** The limits by the present ones; undefined leaves the settings in force. */
  readonly limits: (present: DefaultLimits[K]) => DefaultLimits[K] | undefined;
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present default. */
  readonly check: (present: DefaultQuota<K>) => void;
}

export async function changeDefaultQuota<K extends QuotaDefaultKind>(
  ctx: Ctx,
  { kind, limits, record, check }: DefaultChange<K>,
): Promise<void> {
  await retryInTurn(ctx, `default quota of ${kind}`, async () => {
    const before = await findQuotaDefault(ctx.metadata, kind);
    const present = defaultIn(ctx, kind, before);
    check(present);
    const changed = limits(present.limits);
    const after = changed && { ...changed };
    record?.change?.(before?.row.limits, after);
    const then = await recorded(record);
    const isApplied = await replaceQuotaDefault(ctx.metadata, { kind, before }, after, then);
    if (!isApplied) return undefined;
    record?.applied();
    return { value: undefined };
  });
}

const isLimited = (limits: object): boolean => Object.values(limits).some((limit) => limit !== 0);

/** What a new bucket begins with. */
export async function defaultBucketQuota(
  ctx: Pick<Ctx, 'metadata' | 'config'>,
): Promise<{ readonly quota?: BucketQuota }> {
  const { limits } = await readDefaultQuota(ctx, 'bucket');
  return isLimited(limits) ? { quota: { ...limits, isDefault: true } } : {};
}

/**
 * Gives the quota to an account or an IAM user that is about to be created: before it exists, so that it never is without one. Call it
 * after the last check that may refuse the creation, because the row of a refused one would stay. It may be called again with the same key.
 * @param key that of the quota's row
 */
export async function giveDefaultQuota(
  ctx: Pick<Ctx, 'metadata' | 'random' | 'config'>,
  kind: 'account' | 'user',
  key: string,
): Promise<void> {
  const { limits } = await readDefaultQuota(ctx, kind);
  if (!isLimited(limits)) return;
  const put = { account: key, ...limits, isDefault: true, epoch: drawId(ctx.random) };
  const outcome = await changeAccountQuota(ctx.metadata, key, { put, expect: 'absent' });
  if (!outcome.applied && outcome.current === undefined) throw fail('OperationAborted');
}
