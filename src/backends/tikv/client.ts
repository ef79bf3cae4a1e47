/** A TiKV cluster as its users see it: snapshots to read, transactions to write. See README.md. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff, Conflict, TikvError, Undetermined, Unreachable } from './backoff.ts';
import type { Tls } from './channel.ts';
import { Locks } from './locks.ts';
import { decodeKey, fromWide, type KeyError, type LockInfo, toWide, type Wide } from './messages.ts';
import { PlacementDriver } from './placement-driver.ts';
import { type Region, Regions } from './regions.ts';
import { Sender } from './sender.ts';
import { Stores } from './stores.ts';
import { toTimestamp } from './timestamps.ts';
import { type Parts, Transaction } from './transaction.ts';

interface ClientOptions {
  /** PD's endpoints, `host:port`. */
  readonly endpoints: readonly string[];
  readonly tls?: Tls | undefined;
  /** How long a read, or one phase of a transaction, is retried before it fails; a transaction is for four times as long. Default 15 s. */
  readonly timeoutMs?: number | undefined;
}

const defaultTimeoutMs = 15_000;
/** After a store did not serve in time, transactions are careful for so long: a region may be away. */
const carefulMs = 30_000;
/** The retry of a transaction waits for so long until its locks are released. */
const releaseMs = 1_000;
/** Transactions that met others are tried again this often, and within this many time budgets. */
const attemptsMax = 30;
const budgetsMax = 4;

export class TikvClient {
  readonly #pd: PlacementDriver;
  readonly #stores: Stores;
  readonly #parts: Parts;
  readonly #background = new Set<Promise<unknown>>();
  /** By `performance.now()`. */
  #carefulUntil = 0;

  constructor({ endpoints, tls, timeoutMs: budgetMs = defaultTimeoutMs }: ClientOptions) {
    const pd = new PlacementDriver({ endpoints, tls, budgetMs });
    this.#pd = pd;
    this.#stores = new Stores(pd, tls);
    const sender = new Sender(new Regions(pd), this.#stores);
    const background = (work: Promise<unknown>): void => this.#inBackground(work);
    this.#parts = { pd, sender, locks: new Locks(pd, sender), budgetMs, background };
  }

  /** The cluster's clock, in ms since the epoch. */
  now(): Promise<number> {
    return this.#pd.now();
  }

  /** The latest committed value of one key; costs no timestamp. */
  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return new Snapshot(this.#parts, latest).get(key);
  }

  /** Everything that was committed before this call, as of one moment. */
  async snapshot(): Promise<Snapshot> {
    return new Snapshot(this.#parts, await this.#pd.timestamp());
  }

  /**
   * Runs `work` in a transaction and commits it; repeats both on a conflict with another transaction. Returns the result of `work`; an
   * error rolls back.
   * @throws Undetermined when it is unknown whether it was committed; after any other error it was not
   */
  async transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const whole = new Backoff(budgetsMax * this.#parts.budgetMs);
    for (let attempt = 1; ; attempt += 1) {
      const start = await this.#pd.timestamp();
      const isCareful = attempt > 1 || performance.now() < this.#carefulUntil;
      const transaction = new Transaction(this.#parts, { start, whole, isCareful });
      try {
        return await this.#attempt(transaction, work);
      } catch (error) {
        if (isUnreachable(error)) this.#carefulUntil = performance.now() + carefulMs;
        if (!(error instanceof Conflict) || attempt >= attemptsMax || !(await whole.tryWait())) throw error;
      }
    }
  }

  async #attempt<T>(transaction: Transaction, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await work(transaction);
    } catch (error) {
      await this.#clean(transaction.rollback(), error);
      throw error;
    }
    try {
      await transaction.commit();
      return result;
    } catch (error) {
      // Undo nothing of an undetermined commit, because it may have applied.
      if (!(error instanceof Undetermined)) await this.#clean(transaction.undo(), error);
      throw error;
    }
  }

  /** A retry waits for this, so that it does not meet its own locks, but not for a region that is away; other callers do not wait. */
  async #clean(work: Promise<void>, error: unknown): Promise<void> {
    this.#inBackground(work);
    if (!(error instanceof Conflict)) return;
    await Promise.race([work.catch(() => undefined), sleep(releaseMs, undefined, { ref: false })]);
  }

