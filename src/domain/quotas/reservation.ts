/** The room that one write has under the quotas of its bucket and of the bucket's account. */
import { listHolders } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { type Amount, counted, type Freed, fits, nothing } from './amounts.ts';
import { exceeded, exceededIn } from './exceeded.ts';
import { accountHolder, bucketScope, holderScope, type Scope, userHolder } from './scopes.ts';
import { type Hold, reserve, type Share, type ShareCtx, usedIn } from './shares.ts';

export type { ShareCtx };

export const hasQuota = (bucket: BucketRow): boolean =>
  bucket.quota !== undefined || listHolders(bucket).length > 0;

/** @throws QuotaExceeded for an object that is larger than the bucket takes */
export function assertSize({ quota, name, owner }: BucketRow, bytes: number): void {
  const allowed = quota?.maxBytesPerObject ?? 0;
  const whose = { of: 'bucket', name, account: owner } as const;
  if (allowed > 0 && bytes > allowed)
    throw exceeded({ ...whose, limit: 'maxBytesPerObject', allowed, requested: bytes });
}

const noParts: Freed = { bucket: 0, accounts: new Map() };

const without = ({ bytes, objects }: Amount, freed: number): Amount => ({ bytes: bytes - freed, objects });

/**
 * Parts turn into an object without further room, because they are counted already. The commit of a part states no generation of the
 * bucket, so parts of a process whose share was taken back may exceed a quota: then no object may be made of them.
 * @throws QuotaExceeded
 */
export async function assertNotExceeded(ctx: ShareCtx, bucket: BucketRow): Promise<void> {
  for (const scope of listScopes(bucket)) {
    const limits = await scope.limits(ctx);
    if (limits === undefined) continue;
    const used = await usedIn(ctx, scope);
    if (!fits(counted(used, limits), limits))
      throw exceededIn(scope.whose, nothing, { limits, used, reserved: nothing });
  }
}

interface Reserved {
  readonly share: Share;
  readonly hold: Hold;
}

export class Reservation {
  readonly #ctx: ShareCtx;
  /** By scope. */
  readonly #reserved = new Map<string, Reserved>();
  readonly #isFenced: boolean;

  /** @param isFenced whether the commit states the generation of the bucket */
  constructor(ctx: ShareCtx, { isFenced }: { readonly isFenced: boolean }) {
    this.#ctx = ctx;
    this.#isFenced = isFenced;
  }

  /**
   * Reserves what a commit at this generation of the bucket adds, unless it is reserved already. Call it before each attempt to commit.
   * @param freed parts that leave the counters in the same commit
   * @throws QuotaExceeded
   */
  async cover(bucket: BucketRow, change: Amount, freed: Freed = noParts): Promise<void> {
    for (const scope of listScopes(bucket)) {
      const need = growth(without(change, scope.bytesOf(freed)));
      if (fits(need, nothing)) continue;
      const reservation = this.#reserved.get(scope.id);
      if (reservation !== undefined && isValid(reservation, bucket)) {
        if (!covers(reservation, need))
          this.#reserved.set(scope.id, await this.#grow(reservation, bucket, need));
        continue;
      }
      reservation?.share.end(reservation.hold);
      this.#reserved.delete(scope.id);
      this.#reserved.set(scope.id, await this.#reserve(scope, bucket, need));
    }
  }

  #reserve(scope: Scope, bucket: BucketRow, need: Amount): Promise<Reserved> {
    return reserve(this.#ctx, { scope, bucket, need, isFenced: this.#isFenced });
  }

  async #grow({ share, hold }: Reserved, bucket: BucketRow, need: Amount): Promise<Reserved> {
    const more = growth({
      bytes: need.bytes - hold.amount.bytes,
      objects: need.objects - hold.amount.objects,
    });
    const added = await this.#reserve(share.scope, bucket, more);
    return { share, hold: share.join(hold, added.hold) };
  }

  /** The commit applied: its bytes are in the counters now. */
  applied(change: Amount, freed: Freed = noParts): void {
    if (this.#reserved.size === 0) return;
    for (const { share, hold } of this.#reserved.values())
      share.end(hold, growth(without(change, share.scope.bytesOf(freed))));
    this.#reserved.clear();
  }

  /** The outcome of the commit is unknown: its room stays reserved until it is certain. */
  doubt(): void {
    for (const { share, hold } of this.#reserved.values()) share.doubt(hold);
    this.#reserved.clear();
  }

  /** Gives back what no commit used. */
  release(): void {
    this.applied(nothing);
  }
}

const covers = ({ share, hold }: Reserved, need: Amount): boolean =>
  fits(counted(need, share.limits), hold.amount);

const isValid = ({ share, hold }: Reserved, bucket: BucketRow): boolean =>
  share.holds.has(hold) && hold.generation >= bucket.generation;

/** Runs a write with room of its own, and gives back what it did not use. */
export const withReservation = <T>(
  ctx: ShareCtx,
  work: (reservation: Reservation) => Promise<T>,
): Promise<T> => workIn(new Reservation(ctx, { isFenced: true }), work);

/** The same for a part, whose commit states no generation of the bucket. */
export const withPartReservation = <T>(
  ctx: ShareCtx,
  work: (reservation: Reservation) => Promise<T>,
): Promise<T> => workIn(new Reservation(ctx, { isFenced: false }), work);

async function workIn<T>(
  reservation: Reservation,
  work: (reservation: Reservation) => Promise<T>,
): Promise<T> {
  try {
    return await work(reservation);
  } finally {
    reservation.release();
  }
}

/** What of a change needs room: a change that removes more than it adds needs none. */
const growth = ({ bytes, objects }: Amount): Amount => ({
  bytes: Math.max(0, bytes),
  objects: Math.max(0, objects),
});

/** The scopes whose room a commit in the bucket needs. */
function listScopes(bucket: BucketRow): readonly Scope[] {
  const { quota, accountQuota, userQuota, creatorId, owner } = bucket;
  return [
    ...(quota === undefined || (quota.maxBytes === 0 && quota.maxObjects === 0) ? [] : [bucketScope(bucket)]),
    ...(accountQuota === undefined ? [] : [holderScope(accountHolder(owner), accountQuota)]),
    ...(userQuota === undefined || creatorId === undefined
      ? []
      : [holderScope(userHolder(owner, creatorId), userQuota)]),
  ];
}
