/**
 * Grants shares of quotas to this process. A grant reads what all processes hold, this one too, then the counters, and commits on the head
 * that it read first: grants follow one another, and no commit is missed. A process gets twice what it has used lately, and at most an
 * eighth of the rest of the quota. So the last bytes are granted one write at a time, and small writes keep no room from a large one.
 */
import { inParallel } from '../../base/concurrency.ts';
import { fail, Refusal } from '../../base/errors.ts';
import { KeyedMutex } from '../../base/mutex.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { commitShare, commitShares, readShares } from '../../metadata/buckets/quotas.ts';
import { hasPendingUsage, readUsage } from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { QuotaShareRow } from '../../metadata/records/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { commitLimits, type Revision, type Stored } from '../../ports/metadata-store.ts';
import { fenceWriters } from '../common/buckets.ts';
import { pauseMs } from '../common/retry-in-turn.ts';
import { type Amount, add, counted, fits, nothing, smaller, subtract, sum } from './amounts.ts';
import { exceededIn, type ScopeUse } from './exceeded.ts';
import type { Scope } from './scopes.ts';

/** A share is granted so that others find room too. */
const shareOfAvailable = 1 / 8;
const grantMax: Amount = { bytes: 256 * 1024 ** 2, objects: 16_384 };
/** A process that has used little lately is granted room for so many writes. */
const writesAtFirst = 64;
const attemptsMax = 64;
/** Attempts without a pause. */
const eagerAttempts = 4;
/** A share whose row was not written for so long is taken back. */
const holderMsMax = 5_000;
/** A holder looks after its shares so often, and gives back what it did not use meanwhile. */
const careMs = 500;
/** Where timers end with their request, a holder stops before the runtime ends that request, and the next write goes on. */
const careMsMax = 20_000;
/** A row in use is written again so often. */
const rewriteMs = 2_000;
/** How long a write waits for room that other processes may give back. */
const waitMsMax = 2_000;
const waitLookMs = 100;
/** Further writes are refused without waiting. */
const waitersMax = 64;

/** The shares of this process. */
class Shares extends KeyedMutex {
  readonly byScope = new Map<string, Share>();
  holder = '';
  isCaring = false;
}

/**
 * Reserves room for a commit in the bucket.
 * @throws QuotaExceeded
 */
export async function reserve(
  ctx: ShareCtx,
  { scope, ...ask }: Ask & { readonly scope: Scope },
): Promise<{ readonly share: Share; readonly hold: Hold }> {
  const shares = ctx.caches.of(Shares);
  if (shares.holder === '') shares.holder = toHex(ctx.random.bytes(12));
  let share = shares.byScope.get(scope.id);
  if (share === undefined) {
    share = new Share(scope);
    shares.byScope.set(scope.id, share);
  }
  const mine = share;
  const grantMore = () => shares.run(scope.id, () => grant(ctx, mine, ask));
  mine.asking += 1;
  try {
    const hold =
      mine.take(ask, ctx.clock.elapsed()) ??
      (await whileOthersMayGive(ctx, mine, { need: ask.need, grantMore }));
    return { share: mine, hold };
  } finally {
    mine.asking -= 1;
    if (!shares.isCaring) care(ctx, shares);
  }
}

/** Asks again while other processes hold enough, because they give back what they do not use. */
async function whileOthersMayGive(
  { clock }: ShareCtx,
  share: Share,
  { need, grantMore }: { readonly need: Amount; readonly grantMore: () => Promise<Granted> },
): Promise<Hold> {
  const until = clock.elapsed() + waitMsMax;
  for (;;) {
    const granted = await grantMore();
    if ('hold' in granted) return granted.hold;
    if (!granted.mayWait || clock.elapsed() >= until || share.waiting >= waitersMax)
      throw exceededIn(share.scope.whose, need, granted.use);
    share.waiting += 1;
    await clock.sleep(waitLookMs);
    share.waiting -= 1;
  }
}

type Granted = { readonly hold: Hold } | { readonly mayWait: boolean; readonly use: ScopeUse };

