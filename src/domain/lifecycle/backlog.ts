/** What a pass over a bucket has left: the entries of the age index that its rules may act on, in all and for each rule. */
import type { Context } from '../../context.ts';
import { everyTask } from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { dayMs } from '../../metadata/objects/ages.ts';
import type { AgeRow } from '../../metadata/records/ages.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { readRules } from '../configurations/families.ts';
import type { Lifecycle } from '../configurations/lifecycle-rules.ts';
import { lockTime } from '../objects/object-lock.ts';
import { endOf, type LifecycleProgress, lifecycleTasks, type Position } from './progress.ts';
import { type DueEntries, openWindows, readDuePage, startPosition, type Window } from './walk.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

export const pageRows = 500;
/** Entries that one count reads. */
const countedMax = 10_000_000;

interface RuleBacklog {
  readonly entries: number;
  /** The day (`YYYY-MM-DD`) of the oldest of them. */
  readonly oldestDueDay: string;
  /** Entries of all rules that the pass reads up to the last one of this rule. */
  readonly until: number;
}

export interface Backlog {
  /** Entries that the rules may act on and that the pass has not read; after it, those that its transitions have not. */
  readonly backlog: number;
  /** The count was cut off by its time: there are more. */
  readonly isBacklogCut: boolean;
  readonly oldestDueDay: string | undefined;
  /** By the id of the rule; an entry that several rules may act on is counted for each of them. */
  readonly byRule: ReadonlyMap<string, RuleBacklog>;
}
export const noBacklog: Backlog = {
  backlog: 0,
  isBacklogCut: false,
  oldestDueDay: undefined,
  byRule: new Map(),
};

const dayName = (day: number): string => new Date(day * dayMs).toISOString().slice(0, 10);

interface Counted {
  entries: number;
  oldest: number;
  until: number;
}

interface Passing {
  readonly bucket: BucketRow;
  readonly lifecycle: Lifecycle;
  readonly progress: LifecycleProgress;
  readonly now: number;
}

/** @param until monotonic time (ms) at which the count is cut off */
export async function countBacklog(
  ctx: Ctx,
  { bucket, lifecycle, progress, now }: Passing,
  until: number,
): Promise<Backlog> {
  const due = { bucket, first: progress.first, windows: openWindows(lifecycle, now) };
  const byRule = new Map<string, Counted>();
  let backlog = 0;
  let oldest: number | undefined;
  let isBacklogCut = false;
  for await (const rows of duePages(ctx, due, {
    from: progress.position ?? progress.moves,
    max: countedMax,
  })) {
    for (const row of rows) {
      backlog += 1;
      oldest = Math.min(oldest ?? row.day, row.day);
      for (const rule of findRules(due.windows[row.kind], row)) count(byRule, rule, row.day, backlog);
    }
    isBacklogCut = ctx.clock.elapsed() >= until;
    if (isBacklogCut) break;
    // Reads of an embedded store never wait, so without this pause no other request of this process would be served.
    await ctx.clock.sleep(0);
  }
  return {
    backlog,
    isBacklogCut,
    oldestDueDay: oldest === undefined ? undefined : dayName(oldest),
    byRule: new Map(
      [...byRule].map(([rule, { oldest: day, ...counted }]) => [
        rule,
        { ...counted, oldestDueDay: dayName(day) },
      ]),
    ),
  };
}

/** The rules that may act on an entry. */
function findRules(windows: readonly Window[], { key, day }: AgeRow): ReadonlySet<string> {
  const rules = new Set<string>();
  for (const { rule, prefix, lastDay } of windows)
    if (day <= lastDay && key.startsWith(prefix)) rules.add(rule);
  return rules;
}

function count(byRule: Map<string, Counted>, rule: string, day: number, until: number): void {
  const counted = byRule.get(rule);
  if (counted === undefined) byRule.set(rule, { entries: 1, oldest: day, until });
  else {
    counted.entries += 1;
    counted.oldest = Math.min(counted.oldest, day);
    counted.until = until;
  }
}

export async function* duePages(
  { metadata }: Pick<Ctx, 'metadata'>,
  due: DueEntries,
  { from, max }: { readonly from?: Position | undefined; readonly max: number },
): AsyncGenerator<readonly AgeRow[]> {
  let at: Position | undefined = from ?? startPosition(due);
  for (let read = 0; at !== undefined && read < max; ) {
    const { rows, next } = await readDuePage(metadata, due, { from: at, max: pageRows });
    // An empty page costs as much as a full one.
    read += Math.max(rows.length, pageRows);
    yield rows;
    at = next;
  }
}

/** The backlog of the pass that runs over a bucket; undefined while its versions are indexed. @param until as of `countBacklog` */
export async function leftInPass(
  ctx: Ctx,
  { name, state: progress }: { readonly name: string; readonly state: LifecycleProgress },
  until: number,
): Promise<{ readonly count: number; readonly isCut: boolean } | undefined> {
  if (progress.indexing.at !== 'done') return undefined;
  const bucket = (await findBucket(ctx.metadata, progress.bucket))?.row;
  const lifecycle = bucket?.id === name ? await readRules(ctx, bucket) : undefined;
  if (bucket === undefined || lifecycle === undefined) return { count: 0, isCut: false };
  const now = await lockTime(ctx);
  const { backlog, isBacklogCut } = await countBacklog(ctx, { bucket, lifecycle, progress, now }, until);
  return { count: backlog, isCut: isBacklogCut };
}

/** The backlog of all passes that run, and how long the oldest of them does. @param until as of `countBacklog` */
export async function countAllBacklogs(
  ctx: Ctx,
  until: number,
): Promise<{ readonly left: number; readonly isCut: boolean; readonly oldestSeconds?: number }> {
  let left = 0;
  let isCut = false;
  let oldestAt: number | undefined;
  const now = await lockTime(ctx);
  for await (const { name, state: progress } of everyTask(ctx.metadata, lifecycleTasks)) {
    isCut ||= ctx.clock.elapsed() >= until;
    if (isCut) break;
    if (endOf(progress) !== undefined) continue;
    if (progress.indexing.at !== 'done') continue;
    const bucket = (await findBucket(ctx.metadata, progress.bucket))?.row;
    if (bucket?.id !== name) continue;
    const lifecycle = await readRules(ctx, bucket);
    if (lifecycle === undefined) continue;
    const { backlog, isBacklogCut } = await countBacklog(ctx, { bucket, lifecycle, progress, now }, until);
    left += backlog;
    isCut ||= isBacklogCut;
    oldestAt = Math.min(oldestAt ?? progress.startedAt, progress.startedAt);
  }
  return { left, isCut, ...(oldestAt === undefined ? {} : { oldestSeconds: (now - oldestAt) / 1000 }) };
}
