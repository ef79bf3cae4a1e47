/** The workers of this build, by name, and their start beside the gateway. */
import { sweeperName, type WorkerName } from '../config/workers.ts';
import type { Context } from '../context.ts';
import { sweep } from '../domain/storage/sweep.ts';
import { heartbeatMs } from '../metadata/background/heartbeats.ts';
import type { Clock } from '../ports/clock.ts';
import {
  emptyBuckets,
  quotaReconcileEveryMs,
  reconcileQuotas,
  reshardBuckets,
  rollUpUsage,
  sampleBuckets,
  usageRollupEveryMs,
} from './buckets.ts';
import type { ClientLoad } from './client-load.ts';
import { Controls } from './controls.ts';
import { deliverAccessLogs, deliverNotifications, replicate } from './deliveries.ts';
import { compareAll } from './fsck.ts';
import { collectGarbage } from './gc.ts';
import { type DescribeGateway, Heartbeats } from './heartbeats.ts';
import { Pulses } from './idle-rest.ts';
import { writeInventories } from './inventory.ts';
import { carryOutLifecycles } from './lifecycle.ts';
import { rebalance } from './rebalance.ts';
import { boundAllQueues, keepHealthHistory, retainAudit } from './retention.ts';
import { rewrapKeys } from './rewrap.ts';
import { scrubAll } from './scrub.ts';
import { type Shared, supervise } from './supervisor.ts';
import {
  reportingTelemetry,
  ShardRests,
  type Unit,
  unsupervised,
  type Worker,
  type WorkerServices,
} from './worker.ts';

type WorkerContext = Omit<Context, 'bodyMemory' | 'lateWrites'>;

interface Registered {
  readonly leased: boolean;
  /** What its progress counts. */
  readonly counts: string;
  /** Each unit is a short piece of a long walk, which begins when clients leave room. A worker with long units asks for room itself. */
  readonly yieldsToClients?: true;
  interval(context: WorkerContext): number;
  make(context: WorkerContext, generation: number, services: WorkerServices): Unit;
}

/** The delay before an operator's request to empty a bucket is served. */
const forceEmptyMs = 2_000;

/** The delay before an operator's request for more shards is served. */
const reshardMs = 2_000;

/** The delay before an operator's request to wrap keys again is served. */
const rewrapMs = 2_000;

/** The delay before an operator's request for an inventory is served. */
const inventoryMs = 2_000;

const queueRetentionMs = 60_000;

/** How often the worker checks whether an hour of the audit log is to be sealed or removed. */
const auditRetentionMs = 60_000;

/** How often storage is probed for the history of its health. */
const healthHistoryMs = 60_000;

/** The rest after each unit of a pass, which limits the part of the time in which fsck works. */
const fsckRestMs = 1_000;

/** How often the scrub reads as much as its rate allows. */
const scrubRestMs = 1_000;

type Registry<Name extends WorkerName> = Readonly<Record<Name, Registered>>;

/** Workers that copy no object's body, in short steps that take little memory. The Durable Object's bundle has these alone. */
export const lightWorkers = {
  gc: {
    leased: false,
    counts: 'rows',
    interval: ({ config }) => config.SVC_GC_INTERVAL,
    make: collectGarbage,
  },
  'bucket-stats': {
    leased: true,
    counts: 'buckets',
    yieldsToClients: true,
    interval: ({ config }) => config.SVC_BUCKETSTATS_INTERVAL,
    make: sampleBuckets,
  },
  'force-empty': {
    leased: true,
    counts: 'versions',
    interval: () => forceEmptyMs,
    make: emptyBuckets,
  },
  lifecycle: {
    leased: true,
    counts: 'actions',
    interval: ({ config }) => config.SVC_LIFECYCLE_INTERVAL,
    make: carryOutLifecycles,
  },
  'queue-retention': {
    leased: true,
    counts: 'rows',
    interval: () => queueRetentionMs,
    make: boundAllQueues,
  },
  rewrap: {
    leased: true,
    counts: 'keys',
    yieldsToClients: true,
    interval: () => rewrapMs,
    make: rewrapKeys,
  },
  'audit-retention': {
    leased: true,
    counts: 'rows',
    interval: () => auditRetentionMs,
    make: retainAudit,
  },
  'health-history': {
    leased: true,
    counts: 'changes',
    interval: () => healthHistoryMs,
    make: keepHealthHistory,
  },
  'access-log': {
    leased: true,
    counts: 'lines',
    interval: ({ config }) => config.SVC_ACCESSLOG_INTERVAL,
    make: deliverAccessLogs,
  },
  inventory: {
    leased: true,
    counts: 'rows',
    interval: () => inventoryMs,
    make: writeInventories,
  },
  notify: {
    leased: true,
    counts: 'events',
    interval: ({ config }) => config.SVC_NOTIFY_INTERVAL,
    make: deliverNotifications,
  },
  'quota-reconcile': {
    leased: true,
    counts: 'buckets',
    yieldsToClients: true,
    interval: () => quotaReconcileEveryMs,
    make: reconcileQuotas,
  },
  'usage-rollup': {
    leased: true,
    counts: 'pages',
    yieldsToClients: true,
    interval: ({ config }) => usageRollupEveryMs(config),
    make: rollUpUsage,
  },
} satisfies Partial<Registry<WorkerName>>;

