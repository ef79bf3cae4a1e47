/** Keeps a worker running: leadership, panics, backoff. Nothing here reaches a sibling or the gateway. */
import type { Context } from '../context.ts';
import { drawId } from '../domain/common/ids.ts';
import {
  acquireLease,
  findLease,
  type Lease,
  LeaseLost,
  leaderLease,
} from '../metadata/background/leases.ts';
import { type Gate, openGate } from './controls.ts';
import { IdleRest } from './idle-rest.ts';
import { type LeasePace, leaseTtlMs, withLease } from './leadership.ts';
import { backoffMs, ShardPanic, type Unit, type Worker } from './worker.ts';

type SupervisorContext = Pick<Context, 'metadata' | 'clock' | 'random' | 'telemetry'>;

/** What the workers of a process share. */
export interface Shared extends LeasePace {
  /** The name of this process in leases. */
  readonly process: string;
  hasEnded(process: string): boolean;
  /** Whether another process of the node should lead the worker: this one takes a free lease later than the other does. */
  isForOther(worker: string): boolean;
}

/** A run that lasted this long makes the next failure a first one. */
const healthyMs = 5 * 60_000;
/** How often a worker that does not lead tries to get the lease. */
const standbyMs = 5_000;
/** How much later a process takes a free lease that is for another process of the node. */
const courtesyMs = 15_000;

/** `stopped`: by the signal, which for a leased worker includes the loss of its lease. `shard`: one shard failed, and rests alone. */
type Ended = 'stopped' | 'standby' | 'failed' | 'shard';

/**
 * Runs one worker until the signal aborts, and resolves when its last unit has finished. Never throws.
 * @param shared absent: the worker rests and renews its lease at times of its own
 */
export async function supervise(
  context: SupervisorContext,
  worker: Worker,
  signal: AbortSignal,
  shared?: Shared,
): Promise<void> {
  const { clock } = context;
  const { gate = openGate } = worker;
  const standby = new IdleRest(context, shared?.pulses);
  let failures = 0;
  if (worker.leased && shared?.isForOther(worker.name) === true) await clock.sleep(courtesyMs, signal);
  while (!signal.aborted) {
    await gate.whenOpen(signal);
    const startedAt = clock.elapsed();
    const open = AbortSignal.any([signal, gate.closes]);
    standby.begin();
    const ended = await attempt(context, worker, { signal: open, shared, standby });
    if (open.aborted) continue;
    if (ended === 'stopped' || ended === 'standby') {
      await standby.rest(standbyMs, untilAsked(gate, open));
      continue;
    }
    if (ended === 'shard') {
      // The failed shard has a rest of its own. The rest of the worker stays short, so that the other shards do not wait.
      await clock.sleep(backoffMs[0], untilAsked(gate, open));
      continue;
    }
    if (clock.elapsed() - startedAt >= healthyMs) failures = 0;
    await clock.sleep(backoffMs[Math.min(failures, backoffMs.length - 1)] ?? 0, untilAsked(gate, open));
    failures += 1;
  }
}

/** Aborts a rest when an operator asks the worker to run now. */
const untilAsked = ({ wakes }: Gate, signal: AbortSignal): AbortSignal => AbortSignal.any([signal, wakes]);

interface Run {
  readonly signal: AbortSignal;
  readonly shared: Shared | undefined;
}

/** One attempt to lead and run. A store that cannot be reached for the lease is a failure, but no panic. */
async function attempt(
  context: SupervisorContext,
  worker: Worker,
  { signal, shared, standby }: Run & { readonly standby: IdleRest },
): Promise<Ended> {
  if (!worker.leased) return run(context, worker, { signal, shared, generation: 0 });
  try {
    // Every attempt has a holder name of its own, so that it is not mistaken for an earlier one.
    const lease = await acquireLease(context.metadata, {
      name: leaderLease(worker.name),
      holder: drawId(context.random),
      ttlMs: shared?.ttlMs ?? leaseTtlMs,
      ...(shared && { process: shared.process, hasEnded: shared.hasEnded }),
    });
    if (lease === undefined) {
      const other = await findLease(context.metadata, leaderLease(worker.name));
      standby.nothingBefore(() => freeAt(other, shared));
      return 'standby';
    }
    return await withLease(context, { lease, signal, pace: shared }, (leaseSignal) =>
      run(context, worker, { signal: leaseSignal, shared, generation: lease.generation }),
    );
  } catch (cause) {
    worker.watch?.failed(cause);
    context.telemetry.log('ERROR', 'a worker cannot reach its lease', { worker: worker.name, cause });
    return 'failed';
  }
}

/** When the lease of another holder is free, unless it is renewed or released. The end of a process commits nothing. */
function freeAt(other: Lease | undefined, shared: Shared | undefined): number {
  const hasEnded = other?.process !== undefined && shared?.hasEnded(other.process) === true;
  return other === undefined || hasEnded ? Number.NEGATIVE_INFINITY : other.expires;
}

async function run(
  context: SupervisorContext,
  worker: Worker,
  { signal, shared, generation }: Run & { readonly generation: number },
): Promise<Ended> {
  const { clock, telemetry } = context;
  const { watch, gate = openGate } = worker;
  telemetry.set('svc_worker_leader', { worker: worker.name }, 1);
  const ended = new AbortController();
  const untilEnd = AbortSignal.any([signal, ended.signal]);
  let unit: Unit | undefined;
  try {
    watch?.began(generation);
    const idle = new IdleRest(context, shared?.pulses);
    unit = worker.start(generation, idle);
    while (!signal.aborted) {
      idle.begin();
      const { runAt } = gate;
      const begunAt = clock.elapsed();
      const said = await unit(untilEnd);
      watch?.unitEnded(said, clock.elapsed() - begunAt);
      // A busy worker yields for a moment too, because the requests of this process come first.
      if (said === 'busy') await clock.sleep(0, signal);
      // An operator may have asked while the unit ran.
      else if (gate.runAt === runAt) await idle.rest(worker.everyMs, untilAsked(gate, signal));
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
    const shard = cause instanceof ShardPanic ? cause.label : '';
    telemetry.count('svc_worker_panic_total', { worker: worker.name, shard });
    telemetry.log('ERROR', 'a worker failed', { worker: worker.name, cause });
    return cause instanceof ShardPanic ? 'shard' : 'failed';
  } finally {
    // However the run has ended: the gauges of a worker are taken back.
    ended.abort();
    await unit?.end?.();
    watch?.ended();
    telemetry.set('svc_worker_leader', { worker: worker.name }, 0);
  }
}
