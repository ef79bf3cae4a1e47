/** `MaxBuckets`: an account or an IAM user never has more buckets, however many are created at the same moment. */
import { fail, Refusal } from '../../base/errors.ts';
import { findBucket, pageBuckets } from '../../metadata/buckets/buckets.ts';
import { commitShare, commitShares, findAccountQuota, readShares } from '../../metadata/buckets/quotas.ts';
import type { AccountQuotaRow } from '../../metadata/records/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Revision } from '../../ports/metadata-store.ts';
import { pauseMs } from '../common/retry-in-turn.ts';
import { exceeded } from './exceeded.ts';
import { enterIfLeftOut } from './quota-limits.ts';
import { bucketsOf, holdersFor, ownerOf, type QuotaHolder } from './scopes.ts';
import type { Ctx } from './shares.ts';

/** A creation that has not ended after this time has died: its commit cannot apply any more. */
const creatingMsMax = 10 * 60_000;
const attemptsMax = 32;
const pageMax = 1_000;

interface Requested {
  readonly name: string;
  readonly owner: string;
  /** The unique id of the IAM user who creates it. */
  readonly creatorId?: string;
  /** The bucket exists, and its owner changes. */
  readonly exists?: true;
}

/** The epochs of the quotas that count a bucket. */
export type QuotaEpochs = Pick<BucketRow, 'accountQuota' | 'userQuota'>;

/**
 * Creates a bucket if its account, and the IAM user who creates it, may have one more.
 * @param create called with the epochs of their quotas
 * @throws QuotaExceeded
 */
export async function withinMaxBuckets(
  ctx: Ctx,
  requested: Requested,
  create: (epochs: QuotaEpochs) => Promise<BucketRow>,
): Promise<BucketRow> {
  const { metadata } = ctx;
  const announcements: Announcement[] = [];
  const withdraw = async (): Promise<void> => {
    for (const { scope, holder, revision } of announcements)
      await commitShare(metadata, scope, { remove: { holder }, expect: revision });
  };
  const epochs: { -readonly [K in keyof QuotaEpochs]: QuotaEpochs[K] } = {};
  for (const holder of holdersFor(requested)) {
    const quota = (await findAccountQuota(metadata, holder.key))?.row;
    if (quota === undefined) continue;
    epochs[holder.field] = quota.epoch;
    if (quota.maxBuckets === 0) continue;
    const announced = await announce(ctx, requested, { holder, quota }).catch(async (cause: unknown) => {
      await withdraw().catch(() => undefined);
      throw cause;
    });
    if (announced !== undefined) announcements.push(announced);
  }
  const created = await create(epochs).catch(async (cause: unknown) => {
    // Another account was faster, or a bucket was not moved. After any other failure the bucket may exist, so the announcement stays until
    // that is certain.
    const isRefused =
      cause instanceof Refusal && (requested.exists === true || cause.code === 'BucketAlreadyExists');
    // Where it cannot be withdrawn it counts until it expires.
    if (isRefused) await withdraw().catch(() => undefined);
    throw cause;
  });
  await withdraw();
  // A quota that was set meanwhile: either its walk over the buckets has found this one, or it is seen here.
  await enterIfLeftOut(ctx, created);
  return created;
}

interface Announcement {
  readonly scope: string;
  readonly holder: string;
  readonly revision: Revision;
}

/** Counts the creation among the buckets of the account or user, until it has ended. Undefined where the bucket exists already. */
async function announce(
  ctx: Ctx,
  { name, exists }: Requested,
  { holder, quota: { epoch, maxBuckets } }: { readonly holder: QuotaHolder; readonly quota: AccountQuotaRow },
): Promise<Announcement | undefined> {
  const { metadata } = ctx;
  const scope = `buckets/${epoch}`;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    if (attempt > 0) await ctx.clock.sleep(pauseMs(ctx, attempt));
    const { head, shares } = await readShares(metadata, scope);
    const now = await metadata.now();
    const creating = shares.filter(({ row }) => row.at + creatingMsMax > now);
    // After the announcements: a bucket that was created between the two reads is counted twice, and never not at all.
    const names = await namesOf(ctx, holder, maxBuckets);
    if (names.has(name) || (exists !== true && (await findBucket(metadata, name)) !== undefined))
      return undefined;
    for (const { row } of creating) names.add(row.holder);
    const own = shares.find(({ row }) => row.holder === name);
    names.delete(name);
    if (names.size >= maxBuckets)
      throw exceeded({
        ...ownerOf(holder),
        limit: 'maxBuckets',
        allowed: maxBuckets,
        used: names.size,
        requested: 1,
      });
    const put = { scope, holder: name, bytes: 0, objects: 1, at: now };
    const outcome = await commitShares(metadata, { scope, head, at: now }, [
      { put, expect: own?.revision ?? 'absent' },
    ]);
    if (outcome.applied) return { scope, holder: name, revision: outcome.revision };
  }
  throw fail('OperationAborted');
}

/** The names of the holder's buckets, up to one more than the limit. */
async function namesOf(ctx: Ctx, holder: QuotaHolder, max: number): Promise<Set<string>> {
  const { metadata } = ctx;
  const names = new Set<string>();
  if (holder.field === 'userQuota') {
    for await (const { name } of bucketsOf(ctx, holder)) if (names.add(name).size > max) break;
    return names;
  }
  let after: string | undefined;
  while (names.size <= max) {
    const limit = Math.min(pageMax, max + 1);
    const page = await pageBuckets(metadata, holder.account, { prefix: '', after, limit });
    for (const { name } of page) names.add(name);
    if (page.length < limit) break;
    after = page.at(-1)?.name;
  }
  return names;
}
