/** Carries out the tasks of the queue `replication`, in order for the versions of each object, and stores the replication status of their versions. */
import { inParallel } from '../../base/concurrency.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { finishHourlyRows } from '../../metadata/background/hourly-consumer.ts';
import { findHead, findVersion } from '../../metadata/objects/objects.ts';
import type { HourlyRow } from '../../metadata/records/queues.ts';
import type { ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import { findSite } from '../../metadata/site.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { PeerRequests } from '../../ports/peer-requests.ts';
import type { Attributes } from '../../ports/trace.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketReplication } from '../configurations/families.ts';
import {
  nameDestination,
  peerOfTarget,
  replicationTask,
  rowDestination,
} from '../configurations/replication-destination.ts';
import { openObjectKey } from '../content/wrapped-key.ts';
import { traceDelivery } from '../deliveries/delivery-trace.ts';
import type { LaneQueue, Pass } from '../lanes/pass.ts';
import { nameObject, type Subject } from '../lanes/target-states.ts';
import {
  type AskRole,
  type Authorized,
  assertOtherSite,
  assertOwned,
  authorizeDelivery,
  listQuestions,
} from './authorize-delivery.ts';
import { type Destinations, noVersioning } from './destinations.ts';
import { explainFailure, explainLoneFailure, isAmbiguous, Unreplicable } from './failures.ts';
import type { Shipment } from './send-content.ts';
import { type PeerSite, sendRemoval, sendReplica, toDocument } from './send-replica.ts';
import { type ServiceShipment, sendToService } from './send-to-service.ts';
import { complete, giveUp } from './store-status.ts';

export type ReplicationCtx = Pick<
  Context,
  | 'caches'
  | 'credentials'
  | 'metadata'
  | 'bytes'
  | 'clock'
  | 'random'
  | 'hasher'
  | 'cipher'
  | 'sealer'
  | 'keys'
  | 'telemetry'
> &
  Pick<Context, 'tracer'> & {
    readonly peers: PeerRequests;
    readonly askRole: AskRole;
    readonly config: Context['config'] & Pick<Config, 'SVC_REPLICATION_RETRY_MAX'>;
  };

const batchMax = 64;
/** Keys of a slot that are sent at a time. */
const keysMax = 4;

/** Contents of this size and above take one of a few turns. */
const largeMin = 1024 * 1024;

export const replicationQueue = (ctx: ReplicationCtx, destinations: Destinations): LaneQueue => {
  return {
    queue: 'replication',
    worker: 'replicator',
    batchMax,
    retryMaxMs: ctx.config.SVC_REPLICATION_RETRY_MAX,
    subjectOf: rowSubject,
    compare: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
    deliver: (_target, rows, pass) => deliverRows(ctx, { rows, pass, destinations }),
    giveUp: async (rows, { error }) => {
      for (const row of rows) await giveUp(ctx, row, { error, why: 'overdue' });
    },
    reportStuck: (row, cause) => {
      const { bucket, key, version } = replicationTask(row);
      const about = { bucket, key, version, destination: rowSubject(row).target, cause };
      ctx.telemetry.log('ERROR', 'a failed replication cannot be stored; it is tried again', about);
    },
    labelOf: peerOfTarget,
    showRefused: (byPeer) =>
      ctx.telemetry.replace(
        'svc_replication_refused_objects',
        [...byPeer].map(([peer, objects]) => [{ peer }, objects]),
      ),
    probe: (row, signal) => probe(ctx, { row, destinations, signal }),
  };
};

function rowSubject(row: HourlyRow): Subject {
  const { bucketId, key, version, removed, account: owner = '' } = replicationTask(row);
  const target = nameDestination(rowDestination(row));
  // A removal waits for no other version of its key, which may lack the room that it frees. A gateway takes both in any order, because a
  // removal leaves a tombstone there; other services get no removals.
  const object = nameObject(target, bucketId, removed ? `${key}\0${version}` : key);
  // No `account`, because a destination mostly takes versions of one account: one that refuses several buckets rests as a whole.
  return { target, tenant: bucketId, owner, object };
}

interface Delivery {
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
  readonly destinations: Destinations;
}

async function deliverRows(ctx: ReplicationCtx, { rows, pass, destinations }: Delivery): Promise<void> {
  const byObject = [...Map.groupBy(rows, (row) => rowSubject(row).object).values()];
  await inParallel(keysMax, byObject, async (ofObject) => {
    for (const row of ofObject) {
      pass.signal.throwIfAborted();
      if (!pass.mayTry(row)) return;
      const attempt = async (turn: Step['turn']): Promise<Attempt> => {
        pass.signal.throwIfAborted();
        // The destination may have failed while the row waited for its turn.
        return pass.mayTry(row) ? carryOut(ctx, { row, pass, destinations, turn }) : 'ended';
      };
      const sender = senderOf(row);
      const outcome = await destinations.runSmall(sender, () => attempt('small'));
      // While it waits it holds no turn that small versions need.
      if (outcome === 'needs-large-turn') await destinations.runLarge(sender, () => attempt('large'));
    }
  });
}

/** Rows of older builds name no account. */
const senderOf = (row: HourlyRow) => ({
  peer: rowDestination(row).peer,
  account: replicationTask(row).account ?? '',
});

/** Asks the destination again what it is: a question that has nothing to do with any version. */
async function probe(
  ctx: ReplicationCtx,
  {
    row,
    destinations,
    signal,
  }: { readonly row: HourlyRow; readonly destinations: Destinations; readonly signal: AbortSignal },
): Promise<string | undefined> {
  try {
    const destination = rowDestination(row);
    const { access } = await destinations.open(ctx, destination);
    await destinations.probe(ctx, { destination, access }, signal);
    return undefined;
  } catch (cause) {
    signal.throwIfAborted();
    return explainFailure(cause).message;
  }
}

interface Step {
  readonly row: HourlyRow;
  readonly pass: Pass;
  readonly destinations: Destinations;
  /** The turn that it holds. */
  readonly turn: 'small' | 'large';
}

/** Whether nothing was sent, because the content is large and needs a turn for that. */
type Attempt = 'ended' | 'needs-large-turn';

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

/** Sends the version of a row; where that fails, the row stays in the queue, and those of its object behind it. */
async function carryOut(ctx: ReplicationCtx, step: Step): Promise<Attempt> {
  const { row, pass } = step;
  const { target } = rowSubject(row);
  try {
    const { bucket: bucketName, key } = replicationTask(row);
    const about = { rows: [row], about: target, bucketName, key };
    const replicated = await traceDelivery(
      ctx,
      'replicator',
      { ...about, kind: 'consumer', describe: () => describeTask(bucketName, key) },
      (view) => replicate(view, step),
    );
    if (replicated === 'needs-large-turn') return replicated;
    const { bytes, isFinished } = replicated;
    if (!isFinished) await finishHourlyRows(ctx.metadata, [row]);
    pass.delivered([row]);
    if (bytes !== undefined) await countArrival(ctx, row, bytes);
  } catch (cause) {
    pass.signal.throwIfAborted();
    await carryFailure(ctx, step, cause);
  }
  return 'ended';
}

async function countArrival(
  { metadata, telemetry }: ReplicationCtx,
  row: HourlyRow,
  bytes: number,
): Promise<void> {
  const { peer } = rowDestination(row);
  telemetry.count('svc_replication_versions_total', { peer });
  telemetry.count('svc_replication_bytes_total', { peer }, bytes);
  const lagSeconds = ((await metadata.now()) - row.due) / 1000;
  telemetry.observe('svc_replication_lag_seconds', { peer }, lagSeconds);
}

async function carryFailure(
  ctx: ReplicationCtx,
  { row, pass, destinations }: Step,
  cause: unknown,
): Promise<void> {
  const isLone =
    isAmbiguous(cause) && (await probe(ctx, { row, destinations, signal: pass.signal })) === undefined;
  const { message, why, isFinal = false, faultOf } = (isLone ? explainLoneFailure : explainFailure)(cause);
  const { target } = rowSubject(row);
  if (isFinal) {
    await pass.giveUp(row, () => giveUp(ctx, row, { error: message, why }));
    return;
  }
  const { peer } = rowDestination(row);
  ctx.telemetry.count('svc_replication_failures_total', { peer, why });
  if (faultOf !== undefined) {
    const { account = '', bucket, key, version } = replicationTask(row);
    pass.refused(row, message, faultOf === 'source' ? 'own-fault' : 'reached');
    const about = { bucket, key, version, destination: target, error: message };
    ctx.telemetry.log('WARN', faults[faultOf], about, `${peer} ${why}`, account);
    return;
  }
  pass.unavailable(target, message);
  const failures = pass.failuresOf(target);
  const about = { destination: target, error: message, failures };
  // One kind for each peer and cause: tenants choose the buckets, and each would be a line of its own.
  const kind = `${peer} ${why}`;
  ctx.telemetry.log('WARN', 'a replication destination takes no versions; they stay queued', about, kind);
}

interface Replicated {
  /** The bytes that were sent; absent where there was nothing to do. */
  readonly bytes?: number;
  /** The row of the queue was removed in the commit of the status. */
  readonly isFinished: boolean;
}
const nothingDone: Replicated = { isFinished: false };

async function replicate(ctx: ReplicationCtx, step: Step): Promise<Replicated | 'needs-large-turn'> {
  const task = replicationTask(step.row);
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
  const destination = rowDestination(step.row);
  const { peer, access, bandwidthOf } = await destinations.open(ctx, destination);
  const allowed = await authorize(ctx, step, { peer, bucket, row });
  const site = await destinations.describe(ctx, { destination, access }, pass.signal);
  assertOwned(allowed, destination, site?.owner);
  const own = await findSite(ctx);
  assertOtherSite(destination, { site: site?.id, own });
  const trace = row.trace ?? [own];
  // The peer has it, or sent it. It may have removed it since, and is to have it again.
  const hasIt = site !== undefined && trace.includes(site.id) && task.restores !== true;
  if (hasIt)
    return { isFinished: await complete(ctx, bucket, { found, task: step.row, late: destinations.late }) };
  if (site !== undefined && site.versioning !== 'Enabled') throw noVersioning();
  const objectKey =
    row.encryption &&
    (await openObjectKey(
      ctx,
      { bucket, key: row.key },
      { encryption: row.encryption, user: allowed.user ?? serviceUser },
    ));
  // Ask for a large turn last, so that a silent destination or key provider is usually found without one. The attempt in the turn asks both
  // again, because the version, the peer and the permissions may have changed while it waited.
  if (row.size >= largeMin && step.turn === 'small') return 'needs-large-turn';
  const { signal } = pass;
  const to = destination.bucket;
  const document = toDocument(row, { site: own, destination: task.destination });
  const isRepeated = step.row.attempts > 0 || task.isResync === true;
  const bucketOwner = ownerToName(allowed, site);
  const sending = { account: bucket.owner, signal, bandwidth: bandwidthOf?.(bucket.owner) };
  const hasMoved = () => destinations.hasMoved(ctx, destination, access);
  const shipment = { access, hasMoved, peer: destination.peer, to, bucketOwner, row, objectKey, ...sending };
  const send = () =>
    site === undefined
      ? deliverToService(ctx, bucket, {
          ...{ ...shipment, destination: task.destination, isRepeated },
          hasLock: () => destinations.hasLock(ctx, { destination, access }, signal),
        })
      : sendReplica(ctx, { ...shipment, document, isRepeated, restores: task.restores === true });
  if (!(await arrives(shipment, send))) return replicate(ctx, step);
  return {
    bytes: row.size,
    isFinished: await complete(ctx, bucket, { found, task: step.row, late: destinations.late }),
  };
}

/**
 * Sends to an endpoint of a peer. @returns false where an operator has given the peer another one meanwhile: then the answer, or the
 * failure, says nothing about the peer, and the task is carried out again
 */
async function arrives(
  { hasMoved, signal }: Pick<Shipment, 'hasMoved' | 'signal'>,
  send: () => Promise<void>,
): Promise<boolean> {
  try {
    await send();
  } catch (cause) {
    if (signal.aborted || !(await hasMoved())) throw cause;
    return false;
  }
  return !(await hasMoved());
}

async function deliverToService(
  ctx: ReplicationCtx,
  bucket: BucketRow,
  shipment: Omit<ServiceShipment, 'head'>,
): Promise<void> {
  // It was sent before this process, or an earlier one, could finish the task.
  if (shipment.row.replication === 'COMPLETED') return;
  const head = (await findHead(ctx.metadata, bucket, shipment.row.key))?.row;
  await sendToService(ctx, { ...shipment, head });
}

/** Other services than gateways may know other ids of accounts, so these are named only where the operator did. */
const ownerToName = (allowed: Authorized, site: PeerSite | undefined): string | undefined =>
  site !== undefined || allowed.isOwnerNamed ? allowed.bucketOwner : undefined;

/** @throws NotAllowed */
async function authorize(
  ctx: ReplicationCtx,
  { row: task }: Pick<Step, 'row'>,
  {
    peer,
    bucket,
    row,
  }: { readonly peer: ReplicationPeerRow; readonly bucket?: BucketRow; readonly row?: ObjectRow },
): Promise<Authorized> {
  const { key, destination: rule, account, bucket: name, role } = replicationTask(task);
  const destination = rowDestination(task);
  // The role of the present configuration, so that a failed version can be tried again with a corrected one.
  const present = (bucket && (await readDocument(ctx, bucket, bucketReplication))?.Role) ?? role;
  const asks = listQuestions({ bucket, key, ...(row === undefined ? {} : { row }) }, { destination, rule });
  const owner = bucket?.owner ?? account ?? '';
  return authorizeDelivery(ctx, {
    peer,
    destination,
    rule,
    account: owner,
    bucket: name,
    role: present,
    asks,
  });
}

/** Of an installation with one account, whose rules name a role that does not exist. */
const serviceUser = { account: '', assertMayUse: async (): Promise<void> => {} };

async function remove(ctx: ReplicationCtx, step: Step): Promise<Replicated> {
  const { row, destinations, pass } = step;
  const { key, version } = replicationTask(row);
  const destination = rowDestination(row);
  const bucket = await destinations.findSource(ctx, replicationTask(row));
  const { peer, access } = await destinations.open(ctx, destination);
  const allowed = await authorize(ctx, step, { peer, ...(bucket === undefined ? {} : { bucket }) });
  const site = await destinations.describe(ctx, { destination, access }, pass.signal);
  // Another service gave the version an id of its own.
  if (site === undefined) return nothingDone;
  assertOwned(allowed, destination, site.owner);
  assertOtherSite(destination, { site: site.id, own: await findSite(ctx) });
  const bucketOwner = ownerToName(allowed, site);
  const { signal } = pass;
  const shipment = { access, to: destination.bucket, bucketOwner, signal };
  const hasMoved = () => destinations.hasMoved(ctx, destination, access);
  const send = () => sendRemoval(ctx, shipment, { key, version });
  return (await arrives({ hasMoved, signal }, send)) ? nothingDone : remove(ctx, step);
}
