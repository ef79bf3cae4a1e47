/**
 * Leases on background work. They expire by the store's clock, and each new holder gets a new generation.
 *
 * A paused holder may resume while its successor works, because no clock can stop it. Its late effects are harmless:
 *
 * | Worker | Effect | What guards it |
 * |---|---|---|
 * | all | changes of versions, uploads, buckets, clusters | the commit states the revisions that the decision rests on |
 * | `gc` | removes extents, puts queue rows back | idempotent: ids are never reused |
 * | runs of fsck that repair | rebuilds rows, queues bytes for deletion | the holder of `fsck-mending` reads its lease before each change; `gc` looks for an owner before it deletes bytes that fsck queued |
 * | `force-empty`, `reshard`, `rewrap` | progress of a task | the commit states the revision of the task that the page began with |
 * | `force-empty` | deletes versions | a page reads its task between its rows and the first deletion; a page that is running when the task ends deletes only versions and uploads that it had read before |
 * | `bucket-stats`, `usage-rollup`, `quota-reconcile`, `audit-retention`, `health-history`, `fsck`, `scrub`, `lifecycle` | samples, sums and seals, the state of a run | the commit states the row that the latest leader wrote at its start (`beginTerm`) |
 * | `lifecycle` | removes and moves versions, aborts uploads | a change of the rules fences commits of versions, and these check up to 48 of the newer versions that a rule counts; the abort of an upload reads the rules right before its commit |
 * | `queue-retention` | drops rows of queues beyond their bounds | none: the rows of closed hours that it has counted are dropped, also where their consumer has caught up since |
 * | `usage-rollup` | the usage of a closed day | each leader computes it from the same stored samples and counters; the commit states that no row of the bucket and the day exists (`closeBucketDay`) |
 * | `access-log` | batches of lines | the commit of a batch, and a look before the commit of its object, state the row that the latest leader wrote at its start; it fences the target of a batch that it finds (`fenceWriters`), so that a commit behind such a look is refused |
 * | `inventory` | progress of a run | the commit, and a look before the commit of each file, state the row that the latest leader wrote at its start, and it fences each destination once; records of files and results state the revision that was read before such a look |
 * | `notify` | deliveries to targets | none is possible: an event may be delivered twice, which its id shows; rows are removed by name |
 * | `notify`, `replicator` | moves of rows between lanes | the commit that removes a row from its lane states the row that the latest leader wrote at its start; a second copy may be left, in an order that holds |
 * | `replicator` | versions at peers, their status, the position of a resync | a peer keeps one version of an id; to other S3 services only a version is sent that is the latest right before, and a request that is under way then is not fenced; the status states the revision that was sent; the position states the revision that the page began with |
 * | `rebalance` | progress of a slot, and what is left on a cluster | the row holds the generation of the slot's lease (`claimSlot`) |
 */
import {
  type At,
  MetadataDamaged,
  type MetadataStore,
  type Revision,
  type Stored,
} from '../../ports/metadata-store.ts';
import { type LeaseRow, leases } from '../records/processes.ts';

type Metadata = Pick<MetadataStore, 'get' | 'commit' | 'now' | 'replaceDamaged'>;

/** A lease as its holder knows it. The holder renews it well before `expires`, or stops. */
export interface Lease {
  readonly name: string;
  readonly holder: string;
  /** Greater than that of every earlier holder: the fencing token. */
  readonly generation: number;
  /** Store time. */
  readonly expires: number;
  readonly process?: string;
  readonly revision: Revision;
}

/** A write of a holder was refused, because a later holder of the lease has begun its work. */
export class LeaseLost extends Error {
  constructor(what: string, generation: number) {
    super(`${what} belongs to a later holder of the lease than generation ${generation}`);
  }
}

export const leaderLease = (worker: string): string => `${worker}-leader`;
export const slotLease = (worker: string, slot: number): string => `${worker}-${slot}`;

/** The lease of a run of fsck that changes something. */
export const repairLease = 'fsck-mending';

/** Their leases are written on a full disk too, because they free it: deliveries remove rows. */
const freeingWorkers = ['gc', 'force-empty', 'lifecycle', 'notify', 'replicator'] as const;

const leaseAt = (name: string): At<typeof leases> => ({ table: leases, in: { name } });

