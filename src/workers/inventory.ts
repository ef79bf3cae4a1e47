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
import { type Ctx, stepInventory } from '../domain/inventory/write-inventory.ts';
import { LeaseLost } from '../metadata/background/leases.ts';
import type { Task, Term } from '../metadata/background/tasks.ts';
import { findBucket } from '../metadata/buckets/buckets.ts';
import { undefinedIfDamaged } from '../metadata/sound-rows.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import { ShardRound, type Unit, unsupervised } from './worker.ts';

export type InventoryContext = Omit<Ctx, 'mayWrite'> & {
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
    const account = await accountOf(metadata, run.state);
    const last = ran.get(account) ?? '';
    const known = chosen.get(account);
    // The first one behind the last, else the first one.
    if (known === undefined || (known.name <= last && run.name > last)) chosen.set(account, run);
  }
  for (const [account, { name }] of chosen) ran.set(account, name);
  return [...chosen.values()];
}

/** The owner of the bucket; the bucket itself where it is gone or cannot be read. */
async function accountOf(metadata: MetadataStore, { bucket, bucketId }: InventoryRun): Promise<string> {
  const found = await findBucket(metadata, bucket).catch(undefinedIfDamaged);
  return found?.row.owner ?? bucketId;
}

/** @param generation of the leader's lease */
export const writeInventories = (
  context: InventoryContext,
  generation = 0,
  services = unsupervised,
): Unit => {
  const { metadata, clock, config } = context;
  const ctx: Ctx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
  let term: Term | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let runAt: number | undefined;
  const ran = new BoundedCache<string>({ name: 'inventory-turns', entriesMax: accountsMax });
  return async (signal) => {
    term ??= await beginInventories(metadata, generation);
    const isAsked = services.runAt() !== runAt;
    runAt = services.runAt();
    if (isAsked || clock.elapsed() - lookedAt >= config.SVC_INVENTORY_INTERVAL) {
      await beginDueInventories(context, signal);
      lookedAt = clock.elapsed();
    }
    let said: 'busy' | 'idle' = 'idle';
    const round = new ShardRound(services, signal);
    const isResting = ({ name }: Task<InventoryRun>): boolean => round.isResting(name);
    for (const task of await chooseRuns(metadata, { isResting, ran })) {
      if (signal.aborted) break;
      said = 'busy';
      const { bucket, inventory } = task.state;
      const pause = async (rows: number): Promise<void> => {
        services.report({ done: rows });
        await services.yieldToClients(signal);
        await clock.sleep(0, signal);
      };
      const step = { term, pause, signal };
      const onFailure = async (cause: unknown): Promise<void> => {
        // A later leader writes the inventories, so this unit ends.
        if (cause instanceof LeaseLost) throw cause;
        await noteTaskError(context, runs, { name: task.name, cause });
      };
      await round.work({ id: task.name, name: `${bucket}/${inventory.Id}`, onFailure }, async () => {
        await stepInventory(ctx, task, step);
      });
    }
    round.end();
    const dueAt = (await metadata.now()) + lookedAt + config.SVC_INVENTORY_INTERVAL - clock.elapsed();
    services.idle?.nothingBefore(Math.min(dueAt, services.shards?.endsAt ?? dueAt));
    return said;
  };
};