  /** The id of the region of each key, as PD knows it; a region that does not serve has one too. */
  async regionsOf(keys: readonly Uint8Array[]): Promise<readonly bigint[]> {
    const backoff = new Backoff(this.#parts.budgetMs);
    const ids: bigint[] = [];
    for (const key of keys) ids.push((await this.#parts.sender.locate(key, backoff, 'at')).id);
    return ids;
  }

  /** Settles old locks and lets stores drop old versions; for clusters without a TiDB, which does that otherwise. */
  collect(collection: Collection): Promise<void> {
    return collect(this.#parts, collection);
  }

  async close(): Promise<void> {
    await Promise.all(this.#background);
    await this.#stores.close();
    await this.#pd.close();
  }

  /** Work that no caller waits for: a transaction that meets a leftover lock clears it. */
  #inBackground(work: Promise<unknown>): void {
    const settled = work.catch(() => undefined).finally(() => this.#background.delete(settled));
    this.#background.add(settled);
  }
}

const isUnreachable = (error: unknown): boolean =>
  error instanceof Unreachable || (error instanceof Conflict && error.cause instanceof Unreachable);

// Old versions: TiKV drops those before the safe point in PD, which a client must advance. In a cluster with TiDB that is TiDB; in one
// without, this client, under the same name. Locks from before the safe point are settled first, because afterwards the outcome of
// their transactions could not be determined.

/** Locks that are resolved in one request. */
const page = 256;
const noKey = new Uint8Array(0);

export interface Collection {
  /** The age from which a version may be dropped. */
  readonly ageMs: number;
  /** A safe point that is no older than this beyond the age was moved by another, and stays. */
  readonly everyMs: number;
}

type Swept = Pick<Parts, 'pd' | 'sender' | 'locks' | 'budgetMs'>;

async function collect(parts: Swept, { ageMs, everyMs }: Collection): Promise<void> {
  const { pd, budgetMs } = parts;
  const now = await pd.timestamp();
  const target = now - toTimestamp(ageMs);
  const current = await pd.safePoint(new Backoff(budgetMs));
  if (current > target - toTimestamp(everyMs)) return;
  // Backups and change feeds hold it back.
  const allowed = await pd.claimSafePoint(target, new Backoff(budgetMs));
  const safe = await clearLocks(parts, allowed);
  if (safe > current) await pd.moveSafePoint(safe, new Backoff(budgetMs));
}

/** @returns the latest timestamp before which there are no locks */
async function clearLocks({ sender, locks, budgetMs }: Swept, until: bigint): Promise<bigint> {
  let safe = until;
  for (let from: Uint8Array = noKey; ; ) {
    const backoff = new Backoff(budgetMs);
    const { region, found } = await scanLocks(sender, { from, until, backoff });
    const oldest = await oldestOpen(found, (some) => locks.resolve(some, { readsAt: 0n, backoff }));
    if (oldest <= safe) safe = oldest - 1n;
    const last = found.at(-1);
    if (last !== undefined && found.length === page) from = Buffer.concat([last.key, Buffer.of(0)]);
    else if (region.end.length === 0) return safe;
    else from = decodeKey(region.end);
  }
}

/**
 * A page of locks, at most to the end of a region.
 * @throws Unreachable when no store answers in time
 */
async function scanLocks(
  sender: Sender,
  { from, until, backoff }: { readonly from: Uint8Array; readonly until: bigint; readonly backoff: Backoff },
): Promise<{ readonly region: Region; readonly found: readonly LockInfo[] }> {
  const request = { start_key: from, end_key: noKey, max_version: toWide(until), limit: page };
  for (;;) {
    const region = await sender.locate(from, backoff, 'at');
    const answer = await sender.inRegion('ScanLock', region, { request, backoff });
    if (answer?.error) throw new TikvError(`TiKV refuses ScanLock: ${JSON.stringify(answer.error)}`);
    if (answer !== undefined) return { region, found: answer.locks ?? [] };
    await backoff.wait('no store serves ScanLock');
  }
}

/** The start of the oldest transaction that lives on. */
async function oldestOpen(
  found: readonly LockInfo[],
  resolve: (locks: readonly LockInfo[]) => Promise<{ readonly isLocked: boolean }>,
): Promise<bigint> {
  let oldest = 0xffff_ffff_ffff_ffffn;
  for (const lock of found) {
    const start = fromWide(lock.lock_version);
    if ((await resolve([lock])).isLocked && start < oldest) oldest = start;
  }
  return oldest;
}

// Reads at one timestamp: everything that was committed before it, and nothing later.

/** Later than every commit: reads the latest version. */
const latest = 0xffff_ffff_ffff_ffffn;

export interface Entry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export interface Stretch {
  /** Inclusive. */
  readonly low: Uint8Array;
  /** Exclusive. */
  readonly high: Uint8Array;
  readonly limit: number;
  readonly reverse: boolean;
}

type ReadParts = Pick<Parts, 'sender' | 'locks' | 'budgetMs'>;

/** The time that a read has left, and the transactions whose locks it ignores. */
interface Reading {
  readonly backoff: Backoff;
  passing: readonly Wide[] | undefined;
}

interface Piece {
  readonly from: Uint8Array;
  readonly until: Uint8Array;
  readonly limit: number;
  readonly reverse: boolean;
}

class Snapshot {
  readonly #parts: ReadParts;
  readonly #at: bigint;

  constructor(parts: ReadParts, at: bigint) {
    this.#parts = parts;
    this.#at = at;
  }

  /** @throws Unreachable when no store answers in time */
  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const reading = this.#begin();
    const request = { key, version: toWide(this.#at) };
    for (;;) {
      const answer = await this.#parts.sender.one('Get', key, { request, ...reading });
      if (!answer.error) return answer.not_found || !answer.value?.length ? undefined : answer.value;
      await this.#meet([answer.error], reading);
    }
  }

  /**
   * Up to `limit` entries of the stretch, in its order.
   * @throws Unreachable when no store answers in time
   */
  async scan({ low, high, limit, reverse }: Stretch): Promise<readonly Entry[]> {
    const entries: Entry[] = [];
    const reading = this.#begin();
    let from = reverse ? high : low;
    while (entries.length < limit) {
      const region = await this.#parts.sender.locate(from, reading.backoff, reverse ? 'before' : 'at');
      const edge = decodeKey(reverse ? region.start : region.end);
      // The last region has no end, the first one no start.
      const isLast = reverse ? edge.compare(low) <= 0 : edge.length === 0 || edge.compare(high) >= 0;
      const until = isLast ? (reverse ? low : high) : edge;
      const piece = { from, until, limit: limit - entries.length, reverse };
      const found = await this.#scanRegion(region, piece, reading);
      if (found === undefined) continue;
      entries.push(...found.entries);
      if (isLast && found.isWhole) break;
      const last = found.entries.at(-1);
      from = found.isWhole ? until : reverse || last === undefined ? (last?.key ?? until) : behind(last.key);
    }
    return entries;
  }

  #begin(): Reading {
    return { backoff: new Backoff(this.#parts.budgetMs), passing: undefined };
  }

  /** @returns undefined when the region is to be located and read again */
  async #scanRegion(region: Region, { from, until, limit, reverse }: Piece, reading: Reading) {
    const answer = await this.#parts.sender.inRegion('Scan', region, {
      request: {
        start_key: from,
        end_key: until,
        limit,
        version: toWide(this.#at),
        reverse,
        key_only: false,
      },
      ...reading,
    });
    if (answer === undefined) {
      await reading.backoff.wait('no store serves Scan');
      return undefined;
    }
    const pairs = answer.pairs ?? [];
    const errors: KeyError[] = answer.error ? [answer.error] : [];
    const entries: Entry[] = [];
    for (const { error, key, value } of pairs) {
      if (error) errors.push(error);
      else if (value?.length) entries.push({ key, value });
    }
    if (errors.length === 0) return { entries, isWhole: pairs.length < limit };
    await this.#meet(errors, reading);
    return undefined;
  }

  /** Locks are in the way: they are cleared, passed from now on, or waited for. */
  async #meet(errors: readonly KeyError[], reading: Reading): Promise<void> {
    const locks: LockInfo[] = [];
    for (const error of errors) {
      if (!error.locked) throw new Error(`TiKV refuses a read: ${JSON.stringify(error)}`);
      locks.push(error.locked);
    }
    const { backoff, passing = [] } = reading;
    const { isLocked, passable } = await this.#parts.locks.resolve(locks, { readsAt: this.#at, backoff });
    if (passable.length > 0) reading.passing = [...passing, ...passable];
    if (await (isLocked ? backoff.tryWait() : backoff.tryAgain())) return;
    throw new Unreachable('a lock of another transaction stays');
  }
}

function behind(key: Uint8Array): Uint8Array {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}
