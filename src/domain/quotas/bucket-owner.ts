/**
 * Which account owns a bucket, and how many buckets it may own. A bucket that is given to another account is closed to writers while it
 * leaves the counters of its former account and enters those of the new one, so the quotas and the present usage of both stay exact.
 */
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findBucket, moveBucket, pageBuckets, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { commitShare, commitShares, findAccountQuota, readShares } from '../../metadata/buckets/quotas.ts';
import { accountUsage, counterChanges, listHolders, readUsage } from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { AccountQuotaRow } from '../../metadata/records/usage.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import type { Revision } from '../../ports/metadata-store.ts';
import { assertUnattached } from '../access/access-points.ts';
import { assertOpen, findAuthorized, openBucket } from '../common/buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import { dropDocuments, readDocument, writeDocuments } from '../configurations/documents.ts';
import { bucketAcl, ownershipControls } from '../configurations/families.ts';
import { sum } from './amounts.ts';
import { exceeded } from './exceeded.ts';
import { enterIfLeftOut } from './quota-limits.ts';
import {
  accountHolder,
  describeHolder,
  everyBucketOf,
  holderScope,
  holdersFor,
  type QuotaHolder,
} from './scopes.ts';
import { isSettled, recall } from './shares.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

interface NewOwner {
  readonly bucket: string;
  readonly owner: string;
  readonly ownerName: string;
  /**
   * Whether the objects become the new owner's, by BucketOwnerEnforced; otherwise each object stays with the account that wrote it, as in
   * the public API.
   */
  readonly withObjects: boolean;
  /** Configurations that the new owner does not get, by their names. */
  readonly without?: readonly string[];
  readonly record?: Recorder | undefined;
}

/** @throws QuotaExceeded where the new owner may have no more buckets; NoSuchBucket */
export async function changeOwner(ctx: Ctx, requested: NewOwner): Promise<BucketRow> {
  const { owner } = requested;
  const bucket = await openBucket(ctx, requested.bucket);
  const moved = await withinMaxBuckets(ctx, { name: bucket.name, owner, exists: true }, () =>
    move(ctx, bucket, requested),
  );
  // The bucket's bytes may exceed what processes hold as shares of the account's quota: like a quota that was lowered.
  const epoch = (await findAccountQuota(ctx.metadata, owner))?.row.epoch;
  if (epoch !== undefined) await recall(ctx, holderScope(accountHolder(owner), epoch), () => true);
  return moved;
}

async function move(
  ctx: Ctx,
  bucket: Pick<BucketRow, 'name' | 'id'>,
  { owner, ownerName, withObjects, without = [], record }: NewOwner,
): Promise<BucketRow> {
  const { metadata } = ctx;
  return retryInTurn(ctx, `bucket ${bucket.name}`, async () => {
    const found = await findAuthorized(ctx, bucket);
    const open = await assertOpen(ctx, found);
    if (open !== found.row) return undefined;
    // Check before closing, so that a refusal does not disturb the bucket's writers.
    if (open.owner !== owner) await assertUnattached(ctx, open);
    const documents = await newDocuments(ctx, open, { owner, withObjects, without });
    const closing = { ...open, closedAt: await metadata.now(), generation: open.generation + 1 };
    const closed = await replaceBucket(metadata, found, closing);
    if (!closed.applied) return dropDocuments(ctx, documents.made).then(() => undefined);
    const reopened = { ...closing, closedAt: 0, generation: closing.generation + 1 };
    // Writers that read the closed row are refused too.
    await metadata.raiseFence(objectsAt(closing), reopened.generation);
    const stored = { row: closing, revision: closed.revision };
    try {
      await assertMovable(ctx, open, owner);
    } catch (cause) {
      await replaceBucket(metadata, stored, reopened);
      await dropDocuments(ctx, documents.made);
      throw cause;
    }
    record?.change?.({ owner: open.owner }, { owner });
    const then = [...(await leaveCounters(ctx, open)), ...(await recorded(record))];
    // An IAM user of the former account owns it no more.
    const { accountQuota: _, userQuota: __, creatorId: ___, ...others } = reopened;
    const { signingKey } = others;
    // The former owner knows its secret.
    const knownKey =
      signingKey === undefined
        ? {}
        : { signingKey: { ...signingKey, knownTo: signingKey.knownTo ?? open.owner } };
    const since = open.owner === owner ? {} : { ownedSince: closing.closedAt };
    const moved = { ...others, ...knownKey, ...since, owner, ownerName, creator: owner };
    const next = { ...moved, documents: documents.all };
    const outcome = await moveBucket(metadata, stored, next, then);
    if (!outcome.applied) return dropDocuments(ctx, documents.made).then(() => undefined);
    record?.applied();
    await dropDocuments(ctx, documents.replaced);
    return { value: next };
  });
}

