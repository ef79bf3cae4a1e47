/** Carries out the tasks of the queue `replication`, in order for each key, and stores the replication status of their versions. */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Config } from '../../../config.ts';
import type { Context } from '../../../context.ts';
import { finishHourlyRows } from '../../../metadata/background/hourly-consumer.ts';
import { findHead, findVersion } from '../../../metadata/objects/objects.ts';
import type { HourlyRow } from '../../../metadata/records/queues.ts';
import { findSite } from '../../../metadata/site.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import type { PeerRequests } from '../../../ports/peer-requests.ts';
import type { Attributes } from '../../../ports/trace.ts';
import { openObjectKey } from '../../content/encryption/object-key.ts';
import { traceDelivery } from '../delivery-trace.ts';
import type { LaneQueue, Pass } from '../lanes/lanes.ts';
import { PausedKeys } from '../lanes/paused-keys.ts';
import { destinationOf, nameDestination, taskOf } from './destination.ts';
import { Destinations } from './destinations.ts';
import { DestinationAway, explainFailure, Unreplicable } from './explain-failure.ts';
import { sendRemoval, sendReplica, toDocument } from './send-replica.ts';
import { type ServiceShipment, sendToService } from './send-to-service.ts';
import { complete, giveUp } from './store-status.ts';

export type Ctx = Pick<
  Context,
  'caches' | 'metadata' | 'bytes' | 'clock' | 'random' | 'hasher' | 'cipher' | 'sealer' | 'keys' | 'telemetry'
> &
  Pick<Context, 'tracer'> & {
    readonly peers: PeerRequests;
    readonly config: Context['config'] & Pick<Config, 'SVC_REPLICATION_RETRY_MAX'>;
  };

const batchMax = 64;
/** Keys of a slot that are sent at a time. */
const keysMax = 4;
/** Keys whose later rows wait for an earlier one, for each slot. Beyond these, rows are sent out of order, which gateways bear. */
const stuckMax = 1_000;

/** Larger contents take one of a few turns. */
const largeMin = 1024 * 1024;

export const replicationQueue = (ctx: Ctx): LaneQueue => {
  const destinations = new Destinations();
  const paused = new PausedKeys(ctx);
  return {
    queue: 'replication',
    batchMax,
    targets: [],
    targetOf: (row) => nameDestination(destinationOf(row)),
    deliver: (rows, pass) => deliverRows(ctx, { rows, pass, destinations, paused }),
  };
};

interface Delivery {
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
  readonly destinations: Destinations;
  readonly paused: PausedKeys;
}

/** What the tasks of a key at a destination wait for one another by. */
const orderOf = (row: HourlyRow, target: string): string =>
  `${target}/${taskOf(row).bucketId}/${taskOf(row).key}`;

async function deliverRows(ctx: Ctx, { rows, pass, destinations, paused }: Delivery): Promise<number> {
  let done = 0;
  const byTarget = Map.groupBy(rows, (row) => nameDestination(destinationOf(row)));
  for (const [target, group] of byTarget) {
    const keys = Map.groupBy(group, (row) => orderOf(row, target));
    const ready = [...keys].filter(([key]) => !pass.stuck.has(key) && !paused.isPaused(key));
    await inParallel(keysMax, ready, async ([key, ofKey]) => {
      for (const row of ofKey) {
        pass.signal.throwIfAborted();
        if (!(await carryOut(ctx, { row, target, pass, destinations, paused }))) {
          if (pass.stuck.size < stuckMax) pass.stuck.add(key);
          return;
        }
        paused.forget(key);
        done += 1;
      }
    });
  }
  return done;
}

interface Step {
  readonly row: HourlyRow;
  readonly target: string;
  readonly pass: Pass;
  readonly destinations: Destinations;
  readonly paused: PausedKeys;
}

/** By the conventions of messaging: a task of our own queue is processed. What is sent to the peer has spans of its own. */
const describeTask = (bucketName: string, key: string): Attributes => ({
  'messaging.system': 'sluice',
  'messaging.operation.type': 'process',
  'messaging.operation.name': 'process',
  'messaging.destination.name': 'replication',
  'aws.s3.bucket': bucketName,
  'aws.s3.key': key,
});

const faults = {
  source: 'a version cannot be read for its replication; it is tried again',
  version: 'a replication destination refuses a version; it is tried again',
} as const;

