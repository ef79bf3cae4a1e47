/** The saved position and findings of the scrub, from which it resumes after a kill and which the operator API reports. */
import type { Context } from '../../../context.ts';
import {
  assertLeads,
  beginTerm,
  everyTask,
  findTask,
  putTasks,
  type Task,
  type TaskChange,
  type TaskKind,
  type Term,
} from '../../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../../metadata/records/tasks.ts';
import { countHeld } from '../../buckets/class-stats.ts';
import { advanceProgress, amountLeft, type Measure } from '../../tasks/progress.ts';
import { type DamagedContent, nothingRead, type ScrubRun } from './state.ts';

type Ctx = Pick<Context, 'metadata'>;

/** One partition, so that a pass and its findings are saved in one commit. */
const kind = 'scrub';
export const scrubRuns: TaskKind<ScrubRun> = { kind };
const contents: TaskKind<ScrubRun | DamagedContent> = { kind };

export const runName = 'run';
const prefix = 'damaged/';

/** Damaged versions and parts that are listed by name; more are only counted. */
export const listedMax = 1_000;
/** Rows that leave the list in one commit. */
const removedAtOnce = 32;

/** After it returns, no earlier leader can save anything. @throws LeaseLost */
export const beginScrubbing = ({ metadata }: Ctx, generation: number): Promise<Term> =>
  beginTerm(metadata, scrubRuns, generation);

export const savedScrub = ({ metadata }: Ctx): Promise<Task<ScrubRun> | undefined> =>
  findTask(metadata, scrubRuns, runName);

export const nextRun = (former: ScrubRun | undefined, now: number): ScrubRun => ({
  firstAt: former?.firstAt ?? now,
  ...(former?.completeFrom === undefined ? {} : { completeFrom: former.completeFrom }),
  lastDamaged: former?.seen.damaged ?? 0,
  listed: former?.listed ?? 0,
  startedAt: now,
  position: { at: 'buckets', slot: 0 },
  seen: nothingRead,
});

const doneOf = ({ versions, parts, bytes }: ScrubRun['seen']) => ({ count: versions + parts, bytes });

const measureScrub = ({ startedAt, finishedAt, seen }: ScrubRun): Measure => ({
  startedAt,
  finishedAt,
  done: doneOf(seen),
});

/** By the last count of all buckets. */
export async function leftToScrub(
  ctx: Ctx,
  { state: { seen } }: Pick<Task<ScrubRun>, 'state'>,
): Promise<TaskAmount | undefined> {
  const held = await countHeld(ctx);
  return held && amountLeft(held, doneOf(seen));
}

export interface SavedStep {
  readonly run: ScrubRun;
  readonly damaged?: ReadonlyMap<string, DamagedContent>;
  /** The task that the step began with. */
  readonly former: Task<ScrubRun> | undefined;
  readonly term?: Term;
}

/**
 * @returns the contents that were not listed before; undefined when another pass began meanwhile, and nothing is saved
 * @throws LeaseLost when a later leader has begun
 */
export async function saveStep(
  { metadata }: Ctx,
  { run, damaged = new Map(), former, term }: SavedStep,
): Promise<readonly DamagedContent[] | undefined> {
  const changes: TaskChange<ScrubRun | DamagedContent>[] = [];
  const added: DamagedContent[] = [];
  for (const [name, found] of damaged) {
    const known = await findTask(metadata, contents, prefix + name);
    if (known === undefined && run.listed + added.length >= listedMax) continue;
    const { foundAt } = (known?.state ?? found) as DamagedContent;
    if (known === undefined) added.push(found);
    const put = { name: prefix + name, state: { ...found, foundAt } };
    changes.push({ put, expect: known?.revision ?? 'absent' });
  }
  const state = { ...run, listed: run.listed + added.length };
  const progress = advanceProgress(former?.progress, measureScrub(state), await metadata.now());
  changes.push({ put: { name: runName, state, progress }, expect: former?.revision ?? 'absent' });
  const outcome = await putTasks(metadata, contents, { changes, term });
  if (outcome.applied) return added;
  if (term !== undefined) await assertLeads(metadata, scrubRuns, term);
  return undefined;
}

/** The contents that are known to be damaged. */
export async function* damagedContents({ metadata }: Ctx): AsyncGenerator<Task<DamagedContent>> {
  for await (const { name, state, revision } of everyTask(metadata, contents))
    if (name.startsWith(prefix)) yield { name, state: state as DamagedContent, revision };
}

/** After a complete pass, removes the contents from the list that the pass did not find damaged. @returns the number that is left */
export async function forgetSound({ metadata }: Ctx, { startedAt }: ScrubRun, term: Term): Promise<number> {
  let left = 0;
  let gone: TaskChange<DamagedContent>[] = [];
  const remove = async (): Promise<void> => {
    if (gone.length === 0) return;
    const outcome = await putTasks(metadata, contents, { changes: gone, term });
    if (!outcome.applied) await assertLeads(metadata, scrubRuns, term);
    gone = [];
  };
  for await (const { name, state, revision } of damagedContents({ metadata })) {
    if (state.pass >= startedAt) left += 1;
    else gone.push({ remove: { name }, expect: revision });
    if (gone.length === removedAtOnce) await remove();
  }
  await remove();
  return left;
}