/** @throws BucketHasAccessPointsAttached; ServiceUnavailable */
async function assertMovable(ctx: Ctx, closed: BucketRow, owner: string): Promise<void> {
  // An access point belongs to the account of its bucket: the former owner's account would still decide about requests. One that is
  // created from now on is withdrawn, because its creator reads the bucket again.
  if (closed.owner !== owner) await assertUnattached(ctx, closed);
  if (listHolders(closed).length > 0 && !(await isSettled(ctx, closed.id)))
    throw fail(
      'ServiceUnavailable',
      `The counters of bucket ${closed.name} miss additions of a gateway that died. Send the request again in a minute.`,
    );
}

/** What the bucket holds leaves the counters of its former account and user. */
async function leaveCounters({ metadata }: Ctx, bucket: BucketRow) {
  const holders = listHolders(bucket);
  if (holders.length === 0) return [];
  const { bytes, objects } = sum((await readUsage(metadata, bucket.id)).values());
  const left = [{ storageClass: '', bytes: -bytes, objects: -objects }];
  return holders.flatMap((epoch) => counterChanges(accountUsage(epoch), bucket.id, left));
}

/** The configurations under the new owner: its ACL names the new owner in place of the former one. */
async function newDocuments(
  ctx: Ctx,
  bucket: BucketRow,
  { owner, withObjects, without }: Required<Pick<NewOwner, 'owner' | 'withObjects' | 'without'>>,
) {
  const acl = await readDocument(ctx, bucket, bucketAcl);
  const rename = (grant: Grant): Grant =>
    grant.grantee.is === 'user' && grant.grantee.id === bucket.owner
      ? { ...grant, grantee: { is: 'user', id: owner } }
      : grant;
  const enforced = { Rule: [{ ObjectOwnership: 'BucketOwnerEnforced' }] };
  const made = await writeDocuments(ctx, {
    ...(acl === undefined || withObjects ? {} : { [bucketAcl.name]: JSON.stringify(acl.map(rename)) }),
    ...(withObjects ? { [ownershipControls.name]: JSON.stringify(enforced) } : {}),
  });
  // Under BucketOwnerEnforced there are no ACLs.
  const { [bucketAcl.name]: formerAcl, ...retained } = bucket.documents;
  const dropped = Object.fromEntries(Object.entries(retained).filter(([name]) => without.includes(name)));
  const remaining = Object.fromEntries(Object.entries(retained).filter(([name]) => !without.includes(name)));
  const formerControls = withObjects ? bucket.documents[ownershipControls.name] : undefined;
  return {
    made,
    all: { ...remaining, ...made },
    replaced: {
      ...dropped,
      ...(formerAcl === undefined ? {} : { [bucketAcl.name]: formerAcl }),
      ...(formerControls === undefined ? {} : { [ownershipControls.name]: formerControls }),
    },
  };
}

// `MaxBuckets`: an account or an IAM user never has more buckets, however many are created at the same moment.

type HolderCtx = Omit<Ctx, 'config'>;

/** A creation that has not ended after this time has probably died. One that commits later is counted again (`assertCounted`). */
const creatingMsMax = 10 * 60_000;
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
 * @param create called with the epochs of their quotas, and a function that refuses a bucket that was committed so late that others did not
 *   count it any more
 * @throws QuotaExceeded
 */
