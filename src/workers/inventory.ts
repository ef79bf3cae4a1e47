/** `inventory`: begins the inventories that are due, and writes a data file of each that is under way in turn. */
import { mayServiceWrite } from '../auth/authorization/replication-role.ts';
import type { Config } from '../config.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import {
  beginDueInventories,
  beginInventories,
  everyRun,
  runs,
} from '../domain/deliveries/inventory/runs.ts';
import { type Ctx, stepInventory } from '../domain/deliveries/inventory/write-inventory.ts';
import { LeaseLost } from '../metadata/background/leases.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { ShardPanic, type Unit, unsupervised } from './supervision/worker.ts';

export type InventoryContext = Omit<Ctx, 'mayWrite'> & {
  readonly config: Pick<Config, 'SVC_INVENTORY_INTERVAL'>;
};

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
  return async (signal) => {
    term ??= await beginInventories(metadata, generation);
    const isAsked = services.runAt() !== runAt;
    runAt = services.runAt();
    if (isAsked || clock.elapsed() - lookedAt >= config.SVC_INVENTORY_INTERVAL) {
      await beginDueInventories(context, signal);
      lookedAt = clock.elapsed();
    }
    let said: 'busy' | 'idle' = 'idle';
    let panic: ShardPanic | undefined;
    for await (const task of everyRun(metadata)) {
      if (signal.aborted) break;
      if (services.shards?.isResting(task.name)) continue;
      said = 'busy';
      try {
        const pause = async (rows: number): Promise<void> => {
          services.report({ done: rows });
          await services.yieldToClients(signal);
          await clock.sleep(0, signal);
        };
        await stepInventory(ctx, task, { term, pause, signal });
        services.shards?.succeeded(task.name);
      } catch (cause) {
        if (signal.aborted || cause instanceof LeaseLost) throw cause;
        // The other inventories continue; the supervisor gets the error at the end.
        services.shards?.failed(task.name);
        await noteTaskError(context, runs, { name: task.name, cause });
        panic ??= new ShardPanic(`${task.state.bucket}/${task.state.inventory.Id}`, cause);
      }
    }
    if (panic !== undefined) throw panic;
    const dueAt = (await metadata.now()) + lookedAt + config.SVC_INVENTORY_INTERVAL - clock.elapsed();
    services.idle?.nothingBefore(Math.min(dueAt, services.shards?.endsAt ?? dueAt));
    return said;
  };
};
