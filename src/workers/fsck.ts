/**
 * `fsck`: compares metadata and data in the background, pass after pass. A unit processes pages for a tenth of a second, and the
 * supervisor rests for a second after it. So the load has a limit, and many small buckets share a unit.
 */
import type { Context } from '../context.ts';
import { isAhead } from '../domain/common/clock-skew.ts';
import { drawId } from '../domain/common/ids.ts';
import {
  beginComparing,
  Fsck,
  type FsckContext,
  type FsckFinding,
  fromTheStart,
  type SavedRun,
  savedRun,
  saveRun,
} from '../domain/fsck/fsck.ts';
import {
  acquireLease,
  findLease,
  holdsLease,
  LeaseLost,
  repairLease,
} from '../metadata/background/leases.ts';
import type { Term } from '../metadata/background/tasks.ts';
import type { Clock } from '../ports/clock.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';
import { inSteps, type Stepped, type Turn } from './worker.ts';

type FsckWorkerContext = FsckContext & Pick<Context, 'telemetry'>;

/** A unit begins no further page after this time (ms), */
const unitMs = 100;
/** or after this many pages. */
const unitPagesMax = 1_000;

/** Findings that a pass logs one by one; all are counted. */
const loggedMax = 100;

export const compareAll = inSteps<FsckWorkerContext, Comparison>({
  begin: async (context, generation) => new Comparison(context, await beginComparing(context, generation)),
  step: (_context, comparison, turn) => comparison.step(turn),
});

/** The passes of one leader. */
class Comparison {
  readonly #context: FsckWorkerContext;
  readonly #term: Term;
  #pass: { readonly fsck: Fsck; readonly run: SavedRun } | undefined;
  #logged = 0;
  #repair: RepairTurn | undefined;
  #isWaiting = false;

  constructor(context: FsckWorkerContext, term: Term) {
    this.#context = context;
    this.#term = term;
  }

  async step({ signal, runAt, report }: Turn): Promise<Stepped<Comparison>> {
    const context = this.#context;
    const term = this.#term;
    if (this.#pass === undefined) {
      const run = await dueRun(context, { term, runAt: runAt() });
      if (typeof run === 'number') return { is: 'idle', nothingBefore: run };
      this.#pass = this.#open(run);
    }
    const { fsck, run } = this.#pass;
    const before = fsck.state.seen;
    if (!(await this.#work(fsck, signal))) return { is: 'idle' };
    const { versions: seen, stored: read } = fsck.state.seen;
    report({ done: seen - before.versions + read - before.stored });
    if (!fsck.isDone) {
      await saveRun(context, 'worker', { ...run, state: fsck.state, term });
      return { is: 'idle' };
    }
    this.#pass = undefined;
    const finishedAt = await context.metadata.now();
    await saveRun(context, 'worker', { ...run, state: fsck.state, finishedAt, term });
    const { found, fixed, versions, stored } = fsck.state.seen;
    const level = found === fixed ? 'INFO' : 'ERROR';
    context.telemetry.log(level, 'metadata and data were compared', { found, fixed, versions, stored });
    return { is: 'idle' };
  }

  #open(run: SavedRun) {
    this.#logged = run.state.seen.found;
    const assertMayRepair = async (): Promise<void> => this.#repair?.assertMayRepair();
    const report = (finding: FsckFinding): void => {
      this.#logged += 1;
      if (this.#logged <= loggedMax)
        this.#context.telemetry.log('WARN', 'metadata and data do not match', { ...finding });
    };
    return { fsck: new Fsck({ ...this.#context, assertMayRepair }, { report, state: run.state }), run };
  }

  /** A pass that repairs waits while another run does. @returns whether it has worked */
  async #work(fsck: Fsck, signal: AbortSignal): Promise<boolean> {
    const { clock, telemetry } = this.#context;
    const { mode } = fsck.state;
    try {
      if (!mode.fix && !mode.drop) await processPages(fsck, clock, signal);
      else
        await repairAlone(this.#context, signal, async (taken) => {
          this.#repair = taken;
          await processPages(fsck, clock, taken.signal);
        });
      this.#isWaiting = false;
      return true;
    } catch (cause) {
      if (!(cause instanceof RepairElsewhere)) throw cause;
      if (!this.#isWaiting) telemetry.log('WARN', 'fsck is waiting', { cause: cause.message });
      this.#isWaiting = true;
      return false;
    }
  }
}

async function processPages(fsck: Fsck, clock: Pick<Clock, 'elapsed'>, signal: AbortSignal): Promise<void> {
  const endsAt = clock.elapsed() + unitMs;
  for (let page = 0; page < unitPagesMax; page += 1) {
    await fsck.step(signal);
    if (fsck.isDone || signal.aborted || clock.elapsed() >= endsAt) return;
  }
}

/**
 * The run that is under way, or a new one when it is due. The first one begins an interval after the first start.
 * @returns the store time (ms) of the next run where none is due
 */
async function dueRun(
  context: FsckWorkerContext,
  { term, runAt = 0 }: { readonly term: Term; readonly runAt: number | undefined },
): Promise<SavedRun | number> {
  const { metadata, config } = context;
  const now = await metadata.now();
  const last = await savedRun(context, 'worker');
  const mode = { fix: config.SVC_FSCK_FIX, drop: false };
  if (last === undefined) {
    const state = fromTheStart(mode);
    await saveRun(context, 'worker', {
      state: { ...state, position: { at: 'done' } },
      startedAt: now,
      finishedAt: now,
      term,
    });
    return now + config.SVC_FSCK_INTERVAL;
  }
  if (last.finishedAt === undefined) return last;
  const next = last.finishedAt + config.SVC_FSCK_INTERVAL;
  if (now < next && last.startedAt >= runAt && !isAhead(last.finishedAt, now)) return next;
  return { state: fromTheStart(mode), startedAt: now };
}

// Lets one run at a time change what fsck compares: a rebuild makes rows for bytes that no row owns, and `--fix` queues such bytes for
// deletion. The lease is held for a whole run of the command, and for each step of the `fsck` worker.

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
  return withLease(context, { lease, signal }, (leaseSignal) =>
    work({ signal: leaseSignal, assertMayRepair }),
  );
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
      const leaseSignal = await findLease(metadata, repairLease);
      const isRenewed =
        leaseSignal?.generation === first?.generation && leaseSignal?.revision !== first?.revision;
      if (!(cause instanceof RepairElsewhere) || isRenewed || clock.elapsed() > until) throw cause;
      await clock.sleep(askMs, signal);
      signal.throwIfAborted();
    }
  }
}