export const allWorkers: Registry<WorkerName> = {
  ...lightWorkers,
  fsck: {
    leased: true,
    counts: 'rows',
    yieldsToClients: true,
    interval: () => fsckRestMs,
    make: compareAll,
  },
  rebalance: {
    leased: false,
    counts: 'bytes',
    interval: ({ config }) => config.SVC_REBALANCE_INTERVAL,
    make: rebalance,
  },
  reshard: {
    leased: true,
    counts: 'rounds',
    yieldsToClients: true,
    interval: () => reshardMs,
    make: reshardBuckets,
  },
  scrub: {
    leased: true,
    counts: 'bytes',
    yieldsToClients: true,
    interval: () => scrubRestMs,
    make: scrubAll,
  },
  replicator: {
    leased: true,
    counts: 'versions',
    interval: ({ config }) => config.SVC_REPLICATION_INTERVAL,
    make: replicate,
  },
};

/** The intent sweep is not one of the named workers: it runs in every gateway. */
const buildSweep = (context: WorkerContext): Worker => ({
  name: sweeperName,
  leased: false,
  everyMs: Math.max(1, context.config.SVC_INTENT_TTL / 2),
  start: () => (signal) => sweep(context, signal),
});

export interface RunningWorkers {
  /** Stops them and resolves when the unit that each was busy with has finished. */
  stop(): Promise<void>;
}

export interface WorkerHost {
  /** The name of this process in `GET /admin/v1/workers`, such as `host:pid`. */
  readonly process: string;
  /** Present where the process serves, and is to be listed by `sluice admin status`. */
  readonly gateway?: DescribeGateway;
  /** Absent: background work does not wait for clients. */
  readonly clientLoad?: ClientLoad;
  /** Present where the metadata are on this machine. */
  readonly local?: LocalProcess;
}

/** This process among those of its machine. */
interface LocalProcess extends Pick<Shared, 'hasEnded'> {
  readonly identity: string;
  /** Its place among the processes of its node, from 0. */
  readonly place: number;
  readonly places: number;
}

/** Leases are spread over the processes of a node, by the place of their worker in the list. */
function shareWith(
  { identity, place, places, hasEnded }: LocalProcess,
  { clock, leased }: { readonly clock: Clock; readonly leased: readonly string[] },
): Shared {
  return {
    ttlMs: localTtlMs,
    renewalMs: localRenewalMs,
    pulses: new Pulses(clock),
    process: identity,
    hasEnded,
    isForOther: (worker) => leased.indexOf(worker) % places !== place,
  };
}

interface Started<Name extends WorkerName> {
  readonly registry: Registry<Name>;
  readonly names: readonly Name[];
  readonly signal: AbortSignal;
  readonly host: WorkerHost;
}

/** Starts the named workers, and the sweeper always. They stop with the signal or by `stop`. */
export const startWorkers = (
  context: WorkerContext,
  names: readonly WorkerName[],
  signal: AbortSignal,
  host: WorkerHost = { process: 'embedded' },
): RunningWorkers => startRegistered(context, { registry: allWorkers, names, signal, host });

/** Starts workers of a part of the registry, as `startWorkers` does with all of it. */
export function startRegistered<Name extends WorkerName>(
  context: WorkerContext,
  { registry, names, signal, host: { process, gateway, clientLoad, local } }: Started<Name>,
): RunningWorkers {
  const stopping = new AbortController();
  const ends = AbortSignal.any([signal, stopping.signal]);
  const leased = names.filter((name) => registry[name].leased);
  const shared = local && shareWith(local, { clock: context.clock, leased });
  const heartbeats = new Heartbeats(context, process, { pace: shared, gateway });
  // Only a process that serves has a heartbeat by which other nodes know it.
  const questions = gateway && context.otherNodes?.serve({ node: gateway().node, process }, ends);
  const controls = new Controls(context, {
    workers: [...names, sweeperName],
    signal: ends,
    pulses: shared?.pulses,
  });
  const yieldToClients =
    clientLoad === undefined ? unsupervised.yieldToClients : clientLoad.yieldToClients.bind(clientLoad);
  const named = names.map((name): Worker => {
    const { leased, counts, yieldsToClients, interval, make } = registry[name];
    const watch = heartbeats.watch(name, counts);
    const gate = controls.gate(name);
    const services: WorkerServices = {
      report: watch.report,
      roundEnded: (tookMs) => watch.unitEnded('idle', tookMs),
      yieldToClients,
      runAt: () => gate.runAt,
      shards: new ShardRests(context.clock, () => gate.runAt),
    };
    const telemetry = reportingTelemetry(context.telemetry, watch.report);
    const start: Worker['start'] = (generation, idle) => {
      const unit = make({ ...context, telemetry }, generation, { ...services, idle });
      return yieldsToClients === true
        ? Object.assign(
            (leaseSignal: AbortSignal) => yieldToClients(leaseSignal).then(() => unit(leaseSignal)),
            { end: unit.end },
          )
        : unit;
    };
    return { name, leased, everyMs: interval(context), start, watch, gate };
  });
  const sweeper: Worker = {
    ...buildSweep(context),
    watch: heartbeats.watch(sweeperName, 'ops'),
    gate: controls.gate(sweeperName),
  };
  const running = [...named, sweeper].map((worker) => {
    // A worker that no process leads shows as 0 in metrics.
    context.telemetry.know('worker', worker.name);
    context.telemetry.set('svc_worker_leader', { worker: worker.name }, 0);
    return supervise(context, worker, ends, shared);
  });
  return {
    async stop() {
      stopping.abort();
      await Promise.all(running);
      await controls.ended;
      await Promise.all([questions, heartbeats.stop()]);
    },
  };
}

/**
 * Each commit of an embedded store writes some 28 KiB, however little has changed, so a lease is renewed when a fifth
 * of it, 30 seconds, is left. The leases of a process that was killed are free at once.
 */
const localTtlMs = 150_000;

const localRenewalMs = heartbeatMs.local;
