/** `replicator`: sends versions to the peers that replication rules name, and queues those of resyncs, until it loses its lease. */
import { roleAsker } from '../auth/authorization/replication-role.ts';
import type { Context } from '../context.ts';
import type { Destination } from '../domain/configurations/replication-destination.ts';
import { Lanes } from '../domain/lanes/lanes.ts';
import { type Ctx, replicationQueue } from '../domain/replication/deliver-tasks.ts';
import { Destinations } from '../domain/replication/destinations.ts';
import { countWaiting, listPeers } from '../domain/replication/peers.ts';
import { stepResyncs } from '../domain/replication/resync.ts';
import { abortUploads, listLeftUploads } from '../domain/replication/send-content.ts';
import { IdleRest } from './supervision/idle-rest.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

type ReplicatorContext = Omit<Ctx, 'peers' | 'askRole'> & Pick<Context, 'peers'>;

/** How often what waits is counted for metrics. */
const countedEveryMs = 30_000;

async function showWaiting(ctx: Ctx): Promise<void> {
  ctx.telemetry.peersKnown((await listPeers(ctx)).map(({ id }) => id));
  const now = await ctx.metadata.now();
  const counts = await countWaiting(ctx);
  ctx.telemetry.replicationWaits(
    [...counts].map(([destination, { waiting, bytes, oldest }]) => ({
      ...{ destination, waiting, bytes },
      oldestSeconds: Math.max(0, (now - oldest) / 1000),
    })),
  );
}

/** The unit ends only with the signal or a failure: its lanes run side by side, for as long as each of them needs. */
export const replicate =
  ({ peers, ...context }: ReplicatorContext, generation = 0, services = unsupervised): Unit =>
  async (signal) => {
    // This runtime opens no connections.
    if (peers === undefined) return 'idle';
    const ctx: Ctx = { ...context, peers, askRole: roleAsker(context) };
    const destinations = new Destinations();
    const lanes = new Lanes(ctx, replicationQueue(ctx, destinations), generation);
    // Listed before the first upload of this leader begins.
    const left = await listLeftUploads(ctx);
    const open = (destination: Destination) => destinations.open(ctx, destination);
    const aborting = abortUploads(ctx, left, { open, signal }).catch((cause: unknown) => {
      if (!signal.aborted) ctx.telemetry.log('WARN', 'uploads at peers are left open for now', { cause });
    });
    const idle = services.idle ?? new IdleRest(ctx);
    let countedAt = Number.NEGATIVE_INFINITY;
    let hasChanged: (() => boolean) | undefined;
    try {
      while (!signal.aborted) {
        idle.begin();
        const begunAt = ctx.clock.elapsed();
        if (ctx.clock.elapsed() - countedAt >= countedEveryMs) {
          hasChanged = ctx.metadata.watchCommits?.();
          await showWaiting(ctx);
          await destinations.late.announce(ctx, signal);
          countedAt = ctx.clock.elapsed();
        }
        await lanes.start(signal);
        await services.yieldToClients(signal);
        const isBusy = await stepResyncs(ctx, signal);
        services.roundEnded(ctx.clock.elapsed() - begunAt);
        if (isBusy) continue;
        const countsAt = (await ctx.metadata.now()) + countedAt + countedEveryMs - ctx.clock.elapsed();
        idle.nothingBefore(() => {
          const isCounted = hasChanged?.() === false;
          return Math.min(lanes.nothingBefore(), isCounted ? Number.POSITIVE_INFINITY : countsAt);
        });
        await idle.rest(ctx.config.SVC_REPLICATION_INTERVAL, signal);
      }
    } finally {
      await Promise.all([lanes.settle(), aborting]);
      // Another process may lead now, and shows the same queue.
      ctx.telemetry.replicationWaits([]);
    }
    return 'idle';
  };