/** @returns whether the row is done; otherwise it stays in the queue, and those of its key behind it */
async function carryOut(ctx: Ctx, step: Step): Promise<boolean> {
  const { row, target, pass } = step;
  const { states } = pass;
  const isOverdue = row.due + ctx.config.SVC_REPLICATION_RETRY_MAX <= pass.now;
  if (states.isResting(target)) {
    if (!isOverdue || !states.failsSteadily(target)) return false;
    await giveUp(ctx, row, { error: states.get(target).error, why: 'overdue' });
    return true;
  }
  try {
    const { bucket: bucketName, key } = taskOf(row);
    const about = { rows: [row], about: target, bucketName, key };
    const { bytes, isFinished } = await traceDelivery(
      ctx,
      'replicator',
      { ...about, kind: 'consumer', describe: () => describeTask(bucketName, key) },
      (view) => replicate(view, step),
    );
    states.succeeded(target);
    if (!isFinished) await finishHourlyRows(ctx.metadata, [row]);
    if (bytes !== undefined)
      ctx.telemetry.replicated(destinationOf(row).peer, {
        bytes,
        lagSeconds: ((await ctx.metadata.now()) - row.due) / 1000,
      });
    return true;
  } catch (cause) {
    pass.signal.throwIfAborted();
    const { message, why, isFinal = false, faultOf } = explainFailure(cause);
    if (!isFinal && faultOf === undefined) states.failed(target, message);
    if (isFinal || (isOverdue && (faultOf !== undefined || states.failsSteadily(target)))) {
      await giveUp(ctx, row, { error: message, why });
      return true;
    }
    ctx.telemetry.replicationFailed(destinationOf(row).peer, why);
    if (faultOf !== undefined) {
      const { bucket, key, version } = taskOf(row);
      if (faultOf === 'version' && !step.paused.pause(orderOf(row, target))) states.failed(target, message);
      ctx.telemetry.log('WARN', faults[faultOf], {
        bucket,
        key,
        version,
        destination: target,
        error: message,
      });
      return false;
    }
    ctx.telemetry.log('WARN', 'a replication destination takes no versions; they stay queued', {
      destination: target,
      error: message,
      failures: states.get(target).failures,
    });
    return false;
  }
}

interface Replicated {
  /** The bytes that were sent; absent where there was nothing to do. */
  readonly bytes?: number;
  /** The row of the queue was removed in the commit of the status. */
  readonly isFinished: boolean;
}
const nothingDone: Replicated = { isFinished: false };

async function replicate(ctx: Ctx, step: Step): Promise<Replicated> {
  const task = taskOf(step.row);
  const { destinations, pass } = step;
  if (task.removed === true) return remove(ctx, step);
  const bucket = await destinations.findSource(ctx, task);
  if (bucket === undefined) return nothingDone;
  const found = await findVersion(ctx.metadata, bucket, task.key, task.isNull ? 'null' : task.version);
  if (found === undefined || found.row.version !== task.version) return nothingDone;
  const { row } = found;
  if (row.encryption?.by === 'customer')
    throw new Unreplicable(
      'the object is encrypted with a key of its client (SSE-C), which this service does not have',
    );
  const destination = destinationOf(step.row);
  const { access, pace } = await destinations.open(ctx, destination);
  const site = await destinations.describe(ctx, { destination, access }, pass.signal);
  const own = await findSite(ctx);
  const trace = row.trace ?? [own];
  // The peer has it, or sent it. It may have removed it since, and is to have it again.
  const hasIt = site !== undefined && trace.includes(site.id) && task.restores !== true;
  if (hasIt || site?.id === own)
    return { isFinished: await complete(ctx, bucket, { found, task: step.row }) };
  if (site !== undefined && site.versioning !== 'Enabled')
    throw new DestinationAway('no-versioning', 'the bucket at the peer has no versioning: enable it there');
  const objectKey =
    row.encryption &&
    (await openObjectKey(ctx, { bucket, key: row.key }, { encryption: row.encryption, user: serviceUser }));
  const { signal } = pass;
  const to = destination.bucket;
  const document = toDocument(row, { site: own, destination: task.destination });
  const isRepeated = step.row.attempts > 0 || task.isResync === true;
  const shipment = { access, to, row, objectKey, signal, pace };
  const sendIt = (): Promise<void> =>
    site === undefined
      ? deliverToService(ctx, bucket, {
          ...{ ...shipment, destination: task.destination, isRepeated },
          hasLock: () => destinations.hasLock(ctx, { destination, access }, signal),
        })
      : sendReplica(ctx, { ...shipment, document, isRepeated, restores: task.restores === true });
  await (row.size < largeMin ? sendIt() : destinations.large.run(sendIt));
  return { bytes: row.size, isFinished: await complete(ctx, bucket, { found, task: step.row }) };
}

async function deliverToService(
  ctx: Ctx,
  bucket: BucketRow,
  shipment: Omit<ServiceShipment, 'head'>,
): Promise<void> {
  // It was sent before this process, or an earlier one, could finish the task.
  if (shipment.row.replication === 'COMPLETED') return;
  const head = (await findHead(ctx.metadata, bucket, shipment.row.key))?.row;
  await sendToService(ctx, { ...shipment, head });
}

/** The key's policy was checked when the rule was stored; the provider authorizes this service itself. */
const serviceUser = { account: '', assertMayUse: async (): Promise<void> => {} };

async function remove(ctx: Ctx, { row, destinations, pass }: Step): Promise<Replicated> {
  const { key, version } = taskOf(row);
  const destination = destinationOf(row);
  const { access } = await destinations.open(ctx, destination);
  const site = await destinations.describe(ctx, { destination, access }, pass.signal);
  // Another service gave the version an id of its own.
  if (site === undefined) return nothingDone;
  await sendRemoval(ctx, { access, to: destination.bucket, signal: pass.signal }, { key, version });
  return nothingDone;
}
