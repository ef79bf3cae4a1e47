/** `replicator`, `notify` and `access-log`: the workers that deliver what is queued. */
import { roleAsker } from '../auth/replication-role.ts';
import { mayServiceWrite } from '../auth/service-write.ts';
import type { Context } from '../context.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { openTurns } from '../domain/common/turns.ts';
import { type Destination, peerOfTarget } from '../domain/configurations/replication-destination.ts';
import { type AccessLogCtx, deliverLogs } from '../domain/deliveries/access-log-delivery.ts';
import { RefusedLogs } from '../domain/deliveries/refused-logs.ts';
import { type NotifyCtx, notifyQueue } from '../domain/event-deliveries/deliver-rows.ts';
import { DeliveryRates } from '../domain/event-deliveries/rates.ts';
import { Lanes } from '../domain/lanes/lanes.ts';
import { type ReplicationCtx, replicationQueue } from '../domain/replication/deliver-tasks.ts';
import { Destinations } from '../domain/replication/destinations.ts';
import { countWaiting, listPeers } from '../domain/replication/peers.ts';
import { everyResync, resyncs, stepResync } from '../domain/replication/resync.ts';
import { abortUploads, listLeftUploads } from '../domain/replication/send-content.ts';
import { beginLogs } from '../metadata/background/log-batches.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { IdleRest } from './idle-rest.ts';
import {
  inSteps,
  stepTasks,
  type TaskRound,
  type Turn,
  type Unit,
  unsupervised,
  type WorkerServices,
} from './worker.ts';

type ReplicatorContext = Omit<ReplicationCtx, 'peers' | 'askRole'> & Pick<Context, 'peers'>;

/** How often what waits is counted for metrics. */
const countedEveryMs = 30_000;

/** What waits for all destinations of a peer. */
interface PeerBacklog {
  readonly peer: string;
  readonly waiting: number;
  readonly bytes: number;
  readonly oldestSeconds: number;
}

/** By peer, because tenants choose the buckets of destinations: each would be a label of its own. */
async function measureWaiting(ctx: ReplicationCtx): Promise<readonly PeerBacklog[]> {
  for (const { id } of await listPeers(ctx)) ctx.telemetry.know('peer', id);
  const now = await ctx.metadata.now();
  const byPeer = Map.groupBy(await countWaiting(ctx), ([destination]) => peerOfTarget(destination));
  return [...byPeer].map(([peer, counts]) => {
    const sum = { waiting: 0, bytes: 0, oldest: now };
    for (const [, { waiting, bytes, oldest }] of counts) {
      sum.waiting += waiting;
      sum.bytes += bytes;
      sum.oldest = Math.min(sum.oldest, oldest);
    }
    const { waiting, bytes, oldest } = sum;
    return { peer, waiting, bytes, oldestSeconds: (now - oldest) / 1000 };
  });
}

function showWaiting(
  { telemetry }: ReplicationCtx,
  backlogs: readonly PeerBacklog[],
  report: WorkerServices['report'],
): void {
  telemetry.replace(
    'svc_replication_pending_versions',
    backlogs.map(({ peer, waiting }) => [{ peer }, waiting]),
  );
  telemetry.replace(
    'svc_replication_pending_bytes',
    backlogs.map(({ peer, bytes }) => [{ peer }, bytes]),
  );
  telemetry.replace(
    'svc_replication_oldest_pending_seconds',
    backlogs.map(({ peer, oldestSeconds }) => [{ peer }, oldestSeconds]),
  );
  report({
    left: backlogs.reduce((sum, { waiting }) => sum + waiting, 0),
    oldestSeconds: Math.max(0, ...backlogs.map(({ oldestSeconds }) => oldestSeconds)),
  });
}

interface ResyncRound extends TaskRound {
  /** Whether there is more to queue. */
  readonly isBusy: boolean;
}

