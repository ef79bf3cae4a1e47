/** `fsck`: compares metadata and data in the background, a page at a time with a rest after each, pass after pass. */
import type { Context } from '../../context.ts';
import { Fsck, type FsckContext, type FsckFinding, fromTheStart } from '../../domain/storage/fsck/fsck.ts';
import { beginComparing, type SavedRun, savedRun, saveRun } from '../../domain/storage/fsck/saved-run.ts';
import type { Term } from '../../metadata/background/tasks.ts';
import { MendingElsewhere, type MendingTurn, mendAlone } from '../supervision/mending.ts';
import { type Unit, unsupervised } from '../supervision/worker.ts';

export type FsckWorkerContext = FsckContext & Pick<Context, 'telemetry'>;

/** Findings that a pass logs one by one; all are counted. */
const loggedMax = 100;

/** @param generation of the leader's lease */
export const compareAll = (context: FsckWorkerContext, generation = 0, services = unsupervised): Unit => {
  const { telemetry } = context;
  let working: { readonly fsck: Fsck; readonly run: SavedRun } | undefined;
  let logged = 0;
  let term: Term | undefined;
  const report = (finding: FsckFinding): void => {
    logged += 1;
    if (logged <= loggedMax) telemetry.log('WARN', 'metadata and data do not match', { ...finding });
  };
  let turn: MendingTurn | undefined;
  let isWaiting = false;
  const assertMayMend = async (): Promise<void> => turn?.assertMayMend();
  /** A pass that mends waits while another run does. @returns whether it has worked */
  const step = async (fsck: Fsck, signal: AbortSignal): Promise<boolean> => {
    const { mode } = fsck.state;
    try {
      if (!mode.fix && !mode.drop) await fsck.step(signal);
      else
        await mendAlone(context, signal, async (taken) => {
          turn = taken;
          await fsck.step(taken.signal);
        });
      isWaiting = false;
      return true;
    } catch (cause) {
      if (!(cause instanceof MendingElsewhere)) throw cause;
      if (!isWaiting) telemetry.log('WARN', 'fsck is waiting', { cause: cause.message });
      isWaiting = true;
      return false;
    }
  };
  return async (signal) => {
    term ??= await beginComparing(context, generation);
    if (working === undefined) {
      const run = await dueRun(context, term);
      if (run === undefined) return 'idle';
      logged = run.state.seen.found;
      working = { fsck: new Fsck({ ...context, assertMayMend }, { report, state: run.state }), run };
    }
    const { fsck, run } = working;
    const before = fsck.state.seen;
    if (!(await step(fsck, signal))) return 'idle';
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

/** The run that is under way, or a new one when it is due. The first one begins an interval after the first start. */
async function dueRun(context: FsckWorkerContext, term: Term): Promise<SavedRun | undefined> {
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
    return undefined;
  }
  if (last.finishedAt === undefined) return last;
  if (now - last.finishedAt < config.SVC_FSCK_INTERVAL) return undefined;
  return { state: fromTheStart(mode), startedAt: now };
}
