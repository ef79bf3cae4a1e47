/** `lifecycle`: carries out the lifecycle rules of all buckets, a page of each bucket in turn. */
import type { Context } from '../context.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { isDue, type PassCtx, type Step, stepBucket } from '../domain/lifecycle/pass.ts';
import { type LifecycleProgress, lifecycleTasks } from '../domain/lifecycle/progress.ts';
import { lockTime } from '../domain/objects/object-lock.ts';
import { behindClients, openPace, type Pace } from '../domain/rebalance/pace.ts';
import { beginTerm, everyTask, type Task, type Term } from '../metadata/background/tasks.ts';
import { dayMs, lateBuckets, scanLifecycleBuckets } from '../metadata/objects/ages.ts';
import type { LifecycleBucketRow } from '../metadata/records/ages.ts';
import { soundPages } from '../metadata/sound-rows.ts';
import { noLabels, type Telemetry } from '../ports/telemetry.ts';
import { inSteps, ShardRound, type WorkerServices } from './worker.ts';

export type LifecycleContext = PassCtx & Pick<Context, 'telemetry'>;

/** Buckets that take turns in one unit. The next unit begins with those behind them, so no bucket starves another. */
const turnsMax = 256;
/** After this time a unit ends, so that the list of buckets is read again. */
const unitMs = 5_000;
const pageRows = 500;
/** Buckets with versions that are older than their commit; others have their turn in a later unit. */
const lateMax = 100_000;

interface Turn {
  readonly listed: LifecycleBucketRow;
  task: Task<LifecycleProgress> | undefined;
}

interface Passes {
  readonly term: Term;
  readonly actions: Pace;
  readonly bytes: Pace;
  /** The id of the last bucket that had its turn. */
  readonly behind: string;
}

export const carryOutLifecycles = inSteps<LifecycleContext, Passes>({
  retire: ({ telemetry }) => showPasses(telemetry, undefined),
  async begin(context, generation, { yieldToClients }) {
    const { config, clock, metadata } = context;
    warnOfShortDays(context);
    return {
      term: await beginTerm(metadata, lifecycleTasks, generation),
      actions: behindClients(openPace(clock, config.SVC_LIFECYCLE_RATE), yieldToClients),
      bytes: behindClients(openPace(clock, config.SVC_LIFECYCLE_BYTES_RATE), yieldToClients),
      behind: '',
    };
  },
  async step(context, saved, services) {
    const { clock } = context;
    const { signal, yieldToClients } = services;
    const { term, actions, bytes } = saved;
    const { turns, hasMore } = await findTurns(context, { behind: saved.behind, services });
    const behind = hasMore ? (turns.at(-1)?.listed.bucketId ?? '') : '';
    const until = clock.elapsed() + unitMs;
    const open = new Set(turns);
    const round = new ShardRound(services, signal);
    while (open.size > 0 && clock.elapsed() < until) {
      for (const turn of [...open]) {
        if (signal.aborted) return { is: 'idle' };
        await yieldToClients(signal);
        const step: Step = { ...turn, term, actions, bytes, signal };
        const { bucket: name, bucketId: id } = turn.listed;
        const onFailure = (cause: unknown) => noteTaskError(context, lifecycleTasks, { name: id, cause });
        const succeeded = await round.work({ id, name, onFailure }, async () => {
          const stepped = await stepBucket(context, step);
          if (stepped?.isBusy) turn.task = stepped.task;
          else open.delete(turn);
        });
        if (!succeeded) open.delete(turn);
      }
    }
    if (!signal.aborted) await reportPasses(context, open);
    round.end();
    return { is: open.size > 0 || hasMore ? 'busy' : 'idle', saved: { ...saved, behind } };
  },
});

function warnOfShortDays({ config, telemetry }: LifecycleContext): void {
  if (config.SVC_LIFECYCLE_DAY === dayMs) return;
  const seconds = config.SVC_LIFECYCLE_DAY / 1000;
  telemetry.log('WARN', 'lifecycle rules count shorter days (SVC_LIFECYCLE_DAY): objects are deleted early', {
    seconds,
  });
}

/** @param passes that have begun, and how long the oldest has run; undefined where this process does not lead any more */
function showPasses(
  telemetry: Telemetry,
  passes: { readonly count: number; readonly oldestSeconds: number } | undefined,
): void {
  telemetry.set('svc_lifecycle_passes', noLabels, passes?.count);
  telemetry.set('svc_lifecycle_oldest_pass_seconds', noLabels, passes?.oldestSeconds);
}

async function reportPasses(
  { metadata, telemetry }: LifecycleContext,
  open: ReadonlySet<Turn>,
): Promise<void> {
  const now = await metadata.now();
  const since = [...open].map(({ task }) => task?.state.startedAt ?? now);
  showPasses(telemetry, { count: open.size, oldestSeconds: (now - Math.min(now, ...since)) / 1000 });
}

/** The buckets that are due, by id, from the one behind `behind`. The list and the progress have the same order. */
async function findTurns(
  context: LifecycleContext,
  { behind, services }: { readonly behind: string; readonly services: WorkerServices },
): Promise<{ readonly turns: readonly Turn[]; readonly hasMore: boolean }> {
  const now = await lockTime(context);
  const { metadata } = context;
  const progress = everyTask(metadata, lifecycleTasks);
  let known = await progress.next();
  const late = new Set<string>();
  for await (const id of lateBuckets(metadata)) if (late.size < lateMax) late.add(id);
  const turns: Turn[] = [];
  for await (const page of soundPages(scanLifecycleBuckets(metadata), pageRows))
    for (const { row } of page) {
      while (!known.done && known.value.name < row.bucketId) known = await progress.next();
      const task = !known.done && known.value.name === row.bucketId ? known.value : undefined;
      const due = { now, hasLate: late.has(row.bucketId), runAt: services.runAt() };
      if (row.bucketId <= behind || !isDue(row, task, due)) continue;
      if (services.shards?.isResting(row.bucketId)) continue;
      if (turns.length === turnsMax) return { turns, hasMore: true };
      turns.push({ listed: row, task });
    }
  return { turns, hasMore: behind !== '' };
}
