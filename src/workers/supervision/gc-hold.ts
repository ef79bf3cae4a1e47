/**
 * Keeps `gc` from deleting bytes while a backup copies them. Bytes that gc deletes were queued before, and so are named by no row of a
 * later snapshot; only what is queued after the snapshot must stay.
 */
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/objects/version-ids.ts';
import { acquireLease, findLease, holdsLease, LeaseLost } from '../../metadata/background/leases.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';

const holdLease = 'gc-hold';

export class HeldElsewhere extends Error {
  constructor() {
    super('another backup is running, or one was killed less than 15 seconds ago');
  }
}

export interface GarbageHold {
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  /** Called at the end of the work: proves that gc deleted nothing meanwhile. @throws LeaseLost */
  assertHeld(): Promise<void>;
}

/** Does `work` while nothing is deleted. @throws HeldElsewhere, LeaseLost */
export async function holdGarbage<T>(
  context: LeaseContext & Pick<Context, 'random'>,
  signal: AbortSignal,
  work: (hold: GarbageHold) => Promise<T>,
): Promise<T> {
  const wanted = { name: holdLease, holder: drawId(context.random), ttlMs: leaseTtlMs };
  const lease = await acquireLease(context.metadata, wanted);
  if (lease === undefined) throw new HeldElsewhere();
  const assertHeld = async (): Promise<void> => {
    if (!(await holdsLease(context.metadata, lease))) throw new LeaseLost(holdLease, lease.generation);
  };
  // gc reads the lease and never takes it: once it has expired, bytes may have been deleted.
  const held = { lease, signal, isLostOnceExpired: true };
  return withLease(context, held, (lasting) => work({ signal: lasting, assertHeld }));
}

/** Whether a backup runs now. */
export async function isGarbageHeld({ metadata }: Pick<LeaseContext, 'metadata'>): Promise<boolean> {
  const [lease, now] = await Promise.all([findLease(metadata, holdLease), metadata.now()]);
  return lease !== undefined && lease.expires > now;
}