/** A page of each of the next resyncs. One that fails rests: it stops neither the others nor the lanes. */
async function stepResyncs(
  ctx: ReplicationCtx,
  turn: Pick<Turn, 'signal' | 'shards'>,
  former: ResyncRound | undefined,
): Promise<ResyncRound> {
  let isBusy = former?.after !== undefined && former.isBusy;
  const rest = openTurns(ctx.clock, { signal: turn.signal });
  const round = await stepTasks(ctx, {
    turn,
    former,
    tasks: (range) => everyResync(ctx, range),
    nameOf: ({ bucket }) => bucket,
    async onFailure({ name, state: { bucket } }, cause) {
      ctx.telemetry.log('ERROR', 'a resync failed; it is tried again', { bucket, cause });
      await noteTaskError(ctx, resyncs, { name, cause });
    },
    async step(task) {
      isBusy = (await stepResync(ctx, task, rest)) || isBusy;
    },
  });
  return { ...round, isBusy };
}

/**
 * `replicator`: sends versions to the peers that replication rules name, and queues those of resyncs, until it loses its lease. The unit
 * ends only with the signal or a failure: its lanes run side by side, for as long as each of them needs.
 */
export const replicate =
  ({ peers, ...context }: ReplicatorContext, generation = 0, services = unsupervised): Unit =>
  async (signal) => {
    // This runtime opens no connections.
    if (peers === undefined) return 'idle';
    const ctx: ReplicationCtx = { ...context, peers, askRole: roleAsker(context) };
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
    let round: ResyncRound | undefined;
    try {
      while (!signal.aborted) {
        // A resync that is begun behind the place of a round is met by the next one: it must not be missed in the rest between them.
        if (round?.after === undefined) idle.begin();
        const begunAt = ctx.clock.elapsed();
        if (ctx.clock.elapsed() - countedAt >= countedEveryMs) {
          hasChanged = ctx.metadata.watchCommits?.();
          showWaiting(ctx, await measureWaiting(ctx), services.report);
          await destinations.late.announce(ctx, signal);
          countedAt = ctx.clock.elapsed();
        }
        await lanes.start(signal);
        await services.yieldToClients(signal);
        round = await stepResyncs(ctx, { ...services, signal }, round);
        services.roundEnded(ctx.clock.elapsed() - begunAt);
        if (round.after !== undefined || round.isBusy) continue;
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
      showWaiting(ctx, [], services.report);
    }
    return 'idle';
  };

/** `notify`: delivers the events of buckets to the targets of SVC_NOTIFY_TARGETS, until it loses its lease, as `replicate` does. */
export const deliverNotifications =
  (context: NotifyCtx, generation = 0, services = unsupervised): Unit =>
  async (signal) => {
    const rates = new DeliveryRates(context);
    const lanes = new Lanes(context, notifyQueue({ ...context, telemetry: rates.telemetry }), generation);
    const idle = services.idle ?? new IdleRest(context);
    try {
      while (!signal.aborted) {
        idle.begin();
        const begunAt = context.clock.elapsed();
        await lanes.start(signal);
        await rates.store();
        services.roundEnded(context.clock.elapsed() - begunAt);
        idle.nothingBefore(() => (rates.isStored ? lanes.nothingBefore() : Number.NEGATIVE_INFINITY));
        await idle.rest(context.config.SVC_NOTIFY_INTERVAL, signal);
      }
    } finally {
      await lanes.settle();
    }
    return 'idle';
  };

type AccessLogContext = Omit<AccessLogCtx, 'mayWrite'>;

interface LogLeader {
  readonly term: Term;
  readonly refused: RefusedLogs;
  readonly fenced: Set<string>;
}

/** `access-log`: writes the queued lines of access logs into the target buckets, one pass each time. */
export const deliverAccessLogs = inSteps<AccessLogContext, LogLeader>({
  begin: async ({ metadata }, generation) => ({
    term: await beginLogs(metadata, generation),
    refused: new RefusedLogs(),
    fenced: new Set(),
  }),
  async step(context, leader, { signal, yieldToClients }) {
    const ctx: AccessLogCtx = { ...context, mayWrite: (question) => mayServiceWrite(context, question) };
    const pause = async (): Promise<void> => {
      await yieldToClients(signal);
      // Reads of an embedded store never wait, so without this pause no request of this process would be served.
      await context.clock.sleep(0, signal);
    };
    const isCut = await deliverLogs(ctx, { ...leader, signal, pause });
    return { is: isCut ? 'busy' : 'idle' };
  },
});