async function put(
  metadata: Metadata,
  row: LeaseRow,
  expect: 'absent' | Revision,
): Promise<Lease | undefined> {
  const frees = freeingWorkers.some((worker) => row.name.startsWith(`${worker}-`));
  const outcome = await metadata.commit(leaseAt(row.name), [{ put: row, expect }], { frees });
  return outcome.applied ? { ...row, revision: outcome.revision } : undefined;
}

/**
 * Takes a lease that is free, has expired, or whose holder's process has ended; undefined when another holder has it, or was faster.
 * The row stays when a lease ends, so that the generation never starts again.
 */
export async function acquireLease(
  metadata: Metadata,
  requested: {
    readonly name: string;
    readonly holder: string;
    readonly ttlMs: number;
    readonly process?: string | undefined;
    /** Whether it is certain that a process has ended: then nothing of it can still write. */
    readonly hasEnded?: (process: string) => boolean;
  },
): Promise<Lease | undefined> {
  const { name, holder, ttlMs, process, hasEnded } = requested;
  const [found, now] = await Promise.all([findSoundLease(metadata, name, ttlMs), metadata.now()]);
  if (found !== undefined && found.row.expires > now) {
    const { process: former } = found.row;
    if (former === undefined || hasEnded?.(former) !== true) return undefined;
  }
  const generation = (found?.row.generation ?? 0) + 1;
  const row = {
    name,
    holder,
    generation,
    expires: now + ttlMs,
    ...(process === undefined ? {} : { process }),
  };
  return put(metadata, row, found?.revision ?? 'absent');
}

/**
 * The row of a lease. A damaged one is written again: as held, because its holder may still work, until that holder has failed to renew
 * it; and with the time as its generation, which is greater than a number that grows by one with each holder.
 */
export async function findSoundLease(
  metadata: Metadata,
  name: string,
  ttlMs: number,
): Promise<Stored<LeaseRow> | undefined> {
  try {
    return await metadata.get(leaseAt(name), {});
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged) || metadata.replaceDamaged === undefined) throw cause;
    const now = await metadata.now();
    const row = { name, holder: '', generation: now, expires: now + ttlMs };
    await metadata.replaceDamaged(leaseAt(name), row);
    return metadata.get(leaseAt(name), {});
  }
}

/** The row of a lease, held or expired. */
export async function findLease(metadata: Pick<Metadata, 'get'>, name: string): Promise<Lease | undefined> {
  const found = await metadata.get(leaseAt(name), {});
  return found && { ...found.row, revision: found.revision };
}

/** Whether the holder still has a lease, renewed or not: no later holder has taken it, and it has not expired. */
export async function holdsLease(metadata: Metadata, { name, generation }: Lease): Promise<boolean> {
  const [found, now] = await Promise.all([findLease(metadata, name), metadata.now()]);
  return found !== undefined && found.generation === generation && found.expires > now;
}

/** Prolongs a lease; undefined when it is lost. An expired lease is renewed if no other process has taken it. */
export async function renewLease(
  metadata: Metadata,
  lease: Lease,
  ttlMs: number,
): Promise<Lease | undefined> {
  const { revision, ...row } = lease;
  return put(metadata, { ...row, expires: (await metadata.now()) + ttlMs }, revision);
}

/** As `renewLease`, but an expired lease is lost: the clock of the store went on while the machine slept, or was set forward. */
export async function renewUnexpired(
  metadata: Metadata,
  lease: Lease,
  ttlMs: number,
): Promise<Lease | undefined> {
  return lease.expires > (await metadata.now()) ? renewLease(metadata, lease, ttlMs) : undefined;
}

/** Gives a lease that no process holds at least this generation, because rows were copied that state it. */
export async function raiseLease(
  metadata: Metadata,
  { name, generation }: Pick<Lease, 'name' | 'generation'>,
): Promise<void> {
  for (;;) {
    const found = await findLease(metadata, name);
    if (found !== undefined && found.generation >= generation) return;
    const row = { name, holder: '', generation, expires: 0 };
    if ((await put(metadata, row, found?.revision ?? 'absent')) !== undefined) return;
  }
}

/** Releases a lease, so that the next holder need not wait; a lost lease is not touched. */
export async function releaseLease(metadata: Metadata, lease: Lease): Promise<void> {
  const { revision, ...row } = lease;
  await put(metadata, { ...row, expires: 0 }, revision);
}
