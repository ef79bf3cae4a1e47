/** Work under a lease: renews it meanwhile, and aborts the work when it is lost. */
import type { Context } from '../../context.ts';
import {
  type Lease,
  LeaseLost,
  releaseLease,
  renewLease,
  renewUnexpired,
} from '../../metadata/background/leases.ts';

export type LeaseContext = Pick<Context, 'metadata' | 'clock' | 'telemetry'>;

/** A dead holder keeps others out for this long. */
export const leaseTtlMs = 15_000;
export const leaseRenewalMs = 5_000;

export interface HeldLease {
  readonly lease: Lease;
  readonly signal: AbortSignal;
  /** The lease is lost also where it had run out before a renewal and no other process took it: others only read whether it is held. */
  readonly isLostOnceExpired?: boolean;
}

/**
 * Runs `work` and renews the lease meanwhile. The signal of `work` aborts with the given one and when the lease is lost: taken by another
 * holder, or not renewed in time. Released at the end.
 */
export async function withLease<T>(
  context: LeaseContext,
  { lease, signal, isLostOnceExpired = false }: HeldLease,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const lost = new AbortController();
  const done = new AbortController();
  const keeping = keepLease(context, lease, { lost, done: done.signal, isLostOnceExpired });
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
    readonly isLostOnceExpired: boolean;
  },
): Promise<Lease | undefined> {
  const { clock, telemetry } = context;
  let held = lease;
  // By a clock that never jumps, and counted from before the renewal was sent: never too late.
  let heldSince = clock.elapsed();
  await clock.sleep(leaseRenewalMs, ends.done);
  while (!ends.done.aborted) {
    const asked = clock.elapsed();
    const renewed = await renewInTime(context, held, {
      leftMs: heldSince + leaseTtlMs - asked,
      ...ends,
    });
    if (renewed === 'lost') {
      telemetry.log('WARN', 'a lease was lost', { lease: lease.name, generation: lease.generation });
      ends.lost.abort(new LeaseLost(lease.name, lease.generation));
      return undefined;
    }
    if (renewed !== undefined) {
      held = renewed;
      heldSince = asked;
    }
    // After a failure sooner, so that a store that answers again finds the lease still held.
    await clock.sleep(renewed === undefined ? leaseRenewalMs / 5 : leaseRenewalMs, ends.done);
  }
  return held;
}

/** The renewed lease; undefined when the store failed and there is time for another try, or when done. */
async function renewInTime(
  { metadata, clock, telemetry }: LeaseContext,
  lease: Lease,
  {
    leftMs,
    done,
    isLostOnceExpired,
  }: { readonly leftMs: number; readonly done: AbortSignal; readonly isLostOnceExpired: boolean },
): Promise<Lease | 'lost' | undefined> {
  if (leftMs <= 0) return 'lost';
  const answered = new AbortController();
  // A store that does not answer must not keep a holder believing in a lease that has run out.
  const tooLate = clock
    .sleep(leftMs, AbortSignal.any([answered.signal, done]))
    .then(() => (done.aborted ? undefined : ('lost' as const)));
  const renew = isLostOnceExpired ? renewUnexpired : renewLease;
  const renewal = renew(metadata, lease, leaseTtlMs).then(
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
