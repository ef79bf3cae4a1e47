/**
 * `fsck`: compares metadata and data in the background, pass after pass. A unit processes pages for a tenth of a second, and the
 * supervisor rests for a second after it. So the load has a limit, and many small buckets share a unit.
 */
import type { Context } from '../context.ts';
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
import type { Term } from '../metadata/background/tasks.ts';
import type { Clock } from '../ports/clock.ts';
import { RepairElsewhere, type RepairTurn, repairAlone } from './repair-lease.ts';
import { type Unit, unsupervised } from './worker.ts';

type FsckWorkerContext = FsckContext & Pick<Context, 'telemetry'>;

/** A unit begins no further page after this time (ms), */
const unitMs = 100;
/** or after this many pages. */
const unitPagesMax = 1_000;

/** Findings that a pass logs one by one; all are counted. */
const loggedMax = 100;

/** @param generation of the leader's lease */
export const compareAll = (context: FsckWorkerContext, generation = 0, services = unsupervised): Unit => {
  const { telemetry, clock } = context;
  let working: { readonly fsck: Fsck; readonly run: SavedRun } | undefined;
  let logged = 0;
  let term: Term | undefined;
  const report = (finding: FsckFinding): void => {
    logged += 1;
    if (logged <= loggedMax) telemetry.log('WARN', 'metadata and data do not match', { ...finding });
  };
  let turn: RepairTurn | undefined;
  let isWaiting = false;
  const assertMayRepair = async (): Promise<void> => turn?.assertMayRepair();
  /** A pass that repairs waits while another run does. @returns whether it has worked */
  const work = async (fsck: Fsck, signal: AbortSignal): Promise<boolean> => {
    const { mode } = fsck.state;
    try {
      if (!mode.fix && !mode.drop) await processPages(fsck, clock, signal);
      else
        await repairAlone(context, signal, async (taken) => {
          turn = taken;
          await processPages(fsck, clock, taken.signal);
        });
      isWaiting = false;
      return true;
    } catch (cause) {
      if (!(cause instanceof RepairElsewhere)) throw cause;
      if (!isWaiting) telemetry.log('WARN', 'fsck is waiting', { cause: cause.message });
      isWaiting = true;
      return false;
    }
  };
  return async (signal) => {
    term ??= await beginComparing(context, generation);
    if (working === undefined) {
      const run = await dueRun(context, { term, runAt: services.runAt() });
      if (typeof run === 'number') {
        services.idle?.nothingBefore(run);
        return 'idle';
      }
      logged = run.state.seen.found;
      working = { fsck: new Fsck({ ...context, assertMayRepair }, { report, state: run.state }), run };
    }
    const { fsck, run } = working;
    const before = fsck.state.seen;
    if (!(await work(fsck, signal))) return 'idle';
    const { versions: seen, stored: read } = fsck.state.seen;
    services.report({ done: seen - before.versions + read - before.stored });
    if (!fsck.isDone) {
      await saveRun(context, 'worker', { ...run, state: fsck.state, term });
      return 'idle';
    }
    working = undefined;
    await saveRun(context, 'worker', {
      ...run,
      state: fsck.state,
      finishedAt: await context.metadata.now(),
      term,
    });
    const { found, fixed, versions, stored } = fsck.state.seen;
    const level = found === fixed ? 'INFO' : 'ERROR';
    telemetry.log(level, 'metadata and data were compared', { found, fixed, versions, stored });
    return 'idle';
  };
};

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
  if (now < next && last.startedAt >= runAt) return next;
  return { state: fromTheStart(mode), startedAt: now };
}
