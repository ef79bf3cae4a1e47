/** How full quotas are: one pass over the buckets, which keeps the fullest limits, so that the number of gauges is bounded. */
import type { Context } from '../../context.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { QuotaUse } from '../../ports/telemetry.ts';
import { findById } from '../iam/entities.ts';
import type { QuotaLimit } from '../quotas/exceeded.ts';
import { bucketScope, holderScope, holdersFor, type QuotaHolder } from '../quotas/scopes.ts';
import { usedIn } from '../quotas/shares.ts';

type Ctx = Pick<Context, 'metadata'>;

/** Accounts and IAM users beyond this number are left out of a pass: they are kept in memory until its end. */
const holdersMax = 100_000;

interface HolderUse {
  readonly of: QuotaUse['of'];
  readonly name: string;
  readonly maxBuckets: number;
  buckets: number;
}

export class QuotaSample {
  readonly #top: number;
  #fullest: QuotaUse[] = [];
  /** By the key of the quota. */
  readonly #holders = new Map<string, HolderUse | undefined>();

  /** @param top the number of limits that are kept */
  constructor(top: number) {
    this.#top = top;
  }

  async add(ctx: Ctx, bucket: BucketRow): Promise<void> {
    const { name, quota } = bucket;
    if (quota !== undefined && quota.maxBytes + quota.maxObjects > 0) {
      const used = await usedIn(ctx, bucketScope(bucket));
      this.#keep({ of: 'bucket', name, limit: 'maxBytes' }, used.bytes, quota.maxBytes);
      this.#keep({ of: 'bucket', name, limit: 'maxObjects' }, used.objects, quota.maxObjects);
    }
    for (const holder of holdersFor(bucket)) {
      const epoch = bucket[holder.field];
      if (epoch !== undefined) await this.#addHolder(ctx, holder, epoch);
    }
  }

  async #addHolder(ctx: Ctx, holder: QuotaHolder, epoch: string): Promise<void> {
    if (!this.#holders.has(holder.key)) {
      if (this.#holders.size >= holdersMax) return;
      this.#holders.set(holder.key, await this.#read(ctx, holder, epoch));
    }
    const found = this.#holders.get(holder.key);
    if (found !== undefined) found.buckets += 1;
  }

  async #read(ctx: Ctx, holder: QuotaHolder, epoch: string): Promise<HolderUse | undefined> {
    const quota = (await findAccountQuota(ctx.metadata, holder.key))?.row;
    if (quota === undefined || quota.epoch !== epoch) return undefined;
    const of = holder.field === 'userQuota' ? 'user' : 'account';
    const name = of === 'account' ? holder.account : await nameOfUser(ctx, holder);
    const used = await usedIn(ctx, holderScope(holder, epoch));
    this.#keep({ of, name, limit: 'totalMaxBytes' }, used.bytes, quota.totalMaxBytes);
    return { of, name, maxBuckets: quota.maxBuckets, buckets: 0 };
  }

  /** After all buckets were added. */
  fullest(): readonly QuotaUse[] {
    for (const holder of this.#holders.values())
      if (holder !== undefined)
        this.#keep(
          { of: holder.of, name: holder.name, limit: 'maxBuckets' },
          holder.buckets,
          holder.maxBuckets,
        );
    this.#cut();
    return this.#fullest;
  }

  #keep(
    what: { readonly of: QuotaUse['of']; readonly name: string; readonly limit: QuotaLimit },
    used: number,
    allowed: number,
  ): void {
    if (allowed === 0) return;
    this.#fullest.push({ ...what, ratio: Math.max(0, used) / allowed });
    if (this.#fullest.length >= 2 * this.#top + 16) this.#cut();
  }

  #cut(): void {
    this.#fullest = this.#fullest.sort((a, b) => b.ratio - a.ratio).slice(0, this.#top);
  }
}

/** `<account>/<name of the user>`; a user who was deleted meanwhile has its id. */
async function nameOfUser(ctx: Ctx, { account, key }: QuotaHolder): Promise<string> {
  const id = key.slice('user/'.length);
  return `${account}/${(await findById(ctx, account, { kind: 'user', id }))?.name ?? id}`;
}
