/** Keeps a worker running: leadership, panics, backoff. Nothing here reaches a sibling or the gateway. */
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/objects/version-ids.ts';
import { acquireLease, LeaseLost, leaderLease } from '../../metadata/background/leases.ts';
import { leaseTtlMs, withLease } from './leadership.ts';
import { ShardPanic, type Worker } from './worker.ts';

export type SupervisorContext = Pick<Context, 'metadata' | 'clock' | 'random' | 'telemetry'>;

/** Pauses after the first, second, third and every further failure in a row. */
const backoffMs = [1_000, 5_000, 30_000, 120_000] as const;
/** A run that lasted this long makes the next failure a first one. */
const healthyMs = 5 * 60_000;
/** How often a worker that does not lead tries to get the lease. */
const standbyMs = 5_000;

/** `stopped`: by the signal, which for a leased worker includes the loss of its lease. */
type Ended = 'stopped' | 'standby' | 'failed';

/** Runs one worker until the signal aborts, and resolves when its last unit has finished. Never throws. */
export async function supervise(
  context: SupervisorContext,
  worker: Worker,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = context;
  let failures = 0;
  while (!signal.aborted) {
    const startedAt = clock.elapsed();
    const ended = await attempt(context, worker, signal);
    if (signal.aborted) return;
    if (ended !== 'failed') {
      await clock.sleep(standbyMs, signal);
      continue;
    }
    if (clock.elapsed() - startedAt >= healthyMs) failures = 0;
    await clock.sleep(backoffMs[Math.min(failures, backoffMs.length - 1)] ?? 0, signal);
    failures += 1;
  }
}

/** One attempt to lead and run. A store that cannot be reached for the lease is a failure, but no panic. */
async function attempt(context: SupervisorContext, worker: Worker, signal: AbortSignal): Promise<Ended> {
  if (!worker.leased) return run(context, worker, { signal, generation: 0 });
  try {
    // Every attempt has a holder name of its own, so that it is not mistaken for an earlier one.
    const wanted = { name: leaderLease(worker.name), holder: drawId(context.random), ttlMs: leaseTtlMs };
    const lease = await acquireLease(context.metadata, wanted);
    if (lease === undefined) return 'standby';
    return await withLease(context, { lease, signal }, (held) =>
      run(context, worker, { signal: held, generation: lease.generation }),
    );
  } catch (cause) {
    worker.watch?.failed(cause);
    context.telemetry.log('ERROR', 'a worker cannot reach its lease', { worker: worker.name, cause });
    return 'failed';
  }
}

async function run(
  context: SupervisorContext,
  worker: Worker,
  { signal, generation }: { readonly signal: AbortSignal; readonly generation: number },
): Promise<Ended> {
  const { clock, telemetry } = context;
  const { watch } = worker;
  telemetry.workerLeads(worker.name, true);
  try {
    watch?.began(generation);
    const unit = worker.start(generation);
    while (!signal.aborted) {
      const begunAt = clock.elapsed();
      const said = await unit(signal);
      watch?.unitEnded(said, clock.elapsed() - begunAt);
      // A busy worker yields for a moment too, because the requests of this process come first.
      await clock.sleep(said === 'busy' ? 0 : worker.everyMs, signal);
    }
    return 'stopped';
  } catch (cause) {
    // A unit that was aborted may throw before it ends.
    if (signal.aborted) {
      telemetry.log('DEBUG', 'a worker was interrupted', { worker: worker.name, cause });
      return 'stopped';
    }
    // The holder was paused: a later one leads, and has fenced what this one was about to write.
    if (cause instanceof LeaseLost) {
      telemetry.log('WARN', 'a lease was lost', { worker: worker.name, generation, cause });
      return 'standby';
    }
    watch?.failed(cause);
    telemetry.workerPanicked(worker.name, cause instanceof ShardPanic ? cause.shard : '');
    telemetry.log('ERROR', 'a worker failed', { worker: worker.name, cause });
    return 'failed';
  } finally {
    watch?.ended();
    telemetry.workerLeads(worker.name, false);
  }
}