async function grant(ctx: ShareCtx, share: Share, asked: Ask): Promise<Granted> {
  const { clock } = ctx;
  let { bucket } = asked;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const ready = share.take({ ...asked, bucket }, clock.elapsed());
    if (ready !== undefined) return { hold: ready };
    if (!share.isSeen(bucket)) await endStaleHolds(ctx, share, bucket);
    const view = await readView(ctx, share);
    if (view.limits === undefined) return { hold: share.hold({ ...asked, bucket }, nothing) };
    share.limits = view.limits;
    const need = counted(asked.need, view.limits);
    const { available, reserved: reservation } = view;
    if (fits(need, available)) {
      const free = portion(need, {
        available,
        limits: view.limits,
        expected: share.expected(clock.elapsed()),
      });
      if (attempt >= eagerAttempts) await clock.sleep(pauseMs(ctx, attempt - eagerAttempts));
      await write(ctx, share, { bucket, view, reserved: reservation, free });
      continue;
    }
    if (!(await takeBack(ctx, share, view))) {
      const { limits, used, others } = view;
      const reserved = counted(add(reservation, others), limits);
      return { mayWait: fits(need, add(available, others)), use: { limits, used, reserved } };
    }
    bucket = await readAgain(ctx, bucket);
  }
  throw fail('SlowDown', 'Too many concurrent requests reserve room under this quota.');
}

interface View {
  readonly head: Awaited<ReturnType<typeof readShares>>['head'];
  readonly others: Amount;
  /** What the counters have. */
  readonly used: Amount;
  /** Whether there are shares of holders that seem to be dead. */
  readonly isAnyStale: boolean;
  readonly limits: Amount | undefined;
  /** What the writes of this process had reserved before the counters were read. */
  readonly reserved: Amount;
  /** What is neither in the counters, nor in the share of another process, nor reserved by a write of this process. */
  readonly available: Amount;
  readonly now: number;
}

const isStale = ({ row }: Stored<QuotaShareRow>, now: number): boolean => row.at + holderMsMax < now;

async function readView(ctx: ShareCtx, share: Share): Promise<View> {
  const { metadata, caches } = ctx;
  const { scope } = share;
  const { holder } = caches.of(Shares);
  const { head, shares } = await readShares(metadata, scope.id);
  const own = shares.find(({ row }) => row.holder === holder);
  keep(share, own);
  const others = shares.filter(({ row }) => row.holder !== holder);
  const elsewhere = sum(others.map(({ row }) => row));
  // Before the counters, like the rows of the other shares: a write whose commit applies between the two reads is counted twice. In the
  // other order it would be in neither, because it gives its reservation up as soon as it has applied.
  const { reserved: reservation } = share.close();
  const limits = await scope.limits(ctx);
  const used = await usedIn(ctx, scope);
  const now = await metadata.now();
  const taken = sum([used, elsewhere, reservation]);
  const available = limits === undefined ? nothing : subtract(limits, counted(taken, limits));
  const isAnyStale = others.some((each) => isStale(each, now));
  return { head, others: elsewhere, used, isAnyStale, limits, reserved: reservation, available, now };
}

/** What the counters of a scope have: objects, and parts of open uploads. */
export async function usedIn({ metadata }: Pick<ShareCtx, 'metadata'>, { usageIds }: Scope): Promise<Amount> {
  const counters = await inParallel(usageIds.length, usageIds, (id) => readUsage(metadata, id));
  return sum(counters.flatMap((each) => [...each.values()]));
}

/** Only this process writes its row, perhaps without learning of it; others remove it. */
function keep(share: Share, own: Stored<QuotaShareRow> | undefined): void {
  if (own !== undefined) share.revision = own.revision;
  else if (share.revision !== 'absent') share.lose();
}

/** How much to be granted: what is needed, and more where there is plenty. */
function portion(
  need: Amount,
  {
    available,
    limits,
    expected,
  }: { readonly available: Amount; readonly limits: Amount; readonly expected: Amount },
): Amount {
  const granted = (kind: keyof Amount): number =>
    Math.max(
      need[kind],
      Math.min(
        grantMax[kind],
        Math.floor(available[kind] * shareOfAvailable),
        Math.max(expected[kind], writesAtFirst * need[kind]),
      ),
    );
  return counted({ bytes: granted('bytes'), objects: granted('objects') }, limits);
}

