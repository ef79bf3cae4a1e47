/**
 * Totals of all buckets by storage class. The `bucket-stats` worker sums the counters of the buckets and stores the totals
 * in the metadata store, where every gateway reads them.
 */
import type { Context } from '../../context.ts';
import {
  assertLeads,
  beginTerm,
  findTask,
  putTask,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import { readUsage, sumUsage } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { findById } from '../iam/entities.ts';
import type { QuotaLimit } from '../quotas/exceeded.ts';
import { bucketScope, holderScope, holdersFor, type QuotaHolder } from '../quotas/scopes.ts';
import { usedIn } from '../quotas/shares.ts';
import { type SigningKeyAges, type SigningKeyRules, SigningKeySample } from './signing-key.ts';

type Ctx = Pick<Context, 'metadata'>;

interface ClassTotal {
  readonly class: string;
  readonly bytes: number;
  readonly objects: number;
}

interface ClassSnapshot {
  readonly classes: readonly ClassTotal[];
  readonly buckets: number;
  /** Store time (ms). */
  readonly sampledAt: number;
}
/** A damaged snapshot is replaced by the next one. */
const snapshots: TaskKind<ClassSnapshot> = { kind: 'bucket-stats', restarts: [''] };

export const classSnapshot = async ({ metadata }: Ctx): Promise<ClassSnapshot | undefined> =>
  (await findTask(metadata, snapshots, ''))?.state;

/** Versions and bytes of all buckets in the last snapshot; undefined before the first one. */
export async function countStored(
  ctx: Ctx,
): Promise<{ readonly count: number; readonly bytes: number } | undefined> {
  const snapshot = await classSnapshot(ctx);
  return snapshot && sumUsage(snapshot.classes);
}

/** After it returns, an earlier leader cannot replace the snapshot. @throws LeaseLost */
export const beginSampling = ({ metadata }: Ctx, generation: number): Promise<Term> =>
  beginTerm(metadata, snapshots, generation);

/** Replaces the snapshot. @throws LeaseLost when a later leader has begun to sample, because this sample is then stale */
export async function publishSnapshot({ metadata }: Ctx, sample: ClassSample, term: Term): Promise<void> {
  const state = { ...sample.totals(), sampledAt: await metadata.now() };
  const found = await findTask(metadata, snapshots, '');
  const expect = found?.revision ?? 'absent';
  const outcome = await putTask(metadata, snapshots, { name: '', state, expect, term });
  if (!outcome.applied) await assertLeads(metadata, snapshots, term);
}

/** The objects and bytes of a bucket in a storage class. */
interface BucketClass {
  readonly bucket: string;
  readonly storageClass: string;
  readonly bytes: number;
  readonly objects: number;
}

/** How full one limit of a quota is: 1 is full. */
interface QuotaUse {
  readonly of: 'bucket' | 'account' | 'user';
  /** The bucket, the account, or `<account>/<IAM user>`. */
  readonly name: string;
  readonly limit: string;
  readonly ratio: number;
}

interface SampledBucket {
  readonly bytes: number;
  readonly classes: readonly BucketClass[];
}

/** One pass over the buckets: totals of all of them, the classes of the largest, and the fullest quotas. */
export class ClassSample {
  readonly #top: number;
  readonly #totals = new Map<string, ClassTotal>();
  #largest: SampledBucket[] = [];
  #buckets = 0;
  readonly #keys: SigningKeySample;
  readonly #quotas: QuotaSample;

  /** @param top the number of buckets whose classes are kept, and of limits */
  constructor(top: number, keys: SigningKeyRules) {
    this.#top = top;
    this.#keys = new SigningKeySample(keys);
    this.#quotas = new QuotaSample(top);
  }

  async add({ metadata }: Ctx, bucket: string): Promise<void> {
    const found = await findBucket(metadata, bucket);
    if (found === undefined) return;
    this.#buckets += 1;
    this.#keys.add(found.row.signingKey);
    await this.#quotas.add({ metadata }, found.row);
    const usage = [...(await readUsage(metadata, found.row.id))].filter(
      ([, { bytes, objects }]) => bytes !== 0 || objects !== 0,
    );
    for (const [name, { bytes, objects }] of usage) {
      const sum = this.#totals.get(name) ?? { class: name, bytes: 0, objects: 0 };
      this.#totals.set(name, { class: name, bytes: sum.bytes + bytes, objects: sum.objects + objects });
    }
    this.#largest.push({
      bytes: usage.reduce((sum, [, { bytes }]) => sum + bytes, 0),
      classes: usage.map(([storageClass, counts]) => ({ bucket, storageClass, ...counts })),
    });
    // Cut the list from time to time, so that it stays bounded with any number of buckets.
    if (this.#largest.length >= 2 * this.#top + 16) this.#cut();
  }

  totals(): Pick<ClassSnapshot, 'classes' | 'buckets'> {
    const classes = [...this.#totals.values()].sort((a, b) => (a.class < b.class ? -1 : 1));
    return { classes, buckets: this.#buckets };
  }

  largest(): readonly BucketClass[] {
    this.#cut();
    return this.#largest.flatMap(({ classes }) => classes);
  }

  quotas(): readonly QuotaUse[] {
    return this.#quotas.fullest();
  }

  signingKeys(): SigningKeyAges {
    return this.#keys.ages();
  }

  #cut(): void {
    this.#largest = this.#largest.sort((a, b) => b.bytes - a.bytes).slice(0, this.#top);
  }
}

/** Accounts and IAM users beyond this number are left out of a pass: they are kept in memory until its end. */
const holdersMax = 100_000;

interface HolderUse {
  readonly of: QuotaUse['of'];
  readonly name: string;
  readonly maxBuckets: number;
  buckets: number;
}

/** How full quotas are: one pass over the buckets, which keeps the fullest limits, so that the number of gauges is bounded. */
class QuotaSample {
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
