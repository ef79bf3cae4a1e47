/**
 * Keeps `gc` from deleting bytes while a backup copies them. Bytes that gc deletes were queued before, and so are named by no row of a
 * later snapshot; only what is queued after the snapshot must stay.
 */
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/objects/version-ids.ts';
import { acquireLease, findLease } from '../../metadata/background/leases.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';

const holdLease = 'gc-hold';

export class HeldElsewhere extends Error {
  constructor() {
    super('another backup is running, or one was killed less than 15 seconds ago');
  }
}

/** Does `work` while nothing is deleted. Its signal aborts when the lease is lost. @throws HeldElsewhere */
export async function holdGarbage<T>(
  context: LeaseContext & Pick<Context, 'random'>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const wanted = { name: holdLease, holder: drawId(context.random), ttlMs: leaseTtlMs };
  const lease = await acquireLease(context.metadata, wanted);
  if (lease === undefined) throw new HeldElsewhere();
  return withLease(context, { lease, signal }, work);
}

/** Whether a backup runs now. */
export async function isGarbageHeld({ metadata }: Pick<LeaseContext, 'metadata'>): Promise<boolean> {
  const [lease, now] = await Promise.all([findLease(metadata, holdLease), metadata.now()]);
  return lease !== undefined && lease.expires > now;
}
