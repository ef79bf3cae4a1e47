/** `inventory`: begins the inventories that are due, and writes a data file of each that is under way in turn. */
import { mayServiceWrite } from '../auth/replication-role.ts';
import { BoundedCache } from '../base/bounded-cache.ts';
import type { Config } from '../config.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import {
  beginDueInventories,
  beginInventories,
  everyRun,
  type InventoryRun,
  runs,
} from '../domain/inventory/runs.ts';
import { type InventoryCtx, stepInventory } from '../domain/inventory/write-inventory.ts';
import { LeaseLost } from '../metadata/background/leases.ts';
import type { Task, Term } from '../metadata/background/tasks.ts';
import { findBucket } from '../metadata/buckets/buckets.ts';
import { undefinedIfDamaged } from '../metadata/sound-rows.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import { inSteps, ShardRound } from './worker.ts';

export type InventoryContext = Omit<InventoryCtx, 'mayWrite'> & {
  readonly config: Pick<Config, 'SVC_INVENTORY_INTERVAL'>;
};

/** Accounts whose last run is remembered; another one begins with its first run again. */
const accountsMax = 10_000;

/**
 * One run of each account, so that an account with many inventories delays no other. Those of an account take turns.
 * @param ran the names of the runs that were chosen last, by account
 */
async function chooseRuns(
  metadata: MetadataStore,
  {
    isResting,
    ran,
  }: {
    readonly isResting: (run: Task<InventoryRun>) => boolean;
    readonly ran: BoundedCache<string>;
  },
): Promise<readonly Task<InventoryRun>[]> {
  const chosen = new Map<string, Task<InventoryRun>>();
  for await (const run of everyRun(metadata)) {
    if (isResting(run)) continue;
    const account = await findAccount(metadata, run.state);
    const last = ran.get(account) ?? '';
    const known = chosen.get(account);
    // The first one behind the last, else the first one.
    if (known === undefined || (known.name <= last && run.name > last)) chosen.set(account, run);
  }
  for (const [account, { name }] of chosen) ran.set(account, name);
  return [...chosen.values()];
}

/** The owner of the bucket; the bucket itself where it is gone or cannot be read. */
async function findAccount(metadata: MetadataStore, { bucket, bucketId }: InventoryRun): Promise<string> {
  const found = await findBucket(metadata, bucket).catch(undefinedIfDamaged);
  return found?.row.owner ?? bucketId;
}

interface Looks {
  readonly term: Term;
  /** When the inventories that are due were last begun (the clock's elapsed time), and for which request of an operator. */
  readonly lookedAt: number;
  readonly runAt: number | undefined;
  readonly ran: BoundedCache<string>;
}

export const writeInventories = inSteps<InventoryContext, Looks>({
  begin: async ({ metadata }, generation) => ({
    term: await beginInventories(metadata, generation),
    lookedAt: Number.NEGATIVE_INFINITY,
    runAt: undefined,
    ran: new BoundedCache<string>({ name: 'inventory-turns', entriesMax: accountsMax }),
  }),
  async step(context, former, turn) {
    const { metadata, clock, config } = context;
    const { signal, report, yieldToClients } = turn;
    const { term, ran } = former;
    const ctx: InventoryCtx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
    const runAt = turn.runAt();
    const isDue = clock.elapsed() - former.lookedAt >= config.SVC_INVENTORY_INTERVAL;
    const looks = runAt !== former.runAt || isDue;
    if (looks) await beginDueInventories(context, signal);
    const lookedAt = looks ? clock.elapsed() : former.lookedAt;
    const round = new ShardRound(turn, signal);
    const isResting = ({ name }: Task<InventoryRun>): boolean => round.isResting(name);
    const pause = async (rows: number): Promise<void> => {
      report({ done: rows });
      await yieldToClients(signal);
      await clock.sleep(0, signal);
    };
    const hasWorked = await round.each(await chooseRuns(metadata, { isResting, ran }), {
      nameOf: ({ bucket, inventory }) => `${bucket}/${inventory.Id}`,
      async onFailure({ name }, cause) {
        // A later leader writes the inventories, so this unit ends.
        if (cause instanceof LeaseLost) throw cause;
        await noteTaskError(context, runs, { name, cause });
      },
      async step(task) {
        await stepInventory(ctx, task, { term, pause, signal });
      },
    });
    round.end();
    const dueAt = (await metadata.now()) + lookedAt + config.SVC_INVENTORY_INTERVAL - clock.elapsed();
    return {
      is: hasWorked ? 'busy' : 'idle',
      saved: { term, lookedAt, runAt, ran },
      nothingBefore: Math.min(dueAt, turn.shards?.endsAt ?? dueAt),
    };
  },
});
