/** Carries out the tasks of the queue `replication`, in order for each key, and stores the replication status of their versions. */
import { inParallel } from '../../../base/in-parallel.ts';
import { Semaphore } from '../../../base/semaphore.ts';
import type { Config } from '../../../config.ts';
import type { Context } from '../../../context.ts';
import { Refusal } from '../../../errors/refusal.ts';
import { finishedRow, finishHourlyRows } from '../../../metadata/background/hourly-consumer.ts';
import { failedReplication } from '../../../metadata/background/replication/failed.ts';
import { findReplicationPeer } from '../../../metadata/background/replication/peers.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { findHead, findVersion, objectsAt } from '../../../metadata/objects/objects.ts';
import type { HourlyRow, ReplicationTask } from '../../../metadata/records/queues.ts';
import type { ReplicationPeerRow } from '../../../metadata/records/replication-peers.ts';
import { findSite } from '../../../metadata/site.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import {
  type Revision,
  type SideChange,
  type Stored,
  StoreRefused,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import { type PeerAccess, type PeerRequests, PeerSilent } from '../../../ports/peer-requests.ts';
import { openObjectKey } from '../../content/encryption/object-key.ts';
import { stampOf } from '../../objects/replica/stamp.ts';
import { openPace, type Pace } from '../../storage/rebalance/pace.ts';
import type { LaneQueue, Pass } from '../lanes/lanes.ts';
import { type Destination, nameDestination, readDestination } from './destination.ts';
import { openAccess } from './peers.ts';
import { isAboutCaller, PeerRefused, UnexpectedAnswer } from './send-content.ts';
import { askSite, type PeerSite, sendRemoval, sendReplica, toDocument } from './send-replica.ts';
import { type ServiceShipment, Superseded, sendToService } from './send-to-service.ts';

export type Ctx = Pick<
  Context,
  'caches' | 'metadata' | 'bytes' | 'clock' | 'random' | 'hasher' | 'cipher' | 'sealer' | 'keys' | 'telemetry'
> & {
  readonly peers: PeerRequests;
  readonly config: Context['config'] & Pick<Config, 'SVC_REPLICATION_RETRY_MAX'>;
};

const batchMax = 64;
/** Keys of a slot that are sent at a time. */
const keysMax = 4;
/** Keys whose later rows wait for an earlier one, for each slot. Beyond these, rows are sent out of order, which gateways bear. */
const stuckMax = 1_000;
/** How long the description of a peer is used: its operator may change versioning, or the service itself. */
const siteMs = 60_000;

/** The version cannot be replicated, now or later. */
class Unreplicable extends Error {}
/** The destination takes nothing now. */
class DestinationAway extends Error {}

/** The cast: each queue has one type of task. */
const taskOf = (row: Pick<HourlyRow, 'task'>): ReplicationTask => row.task as ReplicationTask;

const destinationOf = (row: HourlyRow): Destination =>
  readDestination(taskOf(row).destination.Bucket) ?? { peer: '', bucket: '' };

/** Larger contents take one of a few turns, because each holds some chunks of its content in memory. */
const largeMin = 1024 * 1024;
const largeMax = 4;

/** What this process knows about destinations. */
class Sites {
  /** Contents of `largeMin` bytes and more that are being sent. */
  readonly large = new Semaphore(largeMax);
  readonly known = new Map<string, { readonly site: PeerSite | undefined; readonly until: number }>();
  readonly #opened = new Map<string, { readonly revision: Revision; readonly access: PeerAccess }>();
  readonly #paces = new Map<string, { readonly bandwidth: number; readonly pace: Pace }>();

  /** Keys are unsealed once for each change of the peer. Undefined where the master key does not open them. */
  async openAccess(ctx: Ctx, { row, revision }: Stored<ReplicationPeerRow>): Promise<PeerAccess | undefined> {
    const known = this.#opened.get(row.id);
    if (known?.revision === revision) return known.access;
    const access = await openAccess(ctx, row);
    if (access !== undefined) this.#opened.set(row.id, { revision, access });
    return access;
  }