export async function withinMaxBuckets(
  ctx: HolderCtx,
  requested: Requested,
  create: (epochs: QuotaEpochs, assertStillWithin: () => Promise<void>) => Promise<BucketRow>,
): Promise<BucketRow> {
  const { metadata } = ctx;
  const announcements: Announcement[] = [];
  const withdraw = async (): Promise<void> => {
    for (const { scope, revision } of announcements)
      await commitShare(metadata, scope, { remove: { holder: requested.name }, expect: revision });
  };
  const assertStillWithin = async (): Promise<void> => {
    for (const announced of announcements) await assertCounted(ctx, requested.name, announced);
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
  const created = await create(epochs, assertStillWithin).catch(async (cause: unknown) => {
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
  readonly revision: Revision;
  /** Store time (ms). */
  readonly at: number;
  readonly holder: QuotaHolder;
  readonly maxBuckets: number;
}

/** Counts the creation among the buckets of the account or user, until it has ended. Undefined where the bucket exists already. */
async function announce(
  ctx: HolderCtx,
  { name, exists }: Requested,
  { holder, quota: { epoch, maxBuckets } }: { readonly holder: QuotaHolder; readonly quota: AccountQuotaRow },
): Promise<Announcement | undefined> {
  const { metadata } = ctx;
  const scope = `buckets/${epoch}`;
  return retryInTurn(ctx, scope, async () => {
    const { head, shares } = await readShares(metadata, scope);
    const now = await metadata.now();
    // After the announcements: a bucket that was created between the two reads is counted twice, and never not at all.
    const names = await readNames(ctx, holder, maxBuckets);
    if (names.has(name) || (exists !== true && (await findBucket(metadata, name)) !== undefined))
      return { value: undefined };
    assertWithin({ holder, maxBuckets }, { names, shares, now, name });
    const own = shares.find(({ row }) => row.holder === name);
    const put = { scope, holder: name, bytes: 0, objects: 1, at: now };
    const outcome = await commitShares(metadata, { scope, head, at: now }, [
      { put, expect: own?.revision ?? 'absent' },
    ]);
    if (!outcome.applied) return undefined;
    return { value: { scope, revision: outcome.revision, at: now, holder, maxBuckets } };
  });
}

/** @throws QuotaExceeded where the buckets, with those that are being created, leave no room for this one */
function assertWithin(
  { holder, maxBuckets }: Pick<Announcement, 'holder' | 'maxBuckets'>,
  {
    names,
    shares,
    now,
    name,
  }: {
    readonly names: ReadonlySet<string>;
    readonly shares: Awaited<ReturnType<typeof readShares>>['shares'];
    readonly now: number;
    readonly name: string;
  },
): void {
  const others = new Set(names);
  for (const { row } of shares) if (row.at + creatingMsMax > now) others.add(row.holder);
  others.delete(name);
  if (others.size >= maxBuckets) throw tooMany(holder, maxBuckets, others.size);
}

const tooMany = (holder: QuotaHolder, maxBuckets: number, used: number) =>
  exceeded({ ...describeHolder(holder), limit: 'maxBuckets', allowed: maxBuckets, used, requested: 1 });

/**
 * A process that was paused may commit a creation after its announcement has expired, and others have created buckets in its place.
 * @throws QuotaExceeded
 */
async function assertCounted(
  ctx: HolderCtx,
  name: string,
  { scope, at, holder, maxBuckets }: Announcement,
): Promise<void> {
  const { metadata } = ctx;
  const now = await metadata.now();
  if (at + creatingMsMax > now) return;
  const { shares } = await readShares(metadata, scope);
  const names = await readNames(ctx, holder, maxBuckets);
  assertWithin({ holder, maxBuckets }, { names, shares, now, name });
}

/** The names of the holder's buckets, up to one more than the limit. */
async function readNames(ctx: HolderCtx, holder: QuotaHolder, max: number): Promise<Set<string>> {
  const { metadata } = ctx;
  const names = new Set<string>();
  if (holder.field === 'userQuota') {
    for await (const { name } of everyBucketOf(ctx, holder)) if (names.add(name).size > max) break;
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
