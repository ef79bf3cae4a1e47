/** `replicator`: sends versions to the peers that replication rules name, and queues those of resyncs, until it loses its lease. */
import type { Context } from '../../context.ts';
import { Lanes } from '../../domain/deliveries/lanes/lanes.ts';
import { type Ctx, replicationQueue } from '../../domain/deliveries/replication/deliver-tasks.ts';
import { stepResyncs } from '../../domain/deliveries/replication/resync.ts';
import { type Unit, unsupervised } from '../supervision/worker.ts';

export type ReplicatorContext = Omit<Ctx, 'peers'> & Pick<Context, 'peers'>;

/** The unit ends only with the signal or a failure: its lanes run side by side, for as long as each of them needs. */
export const replicate =
  ({ peers, ...context }: ReplicatorContext, _generation = 0, services = unsupervised): Unit =>
  async (signal) => {
    // This runtime opens no connections.
    if (peers === undefined) return 'idle';
    const ctx: Ctx = { ...context, peers };
    const lanes = new Lanes(ctx, replicationQueue(ctx));
    try {
      while (!signal.aborted) {
        await lanes.start(signal);
        await services.yieldToClients(signal);
        const isBusy = await stepResyncs(ctx, signal);
        if (!isBusy) await ctx.clock.sleep(ctx.config.SVC_REPLICATION_INTERVAL, signal);
      }
    } finally {
      await lanes.settle();
    }
    return 'idle';
  };
