/**
 * Access points: named entrances to a bucket, each with a policy and a public access block of its own. A request through
 * one must be allowed by the bucket's policy and block as well.
 */

import { fail } from '../../base/errors.ts';
import { trimEnd } from '../../base/text/printable.ts';
import type { Context } from '../../context.ts';
import {
  claimAlias,
  countAccessPoints,
  dropAlias,
  findAccessPoint,
  findAlias,
  formatHostLabel,
  insertAccessPoint,
  pageAccessPoints,
  removeAccessPoint,
  replaceAccessPoint,
} from '../../metadata/buckets/access-points.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { findAccountClaim, idClaim } from '../../metadata/iam.ts';
import type { AccessPointBlock, AccessPointRow } from '../../metadata/records/access-points.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { lookUpBucket, mayBeBucket, openBucket, rereadBucket } from '../common/buckets.ts';
import { drawId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'credentials'>;

const aliasSuffix = '-s3alias';
/** A bucket's name cannot end with the alias suffix. */
export const isAlias = (name: string): boolean => name.endsWith(aliasSuffix);

const aliasMax = 63;
const randomLength = 34;
const letters = 'abcdefghijklmnopqrstuvwxyz0123456789';

function drawAlias({ random }: Pick<Ctx, 'random'>, name: string): string {
  const drawn = Array.from(random.bytes(randomLength), (byte) => letters[byte % letters.length]).join('');
  const space = aliasMax - aliasSuffix.length - randomLength - 1;
  return `${trimEnd(name.slice(0, space), '-')}-${drawn}${aliasSuffix}`;
}

export const accessPointArn = ({
  region,
  account,
  name,
}: Pick<AccessPointRow, 'region' | 'account' | 'name'>): string =>
  `arn:aws:s3:${region}:${account}:accesspoint/${name}`;

/** @throws NoSuchAccessPoint */
export async function openAccessPoint(
  { metadata }: Pick<Ctx, 'metadata'>,
  account: string,
  name: string,
): Promise<Stored<AccessPointRow>> {
  const found = await findAccessPoint(metadata, account, name);
  if (found === undefined) throw fail('NoSuchAccessPoint', { elements: { AccessPointName: name } });
  return found;
}

interface NewAccessPoint {
  readonly account: string;
  readonly name: string;
  readonly bucket: string;
  /** The account that owns the bucket. The request must name it when that is another account. */
  readonly bucketOwner: string;
  readonly block: AccessPointBlock;
  readonly record?: Recorder | undefined;
}

/** Of an account (public API). */
const accessPointsMax = 10_000;

/** @throws NoSuchBucket, AccessDenied, InvalidRequest, AccessPointAlreadyOwnedByYou, LimitExceeded */
export async function createAccessPoint(ctx: Ctx, requested: NewAccessPoint): Promise<AccessPointRow> {
  const { account, name, block, record, bucketOwner } = requested;
  const bucket = await openBucket(ctx, requested.bucket);
  if (bucket.owner !== bucketOwner) throw fail('AccessDenied');
  if ((await findAccessPoint(ctx.metadata, account, name)) !== undefined)
    throw fail('AccessPointAlreadyOwnedByYou');
  if ((await countAccessPoints(ctx.metadata, account)) >= accessPointsMax)
    throw fail('LimitExceeded', `An account has ${accessPointsMax} access points at most.`);
  const row: AccessPointRow = {
    account,
    name,
    bucket: bucket.name,
    bucketId: bucket.id,
    bucketOwner,
    alias: drawAlias(ctx, name),
    created: ctx.clock.now(),
    region: bucket.region,
    block,
  };
  await claimHost(ctx, row);
  await claimAlias(ctx.metadata, { alias: row.alias, account, name });
  const outcome = await insertAccessPoint(ctx.metadata, row, await recorded(record));
  if (!outcome.applied) {
    const drawn = await findAlias(ctx.metadata, row.alias);
    if (drawn !== undefined) await dropAlias(ctx.metadata, drawn);
    throw fail('AccessPointAlreadyOwnedByYou');
  }
  await confirmOwner(ctx, bucket, { row, revision: outcome.revision });
  record?.applied();
  return row;
}

/**
 * The bucket may have been deleted or given to another account while the access point was created. A change that closes the bucket after
 * the insertion sees the access point and is refused; the result of an earlier one is read here, and the access point is withdrawn.
 */
async function confirmOwner(ctx: Ctx, bucket: BucketRow, stored: Stored<AccessPointRow>): Promise<void> {
  try {
    const { owner } = await rereadBucket(ctx, bucket);
    if (owner !== bucket.owner) throw fail('AccessDenied');
  } catch (cause) {
    await dropAccessPoint(ctx, stored);
    throw cause;
  }
}

/**
 * Requests to one host must not reach another account's bucket or access point of that name. The claim comes first: a bucket that is
 * created meanwhile is either seen here, or its creator sees the claim after its commit and deletes it again.
 */
async function claimHost(ctx: Ctx, row: AccessPointRow): Promise<void> {
  const { account, name } = row;
  const label = formatHostLabel(row);
  const refuse = () =>
    fail('InvalidRequest', `${label} is the name of a bucket or the host of another access point.`);
  if ((await isOfLongerAccount(ctx, row)) || (await lookUpBucket(ctx, label)) !== undefined) throw refuse();
  if (!(await claimAlias(ctx.metadata, { alias: label, account, name }))) throw refuse();
  const claimed = await findAlias(ctx.metadata, label);
  if ((await lookUpBucket(ctx, label)) === undefined) return;
  if (claimed?.row.account === account && claimed.row.name === name) await dropAlias(ctx.metadata, claimed);
  throw refuse();
}

/**
 * `photos-x` of the account `team` has the host of `photos` of the account `x-team`. Such a host belongs to the account with the longest
 * id, because `team` could take any host of `x-team` otherwise.
 */
async function isOfLongerAccount(
  { credentials, metadata }: Ctx,
  { account, name }: Pick<AccessPointRow, 'account' | 'name'>,
): Promise<boolean> {
  for (const { index } of name.matchAll(/-/g)) {
    const longer = `${name.slice(index + 1)}-${account}`;
    if (credentials.hasAccountLike(longer) || (await findAccountClaim(metadata, idClaim(longer))))
      return true;
  }
  return false;
}

/** @throws InvalidBucketName for a bucket whose host name would hide an access point */
export async function assertNoAccessPoint({ metadata }: Pick<Ctx, 'metadata'>, name: string): Promise<void> {
  if ((await findAlias(metadata, name)) !== undefined)
    throw fail('InvalidBucketName', 'The name is that of the host of an access point.');
}

interface Named {
  readonly account: string;
  readonly name: string;
  /** The alias of the access point that the caller was authorized for. If another access point has its name now, the change is refused. */
  readonly alias?: string | undefined;
  readonly record?: Recorder | undefined;
}

/** @throws NoSuchAccessPoint */
async function openNamed(ctx: Ctx, { account, name, alias }: Named): Promise<Stored<AccessPointRow>> {
  const found = await openAccessPoint(ctx, account, name);
  if (alias === undefined || found.row.alias === alias) return found;
  throw fail('NoSuchAccessPoint', { elements: { AccessPointName: name } });
}

const turnName = ({ account, name }: Named): string => `access point ${account} ${name}`;

/**
 * Puts or removes the policy. Every request that begins after it returns is judged by the new policy.
 * @param assertAllowed called with the access point that the commit replaces; its refusals are thrown
 */
export const setAccessPointPolicy = (
  ctx: Ctx,
  named: Named,
  {
    text,
    assertAllowed = async () => {},
  }: { readonly text: string | undefined; assertAllowed?(row: AccessPointRow): Promise<void> },
): Promise<void> =>
  retryInTurn(ctx, turnName(named), async () => {
    const { record } = named;
    const found = await openNamed(ctx, named);
    await assertAllowed(found.row);
    const { policy: _, ...rest } = found.row;
    const next = text === undefined ? rest : { ...rest, policy: { id: drawId(ctx.random), text } };
    const then = await recorded(record);
    const outcome = await replaceAccessPoint(ctx.metadata, found, { next, then });
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: undefined };
  });