  /** One pace for everything that is sent to a peer. */
  paceOf(clock: Context['clock'], { id, bandwidth }: ReplicationPeerRow): Pace | undefined {
    if (bandwidth === undefined) return undefined;
    const known = this.#paces.get(id);
    if (known?.bandwidth === bandwidth) return known.pace;
    const pace = openPace(clock, bandwidth);
    this.#paces.set(id, { bandwidth, pace });
    return pace;
  }
}

export const replicationQueue = (ctx: Ctx): LaneQueue => {
  const sites = new Sites();
  return {
    queue: 'replication',
    batchMax,
    targets: [],
    targetOf: (row) => nameDestination(destinationOf(row)),
    deliver: (rows, pass) => deliverRows(ctx, { rows, pass, sites }),
  };
};

interface Delivery {
  readonly rows: readonly HourlyRow[];
  readonly pass: Pass;
  readonly sites: Sites;
}

async function deliverRows(ctx: Ctx, { rows, pass, sites }: Delivery): Promise<number> {
  let done = 0;
  const byTarget = Map.groupBy(rows, (row) => nameDestination(destinationOf(row)));
  for (const [target, group] of byTarget) {
    const keys = Map.groupBy(group, (row) => `${target}/${taskOf(row).bucketId}/${taskOf(row).key}`);
    const ready = [...keys].filter(([key]) => !pass.stuck.has(key));
    await inParallel(keysMax, ready, async ([key, ofKey]) => {
      for (const row of ofKey) {
        pass.signal.throwIfAborted();
        if (!(await carryOut(ctx, { row, target, pass, sites }))) {
          if (pass.stuck.size < stuckMax) pass.stuck.add(key);
          return;
        }
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
  readonly sites: Sites;
}

/** @returns whether the row is done; otherwise it stays in the queue, and those of its key behind it */
async function carryOut(ctx: Ctx, step: Step): Promise<boolean> {
  const { row, target, pass } = step;
  const { states } = pass;
  const isOverdue = row.due + ctx.config.SVC_REPLICATION_RETRY_MAX <= pass.now;
  if (states.isResting(target)) {
    if (!isOverdue) return false;
    await giveUp(ctx, row, states.get(target).error);
    return true;
  }
  try {
    const { bytes, isFinished } = await replicate(ctx, step);
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
    const { message, isFinal = false, isLocal = false } = explain(cause);
    if (!isFinal && !isLocal) states.failed(target, message);
    if (isFinal || isOverdue) {
      await giveUp(ctx, row, message);
      return true;
    }
    if (isLocal) {
      const { bucket, key, version } = taskOf(row);
      ctx.telemetry.log('WARN', 'a version cannot be read for its replication; it is tried again', {
        bucket,
        key,
        version,
        error: message,
      });
      return false;
    }
    ctx.telemetry.replicationFailed(destinationOf(row).peer, 'unavailable');
    ctx.telemetry.log('WARN', 'a replication destination takes no versions; they stay queued', {
      destination: target,
      error: message,
      failures: states.get(target).failures,
    });
    return false;
  }
}

/** Answers about one version, which will not change. Others are about the bucket, the keys or the service, and are tried again. */
const finalStatus = new Set([400, 405, 409, 411, 412, 413, 414, 431]);
const passingCodes = new Set(['InvalidBucketState', 'OperationAborted', 'SlowDown', 'RequestTimeTooSkewed']);

interface Explained {
  readonly message: string;
  readonly isFinal?: boolean;
  /** The fault is of this site, and not of the destination. */
  readonly isLocal?: boolean;
}

function explain(cause: unknown): Explained {
  if (cause instanceof Unreplicable || cause instanceof Superseded)
    return { message: cause.message, isFinal: true };
  if (cause instanceof PeerSilent || cause instanceof DestinationAway || cause instanceof UnexpectedAnswer)
    return { message: cause.message };
  if (cause instanceof PeerRefused) {
    const mayPass = passingCodes.has(cause.code) || isAboutCaller(cause.code);
    const isFinal = finalStatus.has(cause.status) && !mayPass;
    return { message: `${cause.message}${advise(cause)}`, isFinal };
  }
  // Without metadata nothing works: the supervisor starts the worker again.
  if (cause instanceof StoreUnavailable || cause instanceof StoreRefused) throw cause;
  // A key provider that refuses, an archived content, a cluster that is away, damaged bytes.
  const message =
    cause instanceof Refusal ? cause.code : cause instanceof Error ? cause.message : String(cause);
  return { message: `the source: ${message}`, isLocal: true };
}

const advice: Readonly<Record<string, string>> = {
  NoSuchBucket: 'create the bucket at the peer',
  InvalidBucketState: 'enable versioning of the bucket at the peer',
  AccessDenied:
    'allow s3:ReplicateObject, s3:ReplicateDelete, s3:ReplicateTags and s3:PutObject to the user of the peer',
  InvalidAccessKeyId: 'PUT the peer again with a key that it knows',
  SignatureDoesNotMatch: 'PUT the peer again with the right secret key',
  AuthorizationHeaderMalformed: 'PUT the peer again with the region that it expects',
  RequestTimeTooSkewed: 'correct the clock of this machine or of the peer',
};
const advise = ({ code }: PeerRefused): string => (code in advice ? `: ${advice[code]}` : '');

interface Replicated {
  /** The bytes that were sent; absent where there was nothing to do. */
  readonly bytes?: number;
  /** The row of the queue was removed in the commit of the status. */
  readonly isFinished: boolean;
}
const nothingDone: Replicated = { isFinished: false };

async function replicate(ctx: Ctx, step: Step): Promise<Replicated> {
  const task = taskOf(step.row);
  const bucket = (await findBucket(ctx.metadata, task.bucket))?.row;
  // The bucket was deleted, and perhaps made again: its versions are gone.
  if (bucket?.id !== task.bucketId && task.removed !== true) return nothingDone;
  const name = task.isNull ? 'null' : task.version;
  const found = bucket && (await findVersion(ctx.metadata, bucket, task.key, name));
  if (task.removed === true) return remove(ctx, step);
  if (bucket === undefined || found === undefined || found.row.version !== task.version) return nothingDone;
  const { row } = found;
  if (row.encryption?.by === 'customer')
    throw new Unreplicable(
      'the object is encrypted with a key of its client (SSE-C), which this service does not have',
    );
  const { access, destination, pace } = await openDestination(ctx, step);
  const site = await describeSite(ctx, step, { access, bucket: destination.bucket });
  const own = await findSite(ctx);
  const trace = row.trace ?? [own];
  // The peer has it, or sent it. It may have removed it since, and is to have it again.
  const hasIt = site !== undefined && trace.includes(site.id) && task.restores !== true;
  if (hasIt || site?.id === own)
    return { isFinished: await complete(ctx, bucket, { found, task: step.row }) };
  if (site !== undefined && site.versioning !== 'Enabled')
    throw new DestinationAway('the bucket at the peer has no versioning: enable it there');
  const objectKey =
    row.encryption &&
    (await openObjectKey(ctx, { bucket, key: row.key }, { encryption: row.encryption, user: serviceUser }));
  const { signal } = step.pass;
  const to = destination.bucket;
  const document = toDocument(row, { site: own, destination: task.destination });
  const isRepeated = step.row.attempts > 0 || task.isResync === true;
  const shipment = { access, to, row, objectKey, signal, pace };
  const sendIt = (): Promise<void> =>
    site === undefined
      ? deliverToService(ctx, bucket, { ...shipment, destination: task.destination, isRepeated })
      : sendReplica(ctx, { ...shipment, document, isRepeated, restores: task.restores === true });
  await (row.size < largeMin ? sendIt() : step.sites.large.run(sendIt));
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
const serviceUser = { assertMayUse: async (): Promise<void> => {} };

async function remove(ctx: Ctx, step: Step): Promise<Replicated> {
  const { key, version } = taskOf(step.row);
  const { access, destination } = await openDestination(ctx, step);
  const site = await describeSite(ctx, step, { access, bucket: destination.bucket });
  // Another service gave the version an id of its own.
  if (site === undefined) return nothingDone;
  await sendRemoval(ctx, { access, to: destination.bucket, signal: step.pass.signal }, { key, version });
  return nothingDone;
}

async function openDestination(
  ctx: Ctx,
  { row, sites }: Step,
): Promise<{
  readonly access: PeerAccess;
  readonly destination: Destination;
  readonly pace: Pace | undefined;
}> {
  const destination = destinationOf(row);
  const { peer } = destination;
  const found = await findReplicationPeer(ctx.metadata, peer);
  if (found === undefined)
    throw new DestinationAway(
      `there is no replication peer ${peer}: PUT /admin/v1/replication/peers/${peer}`,
    );
  const access = await sites.openAccess(ctx, found);
  if (access === undefined)
    throw new DestinationAway(`the master key does not open the keys of peer ${peer}: PUT the peer again`);
  return { access, destination, pace: sites.paceOf(ctx.clock, found.row) };
}

async function describeSite(
  ctx: Ctx,
  { target, sites, pass }: Step,
  { access, bucket }: { readonly access: PeerAccess; readonly bucket: string },
): Promise<PeerSite | undefined> {
  const name = `${target} ${access.endpoint}`;
  const now = ctx.clock.elapsed();
  const known = sites.known.get(name);
  if (known !== undefined && known.until > now) return known.site;
  const site = await askSite(ctx, access, bucket, pass.signal);
  if (sites.known.size > 1_024) sites.known.clear();
  // One that cannot take versions is asked again, because its operator may just be enabling versioning.
  const until = site === undefined || site.versioning === 'Enabled' ? now + siteMs : now;
  sites.known.set(name, { site, until });
  return site;
}

/** Attempts against commits that change the row of a version meanwhile. */
const statusAttempts = 8;

interface StatusChange {
  readonly replication: 'COMPLETED' | 'FAILED';
  readonly then?: readonly SideChange[];
}

/**
 * Stores a status, unless tags, ACL or lock have changed since: then the task of that change stores one. A row that changed otherwise,
 * because its bytes were moved, gets it all the same.
 * @returns whether it was stored
 */
async function storeStatus(
  ctx: Ctx,
  bucket: BucketRow,
  sent: Stored<ObjectRow>,
  { replication, then = [] }: StatusChange,
): Promise<boolean> {
  const { key, version, isNull } = sent.row;
  let found: Stored<ObjectRow> | undefined = sent;
  for (let attempt = 0; attempt < statusAttempts; attempt += 1) {
    if (found === undefined || found.row.version !== version || stampOf(found.row) !== stampOf(sent.row))
      return false;
    const { row, revision }: Stored<ObjectRow> = found;
    if (row.replication !== 'PENDING' && row.replication !== 'FAILED') return false;
    const change = { put: { ...row, replication }, expect: revision };
    if ((await ctx.metadata.commit(objectsAt(bucket), [change], { then })).applied) return true;
    found = await findVersion(ctx.metadata, bucket, key, isNull ? 'null' : version);
  }
  throw new StoreUnavailable(`the replication status of ${key} could not be stored`);
}

/** @returns whether the task was removed with it */
const complete = (
  ctx: Ctx,
  bucket: BucketRow,
  { found, task }: { readonly found: Stored<ObjectRow>; readonly task: HourlyRow },
): Promise<boolean> =>
  storeStatus(ctx, bucket, found, { replication: 'COMPLETED', then: [finishedRow(task)] });

/** The failure is stored before the task is removed: a kill between the two leaves both, and forgets none. */
async function giveUp(ctx: Ctx, row: HourlyRow, error: string): Promise<void> {
  const task = taskOf(row);
  const { metadata, telemetry } = ctx;
  await metadata.apply([failedReplication(row, { error, now: await metadata.now() })]);
  const bucket = (await findBucket(metadata, task.bucket))?.row;
  if (bucket?.id === task.bucketId) {
    const found = await findVersion(metadata, bucket, task.key, task.isNull ? 'null' : task.version);
    if (found !== undefined && found.row.version === task.version)
      await storeStatus(ctx, bucket, found, { replication: 'FAILED' });
  }
  await finishHourlyRows(metadata, [row]);
  const { peer } = destinationOf(row);
  const destination = nameDestination(destinationOf(row));
  telemetry.replicationFailed(peer, 'given-up');
  telemetry.log('ERROR', 'a version is not replicated', {
    bucket: task.bucket,
    key: task.key,
    version: task.version,
    destination,
    error,
  });
}
