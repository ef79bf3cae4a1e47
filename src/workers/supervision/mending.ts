/**
 * Lets one run at a time change what fsck compares: a rebuild makes rows for bytes that no row owns, and `--fix` queues such bytes for
 * deletion. The lease is held for a whole run of the command, and for each step of the `fsck` worker.
 */
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/common/ids.ts';
import {
  acquireLease,
  findLease,
  holdsLease,
  LeaseLost,
  mendingLease,
} from '../../metadata/background/leases.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';

type MendingContext = LeaseContext & Pick<Context, 'random'>;

/** How often a command tries to get a lease that another run holds. */
const askMs = 500;

/** What a holder gets. */
export interface MendingTurn {
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  /** Called before each change: a holder that was paused may have a successor. @throws LeaseLost */
  assertMayMend(): Promise<void>;
}

export class MendingElsewhere extends Error {
  constructor() {
    super(
      'another run of fsck that changes something is under way (--fix, --drop-missing, --rebuild or the worker fsck)',
    );
  }
}

/** Does `work` under the lease. @throws MendingElsewhere while another run holds it */
export async function mendAlone<T>(
  context: MendingContext,
  signal: AbortSignal,
  work: (turn: MendingTurn) => Promise<T>,
): Promise<T> {
  const { metadata } = context;
  const wanted = { name: mendingLease, holder: drawId(context.random), ttlMs: leaseTtlMs };
  const lease = await acquireLease(metadata, wanted);
  if (lease === undefined) throw new MendingElsewhere();
  const assertMayMend = async (): Promise<void> => {
    if (!(await holdsLease(metadata, lease))) throw new LeaseLost(mendingLease, lease.generation);
  };
  return withLease(context, { lease, signal }, (held) => work({ signal: held, assertMayMend }));
}

/**
 * Waits while a holder may be dead, or between two steps, because its lease then ends within its lifetime.
 * @throws MendingElsewhere where a holder renews its lease meanwhile: it lives, and its run may take days
 */
export async function mendAloneSoon<T>(
  context: MendingContext,
  signal: AbortSignal,
  work: (turn: MendingTurn) => Promise<T>,
): Promise<T> {
  const { metadata, clock } = context;
  const first = await findLease(metadata, mendingLease);
  const until = clock.elapsed() + leaseTtlMs + 4 * askMs;
  for (;;) {
    try {
      return await mendAlone(context, signal, work);
    } catch (cause) {
      const held = await findLease(metadata, mendingLease);
      const isRenewed = held?.generation === first?.generation && held?.revision !== first?.revision;
      if (!(cause instanceof MendingElsewhere) || isRenewed || clock.elapsed() > until) throw cause;
      await clock.sleep(askMs, signal);
      signal.throwIfAborted();
    }
  }
}