export const deleteAccessPoint = (ctx: Ctx, named: Named): Promise<void> =>
  retryInTurn(ctx, turnName(named), async () => {
    const found = await openNamed(ctx, named);
    return (await dropAccessPoint(ctx, found, named.record)) ? { value: undefined } : undefined;
  });

/** Removes the access point in the state that was read, and its aliases. @returns false if it has changed */
async function dropAccessPoint(
  { metadata }: Pick<Ctx, 'metadata'>,
  stored: Stored<AccessPointRow>,
  record?: Recorder,
): Promise<boolean> {
  // Read the rows before the removal: if a new access point of the same name claims an alias meanwhile, `dropAlias` leaves it.
  const names = [stored.row.alias, formatHostLabel(stored.row)];
  const aliases = await Promise.all(names.map((alias) => findAlias(metadata, alias)));
  const outcome = await removeAccessPoint(metadata, stored, await recorded(record));
  if (!outcome.applied) return false;
  record?.applied();
  // Aliases go last, because an alias without an access point leads nowhere.
  for (const alias of aliases) if (alias !== undefined) await dropAlias(metadata, alias);
  return true;
}

const scanStep = 200;

interface AccessPointPage {
  readonly items: readonly AccessPointRow[];
  /** The name after which the next page begins. Absent on the last page. */
  readonly next?: string;
}