async function write(
  { metadata, clock, caches }: ShareCtx,
  share: Share,
  {
    bucket,
    view,
    reserved: reservation,
    free,
  }: { readonly bucket: BucketRow; readonly view: View; readonly reserved: Amount; readonly free: Amount },
): Promise<void> {
  const scope = share.scope.id;
  const row = { scope, holder: caches.of(Shares).holder, ...add(reservation, free), at: view.now };
  const writtenAt = clock.elapsed();
  const outcome = await commitShares(metadata, { scope, head: view.head, at: view.now }, [
    { put: row, expect: share.revision },
  ]);
  if (!outcome.applied) return;
  share.revision = outcome.revision;
  share.writtenAt = writtenAt;
  share.free = add(share.free, free);
  share.see(bucket);
}

/**
 * Ends the holds whose commits state an earlier generation: once these are refused, and those that applied are in the counters, they hold
 * nothing. Their writers reserve again.
 */
async function endStaleHolds(ctx: ShareCtx, share: Share, bucket: BucketRow): Promise<void> {
  const stale = [...share.holds].filter(
    ({ bucketId, generation, isFenced }) =>
      isFenced && bucketId === bucket.id && generation < bucket.generation,
  );
  if (stale.length === 0) return;
  await ctx.metadata.raiseFence(objectsAt(bucket), bucket.generation);
  if (!(await isSettled(ctx, ...share.scope.usageIds))) return;
  share.endStale(stale);
}

/** Takes back what holders hold that seem to be dead, and what commits of unknown outcome hold. */
async function takeBack(ctx: ShareCtx, share: Share, view: View): Promise<boolean> {
  if (!view.isAnyStale && share.doubtful.size === 0) return false;
  const holds = [...share.holds];
  const generations = await recall(ctx, share.scope, (each) => isStale(each, view.now));
  if (generations === undefined) return false;
  share.endBelow(generations, holds);
  return true;
}

async function readAgain({ metadata }: ShareCtx, bucket: BucketRow): Promise<BucketRow> {
  const row = (await findBucket(metadata, bucket.name))?.row;
  return row?.id === bucket.id ? row : bucket;
}

/** Looks after the shares until all of them are given back. */
function care(ctx: ShareCtx, shares: Shares): void {
  const { clock } = ctx;
  shares.isCaring = true;
  const begun = clock.elapsed();
  const mayGoOn = () => clock.hasRequestScopedTimers !== true || clock.elapsed() - begun < careMsMax;
  const run = async (): Promise<void> => {
    while (shares.byScope.size > 0 && mayGoOn()) {
      await clock.sleep(careMs);
      for (const share of [...shares.byScope.values()])
        await shares.run(share.scope.id, () => tend(ctx, shares, share));
    }
  };
  // A store that does not answer: the next write begins again, and others take the shares back.
  run()
    .catch(() => {})
    .finally(() => {
      shares.isCaring = false;
    });
}

async function tend(ctx: ShareCtx, shares: Shares, share: Share): Promise<void> {
  const now = ctx.clock.elapsed();
  const isIdle = now - share.usedAt >= careMs && share.asking === 0;
  if (!isIdle && now - share.writtenAt < rewriteMs) return;
  if (isIdle && share.doubtful.size > 0) {
    const holds = [...share.holds];
    const generations = await recall(ctx, share.scope, () => false);
    if (generations === undefined) return;
    share.endBelow(generations, holds);
  }
  if (share.revision !== 'absent') await rewrite(ctx, shares, { share, isIdle, now });
  if (share.revision === 'absent' && share.holds.size === 0 && share.asking === 0)
    shares.byScope.delete(share.scope.id);
}

/** Writes the row of a share again, without what was not used; one that covers nothing any more is removed. */
async function rewrite(
  { metadata }: ShareCtx,
  { holder }: Shares,
  { share, isIdle, now }: { readonly share: Share; readonly isIdle: boolean; readonly now: number },
): Promise<void> {
  const { revision } = share;
  if (revision === 'absent') return;
  const scope = share.scope.id;
  const at = await metadata.now();
  const { reserved: reservation, free } = share.close();
  const retained = isIdle ? nothing : smaller(free, share.expected(now));
  const covered = add(reservation, retained);
  const isEmpty = isIdle && share.holds.size === 0;
  const change = isEmpty
    ? { remove: { holder }, expect: revision }
    : { put: { scope, holder, ...covered, at }, expect: revision };
  const outcome = await commitShare(metadata, scope, change);
  if (!outcome.applied) return keep(share, outcome.current);
  if (isEmpty) return share.lose();
  share.revision = outcome.revision;
  share.writtenAt = now;
  share.free = add(share.free, retained);
}

