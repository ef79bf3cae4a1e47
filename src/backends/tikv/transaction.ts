/**
 * A pessimistic transaction: it locks what it depends on, reads the present values, buffers its writes, and commits all of them or none,
 * in one phase where they are in one region, else in two. The outcome is stored at the first key that it locked, its primary.
 */
import { Backoff, Conflict, Undetermined, Unreachable } from './backoff.ts';
import type { Locks } from './locks.ts';
import { type Asked, fromWide, type KeyError, type LockInfo, type Mutation, toWide } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import type { Sender } from './sender.ts';

export interface Parts {
  readonly pd: PlacementDriver;
  readonly sender: Sender;
  readonly locks: Locks;
  /** How long locking, prewriting and committing are retried, each. */
  readonly budgetMs: number;
  /** Runs work that no caller waits for: stores must learn the outcome. */
  readonly background: (work: Promise<unknown>) => void;
}

interface TransactionOptions {
  readonly start: bigint;
  /** The time that is left for this transaction and its retries; bounds what comes before the commit. */
  readonly whole: Backoff;
  /**
   * After lost conflicts, and while a region may be away, it locks one region after the other, in key order, so that there is no
   * circular wait.
   */
  readonly isCareful: boolean;
}

interface LockOptions {
  /** The time after which a transaction that is not careful gives these locks up: it runs again, and is careful then. */
  readonly patienceMs?: number;
}

interface Prewriting {
  readonly primary: Uint8Array;
  /** The number of keys of the whole transaction. */
  readonly count: number;
  /** The earliest timestamp of its commit. */
  readonly least: bigint;
}

type Values = Map<string, Uint8Array | undefined>;

const op = { put: 0, del: 1, lock: 2, pessimisticLock: 5 } as const;
/** How long a store waits for the holder of a lock before it names the holder. */
const waitMs = 1_000;

const toHexName = (key: Uint8Array): string =>
  Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');

export class Transaction {
  readonly #parts: Parts;
  readonly #start: bigint;
  readonly #whole: Backoff;
  readonly #isCareful: boolean;
  readonly #startedAt = performance.now();
  #forUpdate: bigint;
  #primary: Uint8Array | undefined;
  #heartbeat: Heartbeat | undefined;
  readonly #locked = new Map<string, Uint8Array>();
  /** Includes keys whose lock request was not answered. */
  readonly #asked = new Map<string, Uint8Array>();
  readonly #writes = new Map<string, { readonly key: Uint8Array; readonly value: Uint8Array | undefined }>();

  constructor(parts: Parts, { start, whole, isCareful }: TransactionOptions) {
    this.#parts = parts;
    this.#start = start;
    this.#whole = whole;
    this.#isCareful = isCareful;
    this.#forUpdate = start;
  }

  /** Unique to this transaction, and later than that of every one that committed before it began. */
  get start(): bigint {
    return this.#start;
  }

  /** A region may be away, or others are faster: lock last what many others lock. */
  get isCareful(): boolean {
    return this.#isCareful;
  }

