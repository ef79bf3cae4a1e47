/** `inventory`: begins the inventories that are due, and writes a data file of each that is under way in turn. */
import { mayServiceWrite } from '../auth/service-write.ts';
import { BoundedCache } from '../base/bounded-cache.ts';
import type { Config } from '../config.ts';
import { findBucketAccount } from '../domain/common/buckets.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { openTurns } from '../domain/common/turns.ts';
import {
  beginDueInventories,
  beginInventories,
  everyRun,
  type InventoryRun,
  runs,
} from '../domain/inventory/runs.ts';
import { type InventoryCtx, stepInventory } from '../domain/inventory/write-inventory.ts';
import { LeaseLost } from '../metadata/background/leases.ts';
import { findTask, type Task, type Term } from '../metadata/background/tasks.ts';
import { undefinedIfDamaged } from '../metadata/sound-rows.ts';
import { inSteps, pauseForClients, ShardRound } from './worker.ts';

type InventoryContext = Omit<InventoryCtx, 'mayWrite'> & {
  readonly config: Pick<Config, 'SVC_INVENTORY_INTERVAL'>;
};

/** Accounts whose last run is remembered; another one begins with its first run again. */
const accountsMax = 10_000;
/** Runs of an account that are remembered between two reads of all runs. */
const runsOfAccountMax = 16;
/** All runs are read again after this time, and reading takes at most this share of the time: others may have begun some. */
const readEveryMs = 10_000;
const readShareMax = 1 / 10;

/**
 * One run of each account at a time, so that an account with many inventories delays no other. Those of an account take turns. The
 * names are remembered, so that a step reads only the runs that it works on.
 */
class RunTurns {
  /** Names by account, the next one first. */
  readonly #names = new Map<string, readonly string[]>();
  /** The names of the runs that were chosen last, by account. */
  readonly #last = new BoundedCache<string>({ name: 'inventory-turns', entriesMax: accountsMax });
  /** In elapsed time. */
  #readAgainAt = Number.NEGATIVE_INFINITY;

  isStale({ clock }: Pick<InventoryContext, 'clock'>): boolean {
    return this.#names.size === 0 || clock.elapsed() >= this.#readAgainAt;
  }

  /** @param isResting left out, so that they take no place of the others */
  async read(
    { metadata, clock }: Pick<InventoryContext, 'metadata' | 'clock'>,
    { isResting, signal }: { readonly isResting: (name: string) => boolean; readonly signal: AbortSignal },
  ): Promise<void> {
    const since = clock.elapsed();
    const rest = openTurns(clock, { signal });
    /** Runs whose names sort up to the one that was chosen last. They have their turn after the runs behind it. */
    const ahead = new Map<string, readonly string[]>();
    this.#names.clear();
    let bucketId = '';
    let account = '';
    for await (const { name, state } of everyRun(metadata)) {
      await rest();
      if (isResting(name)) continue;
      if (state.bucketId !== bucketId) account = await findBucketAccount({ metadata }, state);
      bucketId = state.bucketId;
      const list = name > (this.#last.get(account) ?? '') ? this.#names : ahead;
      const names = list.get(account) ?? [];
      if (names.length < runsOfAccountMax) list.set(account, [...names, name]);
    }
    for (const [owner, names] of ahead)
      this.#names.set(owner, [...(this.#names.get(owner) ?? []), ...names].slice(0, runsOfAccountMax));
    const now = clock.elapsed();
    this.#readAgainAt = now + Math.max(readEveryMs, (now - since) / readShareMax);
  }

  /** The next run of each account, of those that do not rest. */
  async *next(
    { metadata }: Pick<InventoryContext, 'metadata'>,
    isResting: (name: string) => boolean,
  ): AsyncGenerator<Task<InventoryRun>> {
    for (const [account, names] of this.#names) {
      const { task, others } = await findFirst(metadata, names, isResting);
      const next = task === undefined ? others : [...others, task.name];
      if (next.length === 0) this.#names.delete(account);
      else this.#names.set(account, next);
      if (task === undefined) continue;
      this.#last.set(account, task.name);
      yield task;
    }
  }
}

/** @returns the first run that does not rest and has not ended, and the names of the others; those that have ended are left out */
async function findFirst(
  metadata: InventoryContext['metadata'],
  names: readonly string[],
  isResting: (name: string) => boolean,
): Promise<{ readonly task: Task<InventoryRun> | undefined; readonly others: readonly string[] }> {
  const resting: string[] = [];
  for (const [at, name] of names.entries()) {
    if (isResting(name)) {
      resting.push(name);
      continue;
    }
    const task = await findTask(metadata, runs, name).catch(undefinedIfDamaged);
    if (task !== undefined) return { task, others: [...resting, ...names.slice(at + 1)] };
  }
  return { task: undefined, others: resting };
}

interface Saved {
  readonly term: Term;
  /** When the inventories that are due were last begun (the clock's elapsed time), and for which request of an operator. */
  readonly begunAt: number;
  readonly runAt: number | undefined;
  readonly turns: RunTurns;
  readonly fenced: Set<string>;
}

export const writeInventories = inSteps<InventoryContext, Saved>({
  begin: async ({ metadata }, generation) => ({
    term: await beginInventories(metadata, generation),
    begunAt: Number.NEGATIVE_INFINITY,
    runAt: undefined,
    turns: new RunTurns(),
    fenced: new Set(),
  }),
  async step(context, former, turn) {
    const { metadata, clock, config } = context;
    const { signal, report } = turn;
    const { term, turns, fenced } = former;
    const ctx: InventoryCtx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
    const runAt = turn.runAt();
    const isDue = runAt !== former.runAt || clock.elapsed() - former.begunAt >= config.SVC_INVENTORY_INTERVAL;
    if (isDue) await beginDueInventories(context, { term, signal });
    const begunAt = isDue ? clock.elapsed() : former.begunAt;
    const round = new ShardRound(turn, signal);
    const pause = async (rows: number): Promise<void> => {
      report({ done: rows });
      await pauseForClients(context, turn);
    };
    const isResting = (name: string): boolean => round.isResting(name);
    const each = () =>
      round.each(turns.next(context, isResting), {
        nameOf: ({ bucket, inventory }) => `${bucket}/${inventory.Id}`,
        async onFailure({ name }, cause) {
          // A later leader writes the inventories, so this unit ends.
          if (cause instanceof LeaseLost) throw cause;
          await noteTaskError(context, runs, { name, cause });
        },
        async step(task) {
          await stepInventory(ctx, task, { term, fenced, pause, signal });
        },
      });
    const isRead = isDue || turns.isStale(context);
    if (isRead) await turns.read(context, { isResting, signal });
    let hasWorked = await each();
    // Another process may have begun a run since all were read.
    if (!hasWorked && !isRead) {
      await turns.read(context, { isResting, signal });
      hasWorked = await each();
    }
    round.end();
    const dueAt = (await metadata.now()) + begunAt + config.SVC_INVENTORY_INTERVAL - clock.elapsed();
    return {
      is: hasWorked ? 'busy' : 'idle',
      saved: { ...former, begunAt, runAt },
      nothingBefore: Math.min(dueAt, turn.shards?.endsAt ?? dueAt),
    };
  },
});