// Takes shares back whose holder may have died. A commit that such a holder has sent may still be on its way, so all commits that began
// before are refused first: the generation of every bucket of the scope is raised. Writers that live commit again, at the new generation.

export type ShareCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** How long to wait for additions of commits that have applied, and the polling interval. */
const pendingMsMax = 2_000;
const pendingLookMs = 25;

/** Whether the counters have every commit that applied before the call. */
export async function isSettled(
  { metadata, clock }: ShareCtx,
  ...usageIds: readonly string[]
): Promise<boolean> {
  for (let waitedMs = 0; waitedMs <= pendingMsMax; waitedMs += pendingLookMs) {
    const pending = await inParallel(usageIds.length, usageIds, (id) => hasPendingUsage(metadata, id));
    if (!pending.includes(true)) return true;
    await clock.sleep(pendingLookMs);
  }
  return false;
}

/** The generations from which on commits apply, by bucket. */
type Generations = ReadonlyMap<string, number>;

async function fenceScope(ctx: ShareCtx, scope: Scope): Promise<Generations> {
  const generations = new Map<string, number>();
  for await (const bucket of scope.buckets(ctx)) {
    try {
      const raised = await fenceWriters(ctx, bucket);
      generations.set(raised.id, raised.generation);
    } catch (cause) {
      // Deleted meanwhile, so that no commit in it applies.
      if (!(cause instanceof Refusal) || cause.code !== 'NoSuchBucket') throw cause;
    }
  }
  return generations;
}

/** @returns undefined where a commit of a dead process has not been added to the counters yet: the rows stay */
export async function recall(
  ctx: ShareCtx,
  scope: Scope,
  isTaken: (share: Stored<QuotaShareRow>) => boolean,
): Promise<Generations | undefined> {
  const before = await readShares(ctx.metadata, scope.id);
  const revisions = new Set(before.shares.map(({ revision }) => revision));
  const generations = await fenceScope(ctx, scope);
  if (!(await isSettled(ctx, ...scope.usageIds))) return undefined;
  const { head, shares } = await readShares(ctx.metadata, scope.id);
  // A holder that wrote its row meanwhile keeps it: it may count on the row in a bucket that was created behind the walk. The head changes
  // too, so no grant rests on a limit from before.
  const taken = shares
    .filter((share) => revisions.has(share.revision) && isTaken(share))
    .slice(0, commitLimits.changes - 1);
  await commitShares(
    ctx.metadata,
    { scope: scope.id, head, at: await ctx.metadata.now() },
    taken.map(({ row: { holder }, revision }) => ({ remove: { holder }, expect: revision })),
  );
  return generations;
}

// What this process may still add under one quota, and the writes that use it.

/** What one write has reserved. It is lost when the share is. */
export interface Hold {
  readonly bucketId: string;
  /** The commit of the write states at most this generation of the bucket. */
  readonly generation: number;
  readonly amount: Amount;
  /** Whether a raised generation of the bucket refuses the commit; the one of a part states none. */
  readonly isFenced: boolean;
}

/** What a write asks for. */
interface Ask {
  readonly bucket: BucketRow;
  readonly need: Amount;
  readonly isFenced: boolean;
}

/**
 * The stored row of a share covers its holds and what is free. It covers more than that after a write: the counters and the row then both
 * have the write's bytes, until the row is written again. So the counters and all rows together are never too low.
 */
export class Share {
  readonly scope: Scope;
  readonly holds = new Set<Hold>();
  free: Amount = nothing;
  /** 'absent': nothing is stored. */
  revision: 'absent' | Revision = 'absent';
  limits: Amount = nothing;
  /** By the monotonic clock of the process. */
  usedAt = 0;
  writtenAt = 0;
  /** Holds whose commits have an unknown outcome. */
  readonly doubtful = new Set<Hold>();
  /** Writes that wait for room. */
  waiting = 0;
  /** Writes that ask for room: the share stays that of its process meanwhile. */
  asking = 0;
  /** What writes took in the present window of `rewriteMs`, which began at `since`, and in the one before. */
  #taken = { since: 0, now: nothing, before: nothing };
  /** By bucket: the generation at which the stored row still existed. Commits with another one do not count on the share. */
  readonly #seen = new Map<string, number>();

