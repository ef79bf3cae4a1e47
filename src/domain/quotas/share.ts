/** What this process may still add under one quota, and the writes that use it. */
import type { BucketRow } from '../../metadata/tables.ts';
import type { Revision } from '../../ports/metadata-store.ts';
import { type Amount, add, counted, fits, nothing, subtract, sum } from './amounts.ts';
import type { Scope } from './scopes.ts';

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
export interface Ask {
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
    return this.hold(ask, amount);
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