export async function listAccessPoints(
  { metadata }: Pick<Ctx, 'metadata'>,
  account: string,
  {
    bucket,
    bucketId,
    after,
    max,
  }: {
    readonly bucket?: string | undefined;
    /** Leaves out those of an earlier bucket of the name. */
    readonly bucketId?: string | undefined;
    readonly after?: string | undefined;
    readonly max: number;
  },
): Promise<AccessPointPage> {
  const items: AccessPointRow[] = [];
  for (let last = after; ; ) {
    const found = await pageAccessPoints(metadata, account, { after: last, limit: scanStep });
    for (const row of found) {
      if (bucket !== undefined && row.bucket !== bucket) continue;
      if (bucketId !== undefined && row.bucketId !== bucketId) continue;
      if (items.length === max) return { items, next: items.at(-1)?.name ?? '' };
      items.push(row);
    }
    last = found.at(-1)?.name;
    if (found.length < scanStep) return { items };
  }
}

/** @throws BucketHasAccessPointsAttached */
export async function assertUnattached(ctx: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<void> {
  const { items } = await listAccessPoints(ctx, bucket.owner, { bucketId: bucket.id, max: 1 });
  if (items.length > 0) throw fail('BucketHasAccessPointsAttached');
}

/** The bucket that a request reached, and the access point that it came through, if any. */
export interface Reached {
  readonly bucket: BucketRow;
  readonly accessPoint?: AccessPointRow;
}

async function followAlias(ctx: Pick<Ctx, 'metadata'>, alias: string): Promise<Reached> {
  const named = (await findAlias(ctx.metadata, alias))?.row;
  if (named === undefined) throw fail('NoSuchAccessPoint', { elements: { AccessPointName: alias } });
  return reachThrough(ctx, named);
}

/** @throws NoSuchAccessPoint; NoSuchBucket where the bucket was deleted or given to another account */
export async function reachThrough(
  ctx: Pick<Ctx, 'metadata'>,
  { account, name }: Pick<AccessPointRow, 'account' | 'name'>,
): Promise<Reached> {
  const { row: accessPoint } = await openAccessPoint(ctx, account, name);
  const bucket = await lookUpBucket(ctx, accessPoint.bucket);
  // One of the former owner's account is left if its creator died before it read the bucket again.
  const isOwn = accessPoint.account === accessPoint.bucketOwner;
  const isOfAccessPoint =
    bucket?.id === accessPoint.bucketId && !(isOwn && bucket.owner !== accessPoint.account);
  // The caller is not authorized yet: it gets the name that it knows, and not that of the bucket.
  if (bucket === undefined || !isOfAccessPoint)
    throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return { bucket, accessPoint };
}

/** The bucket of this name, or the bucket of the access point of this name. @param isHost whether the name was in a host name */
export function reach(
  ctx: Pick<Ctx, 'metadata'>,
  name: string,
  { isHost }: { readonly isHost: boolean },
): Promise<Reached> {
  if (isAlias(name)) return followAlias(ctx, name);
  if (!mayBeBucket(name)) return reachByLabel(ctx, name, isHost);
  return findBucket(ctx.metadata, name).then((found) =>
    found === undefined ? reachByLabel(ctx, name, isHost) : { bucket: found.row },
  );
}

async function reachByLabel(ctx: Pick<Ctx, 'metadata'>, name: string, isHost: boolean): Promise<Reached> {
  if (isHost && (await findAlias(ctx.metadata, name)) !== undefined) return followAlias(ctx, name);
  throw fail('NoSuchBucket', { elements: { BucketName: name } });
}