  /**
   * Locks keys until the transaction ends, and returns their values at that time, in order.
   * @throws Conflict on a deadlock, or when another transaction holds a lock for too long
   */
  async lock(
    keys: readonly Uint8Array[],
    { patienceMs }: LockOptions = {},
  ): Promise<readonly (Uint8Array | undefined)[]> {
    const [first] = keys;
    if (first === undefined) return [];
    const values: Values = new Map();
    this.#keepAlive(first);
    if (this.#isCareful || patienceMs === undefined) await this.#lockAll(keys, values, this.#share());
    else await this.#tryLockAll(keys, values, Math.min(patienceMs, this.#parts.budgetMs, this.#whole.leftMs));
    return keys.map((key) => values.get(toHexName(key)));
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#writes.set(toHexName(key), { key, value });
  }

  /** The value that this transaction will write under a key. */
  written(key: Uint8Array): Uint8Array | undefined {
    return this.#writes.get(toHexName(key))?.value;
  }

  remove(key: Uint8Array): void {
    this.#writes.set(toHexName(key), { key, value: undefined });
  }

  /**
   * Applies all writes or none.
   * @throws Conflict or Unreachable where none applied, Undetermined where that is unknown
   */
  async commit(): Promise<void> {
    if (this.#writes.size === 0) return this.rollback();
    const mutations = this.#mutations();
    const primary = this.#keepAlive((mutations[0] as Mutation).key);
    try {
      const done = await this.#commitAtOnce(mutations, primary);
      if (done === 'committed') return;
      if (done === 'nothing') await this.#prewrite(mutations, primary);
      const commit = await this.#commitPrimary(primary);
      const others = mutations.map(({ key }) => key).filter((key) => toHexName(key) !== toHexName(primary));
      if (others.length > 0) this.#parts.background(this.#commitKeys(others, commit));
    } finally {
      this.#heartbeat?.stop();
    }
  }

  /** Releases all locks. A lock that cannot be released now expires by itself. */
  async rollback(): Promise<void> {
    this.#heartbeat?.stop();
    const keys = [...this.#asked.values()];
    this.#asked.clear();
    this.#locked.clear();
    await this.#parts.sender.many('PessimisticRollback', {
      keys,
      request: (some) => ({
        start_version: toWide(this.#start),
        for_update_ts: toWide(this.#forUpdate),
        keys: some,
      }),
      backoff: this.#budget(),
    });
  }

  /** Undoes what a failed commit has prewritten, finally: commands that are still under way are refused when they arrive. */
  async undo(): Promise<void> {
    const keys = this.#mutations().map(({ key }) => key);
    this.#locked.clear();
    await this.#parts.sender.many('BatchRollback', {
      keys,
      request: (some) => ({ start_version: toWide(this.#start), keys: some }),
      backoff: this.#budget(),
    });
  }

  #budget(): Backoff {
    return new Backoff(this.#parts.budgetMs);
  }

  /** The budget of a phase before which nothing was committed. */
  #share(): Backoff {
    return new Backoff(Math.min(this.#parts.budgetMs, this.#whole.leftMs));
  }

  /** The first key decides, and shows from now on that its owner is alive. */
  #keepAlive(first: Uint8Array): Uint8Array {
    this.#primary ??= first;
    this.#heartbeat ??= new Heartbeat({
      sender: this.#parts.sender,
      primary: this.#primary,
      start: this.#start,
      startedAt: this.#startedAt,
    });
    return this.#primary;
  }

  async #tryLockAll(keys: readonly Uint8Array[], values: Values, patienceMs: number): Promise<void> {
    try {
      await this.#lockAll(keys, values, new Backoff(patienceMs), patienceMs / 4);
    } catch (cause) {
      if (!(cause instanceof Unreachable)) throw cause;
      throw new Conflict('no store served a lock in time', { cause });
    }
  }

  /** @param storeMs how long a store waits for the holder of a lock before it names the holder */
  async #lockAll(
    keys: readonly Uint8Array[],
    values: Values,
    backoff: Backoff,
    storeMs = waitMs,
  ): Promise<void> {
    for (const key of keys) this.#asked.set(toHexName(key), key);
    let pending = keys;
    while (pending.length > 0) {
      const errors: KeyError[] = [];
      const parts = await this.#parts.sender.many('PessimisticLock', {
        keys: pending,
        request: (some) => this.#lockRequest(some, storeMs),
        backoff,
        inTurn: this.#isCareful,
      });
      const failed: Uint8Array[] = [];
      for (const { keys: some, answer } of parts) {
        if (answer.errors?.length) {
          failed.push(...some);
          errors.push(...answer.errors);
          continue;
        }
        some.forEach((key, i) => {
          const value = answer.values?.[i];
          this.#locked.set(toHexName(key), key);
          values.set(toHexName(key), answer.not_founds?.[i] || !value?.length ? undefined : value);
        });
      }
      pending = failed;
      if (errors.length > 0) await this.#learn(errors, backoff);
    }
  }

  #lockRequest(keys: readonly Uint8Array[], storeMs: number) {
    return {
      mutations: keys.map((key) => ({ op: op.pessimisticLock, key })),
      primary_lock: this.#primary as Uint8Array,
      start_version: toWide(this.#start),
      lock_ttl: toWide(computeTtl(this.#startedAt)),
      for_update_ts: toWide(this.#forUpdate),
      min_commit_ts: toWide(this.#forUpdate + 1n),
      wait_timeout: toWide(BigInt(Math.floor(storeMs))),
      return_values: true,
    };
  }

  /** Why locks were refused: after a newer commit read again, after another lock wait. */
  async #learn(errors: readonly KeyError[], backoff: Backoff): Promise<void> {
    const locks: LockInfo[] = [];
    let isStale = false;
    for (const error of errors) {
      if (error.locked) locks.push(error.locked);
      else if (error.conflict) isStale = true;
      else throw new Conflict(describe(error));
    }
    if (isStale) this.#forUpdate = await this.#parts.pd.timestamp();
    await this.#meet(locks, backoff);
  }

  async #meet(locks: readonly LockInfo[], backoff: Backoff): Promise<void> {
    const { isLocked } = await this.#parts.locks.resolve(locks, { readsAt: 0n, backoff });
    if (await (isLocked ? backoff.tryWait() : backoff.tryAgain())) return;
    throw new Conflict('a lock of another transaction stays, or others commit each time');
  }

  #mutations(): readonly Mutation[] {
    const writes = [...this.#writes.values()].map(({ key, value }) =>
      value === undefined ? { op: op.del, key } : { op: op.put, key, value },
    );
    // Include keys that were only read: they must not change until the commit applies.
    const read = [...this.#locked.entries()].flatMap(([name, key]) =>
      this.#writes.has(name) ? [] : [{ op: op.lock, key }],
    );
    return [...writes, ...read];
  }

  /** Both phases in one command, where they fit. */
  async #commitAtOnce(
    mutations: readonly Mutation[],
    primary: Uint8Array,
  ): Promise<'committed' | 'prewritten' | 'nothing'> {
    const { pd, sender, budgetMs } = this.#parts;
    // Without a lock at the primary key nothing would refuse a lost command that arrives late.
    if (!this.#locked.has(toHexName(primary))) return 'nothing';
    const backoff = this.#share();
    const keys = mutations.map(({ key }) => key);
    const request = async () => {
      // The store chooses the commit timestamp: after every earlier reader and commit.
      const now = await pd.timestamp();
      const least = (now > this.#forUpdate ? now : this.#forUpdate) + 1n;
      return this.#prewriteRequest(mutations, { primary, count: mutations.length, least });
    };
    for (;;) {
      const sent = await commitAtOnce(sender, { keys, request, backoff });
      if (sent.is === 'apart') return 'nothing';
      if (sent.is === 'refused') await this.#meetAll(sent.errors, backoff);
      else if (sent.is !== 'lost') return sent.is;
      else if (await settle(this.#parts, { primary, start: this.#start, backoff: this.#budget() }))
        return 'committed';
      else if (performance.now() - this.#startedAt < budgetMs) throw new Conflict('the commit was lost');
      else throw new Unreachable('the commit was lost');
    }
  }

  #prewriteRequest(mutations: readonly Mutation[], { primary, count, least }: Prewriting) {
    return {
      mutations,
      primary_lock: primary,
      start_version: toWide(this.#start),
      lock_ttl: toWide(computeTtl(this.#startedAt)),
      txn_size: toWide(BigInt(count)),
      for_update_ts: toWide(this.#forUpdate),
      min_commit_ts: toWide(least),
      pessimistic_actions: mutations.map(({ key }) => (this.#locked.has(toHexName(key)) ? 1 : 0)),
    };
  }

  /** Waits for the locks that a prewrite has met; any other error is a conflict. */
  async #meetAll(errors: readonly KeyError[], backoff: Backoff): Promise<void> {
    const locks = errors.flatMap(({ locked }) => (locked ? [locked] : []));
    const other = errors.find(({ locked }) => !locked);
    if (other !== undefined) throw new Conflict(describe(other));
    if (locks.length > 0) await this.#meet(locks, backoff);
  }

  async #prewrite(mutations: readonly Mutation[], primary: Uint8Array): Promise<void> {
    const backoff = this.#share();
    const byName = new Map(mutations.map((mutation) => [toHexName(mutation.key), mutation]));
    let pending: readonly Uint8Array[] = mutations.map(({ key }) => key);
    while (pending.length > 0) {
      const parts = await this.#parts.sender.many('Prewrite', {
        keys: pending,
        request: (some) =>
          this.#prewriteRequest(
            some.map((key) => byName.get(toHexName(key)) as Mutation),
            { primary, count: mutations.length, least: this.#forUpdate + 1n },
          ),
        backoff,
      });
      const refused = parts.filter(({ answer }) => answer.errors?.length);
      pending = refused.flatMap(({ keys }) => keys);
      await this.#meetAll(
        refused.flatMap(({ answer }) => answer.errors ?? []),
        backoff,
      );
    }
  }

  async #commitPrimary(primary: Uint8Array): Promise<bigint> {
    const backoff = this.#budget();
    for (;;) {
      const commit = await this.#parts.pd.timestamp();
      const request = {
        start_version: toWide(this.#start),
        keys: [primary],
        commit_version: toWide(commit),
      };
      const answer = await this.#parts.sender
        .one('Commit', primary, { request, backoff })
        .catch((cause: unknown) => {
          if (!(cause instanceof Unreachable)) throw cause;
          throw new Undetermined('the commit was sent, and no answer came', { cause });
        });
      if (!answer.error) return commit;
      // A reader has pushed the minimum commit timestamp meanwhile.
      if (!answer.error.commit_ts_expired || !(await backoff.tryWait()))
        throw new Conflict(describe(answer.error));
    }
  }

  /** A reader that meets a lock which is left finds the commit at the primary. */
  async #commitKeys(keys: readonly Uint8Array[], commit: bigint): Promise<void> {
    await this.#parts.sender.many('Commit', {
      keys,
      request: (some) => ({
        start_version: toWide(this.#start),
        keys: some,
        commit_version: toWide(commit),
      }),
      backoff: this.#budget(),
    });
  }
}

const describe = (error: KeyError): string =>
  error.deadlock
    ? 'deadlock'
    : error.conflict
      ? 'write conflict'
      : error.retryable || error.abort || 'the lock is gone';

// The sign of life of a transaction: its primary lock lasts a little longer with each, so that a dead one's runs out.

/** How long a lock is valid after the last heartbeat; then another transaction may roll it back. */
const lockMs = 6_000;
const everyMs = lockMs / 3;
/** The limit for a transaction that is never ended: its locks expire. */
const lifeMsMax = 10 * 60_000;

interface Pulse {
  readonly sender: Sender;
  readonly primary: Uint8Array;
  readonly start: bigint;
  /** By `performance.now()`. */
  readonly startedAt: number;
}

/** For how long a lock that is written now is to last, as stores count it: from the transaction's start. */
const computeTtl = (startedAt: number): bigint => BigInt(Math.ceil(performance.now() - startedAt + lockMs));

class Heartbeat {
  readonly #pulse: Pulse;
  readonly #timer: NodeJS.Timeout;
  #isBeating = false;

  constructor(pulse: Pulse) {
    this.#pulse = pulse;
    this.#timer = setInterval(() => void this.#beat(), everyMs);
    this.#timer.unref?.();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The next beat makes up for a failed one; a lost lock is detected at the commit. */
  async #beat(): Promise<void> {
    const { sender, primary, start, startedAt } = this.#pulse;
    if (performance.now() - startedAt > lifeMsMax) return this.stop();
    if (this.#isBeating) return;
    this.#isBeating = true;
    const request = {
      primary_lock: primary,
      start_version: toWide(start),
      advise_lock_ttl: toWide(computeTtl(startedAt)),
    };
    const answer = await sender
      .one('TxnHeartBeat', primary, { request, backoff: new Backoff(lockMs) })
      .catch(() => undefined);
    this.#isBeating = false;
    if (answer?.error) this.stop();
  }
}

// One-phase commits: where all keys of a transaction are in one region, the command that prewrites them can commit them too. A client
// without an answer must not send it again, in one phase or in two: it may have been executed, and other transactions may have locked
// the keys since. So its outcome is determined first, by the transaction's primary key.

interface OnePhase {
  readonly keys: readonly Uint8Array[];
  /** Called for each attempt, once it is known that the keys are in one region. */
  readonly request: () => Promise<Asked<'Prewrite'>>;
  readonly backoff: Backoff;
}

/**
 * - `committed`: the transaction has applied.
 * - `prewritten`: the store has locked the keys for a commit in two phases.
 * - `refused`: nothing was done; the errors have the reason.
 * - `apart`: nothing was done, because the keys are in several regions.
 * - `lost`: it was sent, and not answered.
 */
type Sent =
  | { readonly is: 'committed' | 'prewritten' | 'apart' | 'lost' }
  | { readonly is: 'refused'; readonly errors: readonly KeyError[] };

async function commitAtOnce(sender: Sender, { keys, request, backoff }: OnePhase): Promise<Sent> {
  for (;;) {
    const region = await sender.regionOfAll(keys, backoff);
    if (region === undefined) return { is: 'apart' };
    // Its timestamp is not drawn under its locks: two that write an unlocked key at one moment could get the same.
    const sent = { request: { ...(await request()), try_one_pc: true }, backoff, checksAll: true };
    const answer = await sender.ask('Prewrite', region, sent);
    if (answer === 'lost') return { is: 'lost' };
    if (answer !== 'moved') {
      if (answer.errors?.length) return { is: 'refused', errors: answer.errors };
      return { is: fromWide(answer.one_pc_commit_ts) > 0n ? 'committed' : 'prewritten' };
    }
    await backoff.wait('no store serves Prewrite');
  }
}

interface Lost {
  readonly primary: Uint8Array;
  readonly start: bigint;
  readonly backoff: Backoff;
}

/**
 * Whether a transaction whose only command was lost has applied. If it has not, it never will: without the lock on its primary key, its
 * command is refused when it arrives.
 * @throws Undetermined when its outcome stays unknown
 */
async function settle(
  { pd, sender }: { readonly pd: PlacementDriver; readonly sender: Sender },
  { primary, start, backoff }: Lost,
): Promise<boolean> {
  try {
    const start_version = toWide(start);
    // Refused where it is committed.
    await sender.one('BatchRollback', primary, { request: { start_version, keys: [primary] }, backoff });
    const status = await sender.one('CheckTxnStatus', primary, {
      request: {
        primary_key: primary,
        lock_ts: start_version,
        caller_start_ts: toWide(0n),
        current_ts: toWide(await pd.timestamp()),
        rollback_if_not_exist: true,
        force_sync_commit: false,
        resolving_pessimistic_lock: false,
      },
      backoff,
    });
    if (fromWide(status.commit_version) > 0n) return true;
    if (!status.error && fromWide(status.lock_ttl) === 0n) return false;
  } catch (cause) {
    if (!(cause instanceof Unreachable)) throw cause;
    throw new Undetermined('the commit was sent, and its outcome is unknown', { cause });
  }
  throw new Undetermined('the commit was sent and its primary key does not tell what became of it');
}
