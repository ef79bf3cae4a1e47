/**
 * A pessimistic transaction: it locks what it depends on, reads that as it is now, buffers its writes, and commits all
 * of them or none in two phases; the first key that it locked, its primary, decides which.
 */
import { Backoff } from './backoff.ts';
import { Conflict, Undetermined, Unreachable } from './errors.ts';
import type { Locks } from './locks.ts';
import { type KeyError, type LockInfo, type Mutation, toWide } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import type { Sender } from './sender.ts';

export interface Parts {
  readonly pd: PlacementDriver;
  readonly sender: Sender;
  readonly locks: Locks;
}

const op = { put: 0, del: 1, lock: 2, pessimisticLock: 5 } as const;
/** A lock that was not committed by then may be undone by whoever meets it. */
const lockMs = 20_000;
/** So a transaction of ours does not begin to commit any more when it is that old. */
const ageMsMax = 10_000;
/** How long a store lets a lock wait for its holder before it says who that is. */
const waitMs = 1_000;
const budgetMs = 15_000;

const nameOf = (key: Uint8Array): string =>
  Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');

export class Transaction {
  readonly #parts: Parts;
  readonly #start: bigint;
  readonly #startedAt = performance.now();
  #forUpdate: bigint;
  #primary: Uint8Array | undefined;
  readonly #locked = new Map<string, Uint8Array>();
  readonly #writes = new Map<string, { readonly key: Uint8Array; readonly value: Uint8Array | undefined }>();
  /** What is still to be told to other stores once the commit stands. */
  readonly #background: (work: Promise<unknown>) => void;

  constructor(parts: Parts, start: bigint, background: (work: Promise<unknown>) => void) {
    this.#parts = parts;
    this.#start = start;
    this.#forUpdate = start;
    this.#background = background;
  }

  /** Unique to this transaction, and later than that of every one that committed before it began. */
  get start(): bigint {
    return this.#start;
  }