  constructor(scope: Scope) {
    this.scope = scope;
  }

  isSeen({ id, generation }: BucketRow): boolean {
    return this.#seen.get(id) === generation;
  }

  see({ id, generation }: BucketRow): void {
    this.#seen.set(id, generation);
  }

  /** Reserves without asking the store; undefined where that does not suffice. */
  take(ask: Ask, now: number): Hold | undefined {
    this.usedAt = now;
    const amount = counted(ask.need, this.limits);
    if (!this.isSeen(ask.bucket) || !fits(amount, this.free)) return undefined;
    this.free = subtract(this.free, amount);
    this.#turnTo(now);
    this.#taken.now = add(this.#taken.now, amount);
    return this.hold(ask, amount);
  }

  /** What its writes may take soon: twice what they took lately. */
  expected(now: number): Amount {
    this.#turnTo(now);
    const { now: recent, before } = this.#taken;
    return {
      bytes: 2 * Math.max(recent.bytes, before.bytes),
      objects: 2 * Math.max(recent.objects, before.objects),
    };
  }

  #turnTo(now: number): void {
    const elapsed = now - this.#taken.since;
    if (elapsed < rewriteMs) return;
    const before = elapsed < 2 * rewriteMs ? this.#taken.now : nothing;
    this.#taken = { since: now, now: nothing, before };
  }

  hold({ bucket: { id, generation }, isFenced }: Omit<Ask, 'need'>, amount: Amount): Hold {
    const hold = { bucketId: id, generation, amount, isFenced };
    this.holds.add(hold);
    return hold;
  }

  /** One hold in place of two; the one that another process took counts no more. */
  join(a: Hold, b: Hold): Hold {
    if (!this.holds.delete(a)) return b;
    if (!this.holds.delete(b)) return a;
    const generation = Math.min(a.generation, b.generation);
    const joined = { ...a, generation, amount: add(a.amount, b.amount) };
    this.holds.add(joined);
    return joined;
  }

  /** Ends a hold of which `used` is in the counters now. */
  end(hold: Hold, used: Amount = nothing): void {
    if (!this.holds.delete(hold)) return;
    if (this.#seen.get(hold.bucketId) === hold.generation)
      this.free = add(this.free, subtract(hold.amount, counted(used, this.limits)));
  }

  /** The commit of a hold has an unknown outcome: it stays until `recall` has made the outcome certain. */
  doubt(hold: Hold): void {
    if (this.holds.has(hold)) this.doubtful.add(hold);
  }

  /**
   * Ends those of some holds whose commits are refused from now on, or applied and counted: those below the new generation of their bucket,
   * and those of buckets that have none, because such a bucket is deleted or belongs to another account. The commit of a part may be on its
   * way unless it has failed.
   */
  endBelow(generations: ReadonlyMap<string, number>, some: Iterable<Hold>): void {
    for (const hold of some) {
      const isRefused = hold.generation < (generations.get(hold.bucketId) ?? Number.POSITIVE_INFINITY);
      if (isRefused && (hold.isFenced || this.doubtful.has(hold))) this.#drop(hold);
    }
  }

  #drop(hold: Hold): void {
    this.holds.delete(hold);
    this.doubtful.delete(hold);
  }

  /** Ends the holds in a bucket whose commits state an earlier generation, once these are refused, or applied and counted. */
  endStale(stale: Iterable<Hold>): void {
    for (const hold of stale) this.#drop(hold);
  }

  /**
   * What the next row must cover, and what was free. Nothing is free until that row is written; what is given back meanwhile is covered by
   * it, because it is held now.
   */
  close(): { readonly reserved: Amount; readonly free: Amount } {
    const { free, reserved } = this;
    this.free = nothing;
    return { free, reserved };
  }

  /** What the writes of this process have reserved. */
  get reserved(): Amount {
    return sum([...this.holds].map(({ amount }) => amount));
  }

  /** Another process took the row, after it had made sure that no earlier commit can apply any more. */
  lose(): void {
    this.holds.clear();
    this.free = nothing;
    this.#seen.clear();
    this.doubtful.clear();
    this.revision = 'absent';
  }
}
