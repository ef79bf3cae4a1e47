/** Work under a lease: renews it meanwhile, and aborts the work when it is lost. */
import type { Context } from '../context.ts';
import { drawId } from '../domain/common/ids.ts';

import {
  acquireLease,
  findSoundLease,
  holdsLease,
  type Lease,
  LeaseLost,
  releaseLease,
  renewLease,
  renewUnexpired,
} from '../metadata/background/leases.ts';
import type { Pulses } from './idle-rest.ts';

export type LeaseContext = Pick<Context, 'metadata' | 'clock' | 'telemetry'>;

/** A dead holder keeps others out for this long. */
export const leaseTtlMs = 15_000;
export const leaseRenewalMs = 5_000;

/** How the leases of workers are renewed where the metadata are on this machine: seldom, and together. */
export interface LeasePace {
  readonly ttlMs: number;
  readonly renewalMs: number;
  readonly pulses: Pulses;
}

interface OwnedLease {
  readonly lease: Lease;
  readonly signal: AbortSignal;
  /** Absent: `leaseTtlMs` and `leaseRenewalMs`, at times of its own. */
  readonly pace?: LeasePace | undefined;
  /** The lease is lost also where it had run out before a renewal and no other process took it: others only read whether it is held. */
  readonly isLostOnceExpired?: boolean;
}

/**
 * Runs `work` and renews the lease meanwhile. The signal of `work` aborts with the given one and when the lease is lost: taken by another
 * holder, or not renewed in time. Released at the end.
 */
export async function withLease<T>(
  context: LeaseContext,
  { lease, signal, pace, isLostOnceExpired = false }: OwnedLease,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const lost = new AbortController();
  const done = new AbortController();
  const keeping = keepLease(context, lease, { lost, done: done.signal, pace, isLostOnceExpired });
  try {
    return await work(AbortSignal.any([signal, lost.signal]));
  } finally {
    done.abort();
    const last = await keeping;
    if (last !== undefined) await release(context, last);
  }
}

/** Renews until the work is done. Returns the lease in its last state, or undefined when it is lost. */
async function keepLease(
  context: LeaseContext,
  lease: Lease,
  ends: {
    readonly lost: AbortController;
    readonly done: AbortSignal;
    readonly pace: LeasePace | undefined;
    readonly isLostOnceExpired: boolean;
  },
): Promise<Lease | undefined> {
  const { clock, telemetry } = context;
  const { pace, done } = ends;
  const ttlMs = pace?.ttlMs ?? leaseTtlMs;
  const untilRenewal = (): Promise<void> =>
    pace === undefined ? clock.sleep(leaseRenewalMs, done) : pace.pulses.next(pace.renewalMs, done);
  let current = lease;
  // By a clock that never jumps, and counted from before the renewal was sent: never too late.
  let leasedSince = clock.elapsed();
  await untilRenewal();
  while (!ends.done.aborted) {
    const asked = clock.elapsed();
    const renewed = await renewInTime(context, current, {
      ttlMs,
      leftMs: leasedSince + ttlMs - asked,
      ...ends,
    });
    if (renewed === 'lost') {
      telemetry.log('WARN', 'a lease was lost', { lease: lease.name, generation: lease.generation });
      ends.lost.abort(new LeaseLost(lease.name, lease.generation));
      return undefined;
    }
    if (renewed !== undefined) {
      current = renewed;
      leasedSince = asked;
    }
    // After a failure sooner, so that a store that answers again finds the lease still held.
    await (renewed === undefined ? clock.sleep(leaseRenewalMs / 5, done) : untilRenewal());
  }
  return current;
}

/** The renewed lease; undefined when the store failed and there is time for another try, or when done. */
async function renewInTime(
  { metadata, clock, telemetry }: LeaseContext,
  lease: Lease,
  {
    ttlMs,
    leftMs,
    done,
    isLostOnceExpired,
  }: {
    readonly ttlMs: number;
    readonly leftMs: number;
    readonly done: AbortSignal;
    readonly isLostOnceExpired: boolean;
  },
): Promise<Lease | 'lost' | undefined> {
  if (leftMs <= 0) return 'lost';
  const answered = new AbortController();
  // A store that does not answer must not keep a holder believing in a lease that has run out.
  const tooLate = clock
    .sleep(leftMs, AbortSignal.any([answered.signal, done]))
    .then(() => (done.aborted ? undefined : ('lost' as const)));
  const renew = isLostOnceExpired ? renewUnexpired : renewLease;
  const renewal = renew(metadata, lease, ttlMs).then(
    (renewed) => renewed ?? ('lost' as const),
    (cause: unknown) => {
      telemetry.log('WARN', 'a lease could not be renewed', { lease: lease.name, cause });
      return undefined;
    },
  );
  try {
    return await Promise.race([renewal, tooLate]);
  } finally {
    answered.abort();
  }
}

/** A lease that cannot be released expires by itself. */
async function release({ metadata, telemetry }: LeaseContext, lease: Lease): Promise<void> {
  try {
    await releaseLease(metadata, lease);
  } catch (cause) {
    telemetry.log('WARN', 'a lease could not be released', { lease: lease.name, cause });
  }
}

// Keeps `gc` from deleting bytes while a backup copies them. Bytes that gc deletes were queued before, and so are named by no row of a
// later snapshot; only what is queued after the snapshot must stay.

const holdLease = 'gc-hold';

export class LeasedElsewhere extends Error {
  constructor() {
    super('another backup is running, or one was killed less than 15 seconds ago');
  }
}

interface GarbageHold {
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  /** Called at the end of the work: proves that gc deleted nothing meanwhile. @throws LeaseLost */
  assertLeased(): Promise<void>;
}

/** Does `work` while nothing is deleted. @throws LeasedElsewhere, LeaseLost */
export async function holdGarbage<T>(
  context: LeaseContext & Pick<Context, 'random'>,
  signal: AbortSignal,
  work: (hold: GarbageHold) => Promise<T>,
): Promise<T> {
  const requested = { name: holdLease, holder: drawId(context.random), ttlMs: leaseTtlMs };
  const lease = await acquireLease(context.metadata, requested);
  if (lease === undefined) throw new LeasedElsewhere();
  const assertLeased = async (): Promise<void> => {
    if (!(await holdsLease(context.metadata, lease))) throw new LeaseLost(holdLease, lease.generation);
  };
  // gc reads the lease and never takes it: once it has expired, bytes may have been deleted.
  const current = { lease, signal, isLostOnceExpired: true };
  return withLease(context, current, (lasting) => work({ signal: lasting, assertLeased }));
}

/** Whether a backup runs now. */
export async function isGarbageRetained({ metadata }: Pick<LeaseContext, 'metadata'>): Promise<boolean> {
  const [lease, now] = await Promise.all([findSoundLease(metadata, holdLease, leaseTtlMs), metadata.now()]);
  return lease !== undefined && lease.row.expires > now;
}