  /**
   * Locks keys until the transaction ends, and gives their values as they are from now on, in order.
   * @throws Conflict on a deadlock, or when somebody holds one for too long
   */
  async lock(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> {
    const values = new Map<string, Uint8Array | undefined>();
    this.#primary ??= keys[0];
    await this.#lockAll(keys, values);
    return keys.map((key) => values.get(nameOf(key)));
  }

  put(key: Uint8Array, value: Uint8Array): void {
    this.#writes.set(nameOf(key), { key, value });
  }

  /** What this transaction is about to write under a key. */
  written(key: Uint8Array): Uint8Array | undefined {
    return this.#writes.get(nameOf(key))?.value;
  }

  remove(key: Uint8Array): void {
    this.#writes.set(nameOf(key), { key, value: undefined });
  }

  /**
   * All writes happen, or none.
   * @throws Conflict where none did, Undetermined where that is not known
   */
  async commit(): Promise<void> {
    if (this.#writes.size === 0) return this.rollback();
    if (performance.now() - this.#startedAt > ageMsMax) throw new Conflict('the transaction took too long');
    const mutations = this.#mutations();
    const primary = this.#primary ?? (mutations[0] as Mutation).key;
    this.#primary = primary;
    await this.#prewrite(mutations);
    const commit = await this.#commitPrimary(primary);
    const others = mutations.map(({ key }) => key).filter((key) => nameOf(key) !== nameOf(primary));
    if (others.length > 0) this.#background(this.#commitKeys(others, commit));
  }

  /** Lets go of all locks. What cannot be told now runs out by itself. */
  async rollback(): Promise<void> {
    const keys = [...this.#locked.values()];
    this.#locked.clear();
    if (keys.length === 0) return;
    await this.#parts.sender.many('PessimisticRollback', keys, (some) => ({
      start_version: toWide(this.#start),
      for_update_ts: toWide(this.#forUpdate),
      keys: some,
    }));
  }

  /** Undoes what a failed commit has prewritten. */
  async undo(): Promise<void> {
    const keys = this.#mutations().map(({ key }) => key);
    this.#locked.clear();
    await this.#parts.sender.many('BatchRollback', keys, (some) => ({
      start_version: toWide(this.#start),
      keys: some,
    }));
  }

  async #lockAll(keys: readonly Uint8Array[], values: Map<string, Uint8Array | undefined>): Promise<void> {
    const backoff = new Backoff(budgetMs);
    let pending = keys;
    while (pending.length > 0) {
      const parts = await this.#parts.sender.many('PessimisticLock', pending, (some) => ({
        mutations: some.map((key) => ({ op: op.pessimisticLock, key })),
        primary_lock: this.#primary as Uint8Array,
        start_version: toWide(this.#start),
        lock_ttl: toWide(BigInt(lockMs)),
        for_update_ts: toWide(this.#forUpdate),
        wait_timeout: toWide(BigInt(waitMs)),
        return_values: true,
      }));
      const failed: Uint8Array[] = [];
      const errors: KeyError[] = [];
      for (const { keys: some, answer } of parts) {
        if (answer.errors?.length) {
          failed.push(...some);
          errors.push(...answer.errors);
          continue;
        }
        some.forEach((key, i) => {
          const value = answer.values?.[i];
          this.#locked.set(nameOf(key), key);
          values.set(nameOf(key), answer.not_founds?.[i] || !value?.length ? undefined : value);
        });
      }
      pending = failed;
      if (errors.length > 0) await this.#learn(errors, backoff);
    }
  }

  /** Why locks were refused: a newer commit asks for a newer look, another lock for patience. */
  async #learn(errors: readonly KeyError[], backoff: Backoff): Promise<void> {
    const locks: LockInfo[] = [];
    let isStale = false;
    for (const error of errors) {
      if (error.locked) locks.push(error.locked);
      else if (error.conflict) isStale = true;
      else throw new Conflict(describe(error));
    }
    if (isStale) this.#forUpdate = await this.#parts.pd.timestamp();
    if (locks.length > 0 && (await this.#parts.locks.resolve(locks, this.#start)))
      await patience(backoff, 'a lock of another transaction stays');
  }

  #mutations(): readonly Mutation[] {
    const writes = [...this.#writes.values()].map(({ key, value }) =>
      value === undefined ? { op: op.del, key } : { op: op.put, key, value },
    );
    // What was only read counts too: it must not have changed until the commit stands.
    const read = [...this.#locked.entries()].flatMap(([name, key]) =>
      this.#writes.has(name) ? [] : [{ op: op.lock, key }],
    );
    return [...writes, ...read];
  }

  async #prewrite(mutations: readonly Mutation[]): Promise<void> {
    const backoff = new Backoff(budgetMs);
    const byName = new Map(mutations.map((mutation) => [nameOf(mutation.key), mutation]));
    let pending: readonly Uint8Array[] = mutations.map(({ key }) => key);
    while (pending.length > 0) {
      const parts = await this.#parts.sender.many('Prewrite', pending, (some) => {
        const isLocked = some.map((key) => this.#locked.has(nameOf(key)));
        return {
          mutations: some.map((key) => byName.get(nameOf(key)) as Mutation),
          primary_lock: this.#primary as Uint8Array,
          start_version: toWide(this.#start),
          lock_ttl: toWide(BigInt(lockMs)),
          txn_size: toWide(BigInt(this.#writes.size)),
          for_update_ts: toWide(this.#forUpdate),
          // TiKV up to 6.2 reads the first of these, from then on the second.
          is_pessimistic_lock: isLocked,
          pessimistic_actions: isLocked.map((locked) => (locked ? 1 : 0)),
        };
      });
      const refused = parts.filter(({ answer }) => answer.errors?.length);
      pending = refused.flatMap(({ keys }) => keys);
      const errors = refused.flatMap(({ answer }) => answer.errors ?? []);
      const locks = errors.flatMap(({ locked }) => (locked ? [locked] : []));
      const other = errors.find(({ locked }) => !locked);
      if (other !== undefined) throw new Conflict(describe(other));
      if (locks.length > 0 && (await this.#parts.locks.resolve(locks, this.#start)))
        await patience(backoff, 'a lock of another transaction stays');
    }
  }

  async #commitPrimary(primary: Uint8Array): Promise<bigint> {
    for (;;) {
      const commit = await this.#parts.pd.timestamp();
      const answer = await this.#parts.sender
        .one('Commit', primary, {
          start_version: toWide(this.#start),
          keys: [primary],
          commit_version: toWide(commit),
        })
        .catch((cause: unknown) => {
          if (!(cause instanceof Unreachable)) throw cause;
          throw new Undetermined('the commit was sent and nobody answered', { cause });
        });
      if (!answer.error) return commit;
      if (!answer.error.commit_ts_expired) throw new Conflict(describe(answer.error));
    }
  }

  /** A reader that meets a lock which is left finds the commit at the primary. */
  async #commitKeys(keys: readonly Uint8Array[], commit: bigint): Promise<void> {
    await this.#parts.sender.many('Commit', keys, (some) => ({
      start_version: toWide(this.#start),
      keys: some,
      commit_version: toWide(commit),
    }));
  }
}

async function patience(backoff: Backoff, why: string): Promise<void> {
  await backoff.wait(why).catch((cause: unknown) => {
    throw new Conflict(why, { cause });
  });
}

const describe = (error: KeyError): string =>
  error.deadlock
    ? 'deadlock'
    : error.conflict
      ? 'write conflict'
      : (error.retryable ?? error.abort ?? 'the lock is gone');
