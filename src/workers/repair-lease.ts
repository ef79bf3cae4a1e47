/**
 * Lets one run at a time change what fsck compares: a rebuild makes rows for bytes that no row owns, and `--fix` queues such bytes for
 * deletion. The lease is held for a whole run of the command, and for each step of the `fsck` worker.
 */
import type { Context } from '../context.ts';
import { drawId } from '../domain/common/ids.ts';
import {
  acquireLease,
  findLease,
  holdsLease,
  LeaseLost,
  repairLease,
} from '../metadata/background/leases.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';

type RepairContext = LeaseContext & Pick<Context, 'random'>;

/** How often a command tries to get a lease that another run holds. */
const askMs = 500;

/** What a holder gets. */
export interface RepairTurn {
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  /** Called before each change: a holder that was paused may have a successor. @throws LeaseLost */
  assertMayRepair(): Promise<void>;
}

export class RepairElsewhere extends Error {
  constructor() {
    super(
      'another run of fsck that changes something is under way (--fix, --drop-missing, --rebuild or the worker fsck)',
    );
  }
}

/** Does `work` under the lease. @throws RepairElsewhere while another run holds it */
export async function repairAlone<T>(
  context: RepairContext,
  signal: AbortSignal,
  work: (turn: RepairTurn) => Promise<T>,
): Promise<T> {
  const { metadata } = context;
  const requested = { name: repairLease, holder: drawId(context.random), ttlMs: leaseTtlMs };
  const lease = await acquireLease(metadata, requested);
  if (lease === undefined) throw new RepairElsewhere();
  const assertMayRepair = async (): Promise<void> => {
    if (!(await holdsLease(metadata, lease))) throw new LeaseLost(repairLease, lease.generation);
  };
  return withLease(context, { lease, signal }, (held) => work({ signal: held, assertMayRepair }));
}

/**
 * Waits while a holder may be dead, or between two steps, because its lease then ends within its lifetime.
 * @throws RepairElsewhere where a holder renews its lease meanwhile: it lives, and its run may take days
 */
export async function repairAloneSoon<T>(
  context: RepairContext,
  signal: AbortSignal,
  work: (turn: RepairTurn) => Promise<T>,
): Promise<T> {
  const { metadata, clock } = context;
  const first = await findLease(metadata, repairLease);
  const until = clock.elapsed() + leaseTtlMs + 4 * askMs;
  for (;;) {
    try {
      return await repairAlone(context, signal, work);
    } catch (cause) {
      const held = await findLease(metadata, repairLease);
      const isRenewed = held?.generation === first?.generation && held?.revision !== first?.revision;
      if (!(cause instanceof RepairElsewhere) || isRenewed || clock.elapsed() > until) throw cause;
      await clock.sleep(askMs, signal);
      signal.throwIfAborted();
    }
  }
}
