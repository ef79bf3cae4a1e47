/** `lifecycle`: carries out the lifecycle rules of all buckets, a page of each bucket in turn, and transitions beside them. */
import { inParallel } from '../base/concurrency.ts';
import type { Context } from '../context.ts';
import { findBucketAccount } from '../domain/common/buckets.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { openTurns } from '../domain/common/turns.ts';
import { isDue, type PassCtx, type Step, stepBucket } from '../domain/lifecycle/pass.ts';
import { type LifecycleProgress, lifecycleTasks } from '../domain/lifecycle/progress.ts';
import { lockTime } from '../domain/objects/object-lock.ts';
import { behindClients, openPace, type Pace } from '../domain/rebalance/pace.ts';
import { beginTerm, everyTask, type Task, type Term } from '../metadata/background/tasks.ts';
import { dayMs, lateBuckets, scanLifecycleBuckets } from '../metadata/objects/ages.ts';
import type { LifecycleBucketRow } from '../metadata/records/ages.ts';
import { soundPages } from '../metadata/sound-rows.ts';
import { noLabels, type Telemetry } from '../ports/telemetry.ts';
import { inSteps, ShardRound, type Turn } from './worker.ts';

export type LifecycleContext = PassCtx & Pick<Context, 'telemetry'>;

/** Buckets that take turns in one unit. The next unit begins with those behind them, so no bucket starves another. */
const turnsMax = 256;
/** After this time a unit ends, once each account had a turn: the accounts of the next unit wait for it. */
const unitMs = 5_000;
const pageRows = 500;
const ownersAtOnce = 16;

interface BucketTurn {
  readonly listed: LifecycleBucketRow;
  /** Whether a pass is due; otherwise only transitions of the last one. */
  readonly hasPass: boolean;
  task: Task<LifecycleProgress> | undefined;
}

/** Turns of transitions that run at a time, each for another account. */
const moveTurnsMax = 4;
/** Nothing but transitions under way: the worker looks for due buckets as often as this. */
const moveRestMs = 5_000;

/** Turns in which transitions copy bytes. They run beside the turns of passes: only those of the same bucket wait for them. */
class MoveTurns {
  /** By account. */
  readonly #running = new Map<string, { readonly bucketId: string; readonly ended: Promise<unknown> }>();

  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** The buckets whose transitions move now. */
  buckets(): ReadonlySet<string> {
    return new Set([...this.#running.values()].map(({ bucketId }) => bucketId));
  }

  /** Does nothing where no turn is free: the bucket asks again. */
  begin(owner: string, bucketId: string, work: () => Promise<unknown>): void {
    if (this.#running.size >= moveTurnsMax || this.#running.has(owner)) return;
    const ended = work().finally(() => this.#running.delete(owner));
    this.#running.set(owner, { bucketId, ended });
  }

  /** Waits until a turn ends, but not longer than a moment. */
  async next({ clock }: Pick<LifecycleContext, 'clock'>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const rest = clock.sleep(moveRestMs, AbortSignal.any([signal, over.signal]));
    await Promise.race([rest, ...[...this.#running.values()].map(({ ended }) => ended)]);
    over.abort();
  }

  /** Waits until all have ended. */
  async end(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }
}

interface Passes {
  readonly term: Term;
  readonly actions: Pace;
  readonly bytes: Pace;
  /** The id of the last bucket of the unit before; undefined where a new round over all buckets begins. */
  readonly behind?: string | undefined;
  /**
   * What has failed in this run. It is thrown at the end of a round, because a run that fails begins with the first bucket again, and when no
   * transition is under way, because the end of the run would cut it. Only the first failure is thrown, so `svc_worker_panic_total` counts one,
   * however many buckets failed. Each of them has its own error noted.
   */
  readonly shards: ShardRound;
  readonly moves: MoveTurns;
}

export const carryOutLifecycles = inSteps<LifecycleContext, Passes>({
  retire: ({ telemetry }) => showPasses(telemetry, undefined),
  end: ({ moves }) => moves.end(),
  async begin(context, generation, turn) {
    const { config, clock, metadata } = context;
    const { signal, yieldToClients } = turn;
    warnOfShortDays(context);
    return {
      term: await beginTerm(metadata, lifecycleTasks, generation),
      actions: behindClients(openPace(clock, config.SVC_LIFECYCLE_RATE), yieldToClients),
      bytes: behindClients(openPace(clock, config.SVC_LIFECYCLE_BYTES_RATE), yieldToClients),
      shards: new ShardRound(turn, signal),
      moves: new MoveTurns(),
    };
  },
  async step(context, saved, services) {
    const { signal, yieldToClients } = services;
    const { behind, term, actions, bytes, shards, moves } = saved;
    let hasMoves = false;
    const { turns, isEnd } = await findTurns(context, { behind, services, moves });
    const left = await takeTurns(context, turns, async (turn) => {
      if (signal.aborted) return false;
      await yieldToClients(signal);
      const step: Step = { ...turn, term, actions, bytes, signal, runAt: services.runAt() };
      const { bucket: name, bucketId: id } = turn.listed;
      const onFailure = (cause: unknown) => noteTaskError(context, lifecycleTasks, { name: id, cause });
      const shard = { id, name, onFailure };
      let isBusy = false;
      const hasSucceeded =
        !turn.hasPass ||
        (await shards.work(shard, async () => {
          const stepped = await stepBucket(context, step);
          isBusy = stepped?.isBusy === true;
          turn.task = stepped?.task;
        }));
      const { owner, moves: due } = turn.task?.state ?? {};
      if (hasSucceeded && !isBusy && due !== undefined) {
        hasMoves = true;
        const { task } = turn;
        if (!shards.hasFailed)
          moves.begin(owner ?? '', id, () => shards.work(shard, () => move(context, { ...step, task })));
      }
      return isBusy;
    });
    await reportPasses(context, left);
    const isMoving = !moves.isIdle;
    if (isEnd && !isMoving) shards.end();
    if (isEnd && isMoving && left.length === 0) await moves.next(context, signal);
    // After a round in several units there may be buckets again at its beginning, and a turn of transitions may have ended meanwhile.
    const isBusy = left.length > 0 || !isEnd || behind !== undefined || isMoving || hasMoves;
    return {
      is: isBusy ? 'busy' : 'idle',
      saved: { ...saved, behind: isEnd ? undefined : turns.at(-1)?.listed.bucketId },
    };
  },
});

/** The turn of a bucket's transitions: pages of them, so that the worker does not look for due buckets after each. */
async function move(context: LifecycleContext, step: Step): Promise<void> {
  const { clock } = context;
  const until = clock.elapsed() + unitMs;
  let { task } = step;
  do task = (await stepBucket(context, { ...step, task, isMoving: true }))?.task;
  while (task?.state.moves !== undefined && clock.elapsed() < until && !step.signal.aborted);
}

/**
 * Accounts take turns, and the buckets of an account among themselves: first the one whose last turn is longest ago. So the number of an
 * account's buckets does not delay another account.
 * @param work returns whether the bucket needs another turn
 * @returns those that have more to do
 */
async function takeTurns(
  context: Pick<LifecycleContext, 'metadata' | 'clock'>,
  turns: readonly BucketTurn[],
  work: (turn: BucketTurn) => Promise<boolean>,
): Promise<readonly BucketTurn[]> {
  const { clock } = context;
  const until = clock.elapsed() + unitMs;
  const owners = await inParallel(ownersAtOnce, turns, (turn) => findOwner(context, turn));
  const lastTurn = ({ task }: BucketTurn): number => task?.progress?.updatedAt ?? 0;
  const waiting = Map.groupBy(
    turns
      .map((turn, at) => ({ turn, owner: owners[at] }))
      .sort((a, b) => lastTurn(a.turn) - lastTurn(b.turn)),
    ({ owner }) => owner,
  );
  for (let isFirst = true; waiting.size > 0; isFirst = false)
    for (const [owner, ofOwner] of waiting) {
      if (!isFirst && clock.elapsed() >= until) return [...waiting.values()].flat().map(({ turn }) => turn);
      const next = ofOwner.shift();
      if (next !== undefined && (await work(next.turn))) ofOwner.push(next);
      if (ofOwner.length === 0) waiting.delete(owner);
    }
  return [];
}

/** As of the bucket's last turn: the row is read only where there was none, because a unit may end before most buckets have their turn. */
const findOwner = async (
  context: Pick<LifecycleContext, 'metadata'>,
  { listed, task }: BucketTurn,
): Promise<string> => task?.state.owner ?? (await findBucketAccount(context, listed));

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
  left: readonly BucketTurn[],
): Promise<void> {
  const now = await metadata.now();
  const since = left.map(({ task }) => task?.state.startedAt ?? now);
  showPasses(telemetry, { count: left.length, oldestSeconds: (now - Math.min(now, ...since)) / 1000 });
}

/** The buckets that are due, by id, from the first one behind `behind`. The lists of late buckets and of progress have the same order. */
async function findTurns(
  context: LifecycleContext,
  {
    behind,
    services,
    moves,
  }: { readonly behind: string | undefined; readonly services: Turn; readonly moves: MoveTurns },
): Promise<{ readonly turns: readonly BucketTurn[]; readonly isEnd: boolean }> {
  const now = await lockTime(context);
  const { metadata, clock } = context;
  const rest = openTurns(clock, { signal: services.signal });
  const findProgress = inOrder(everyTask(metadata, lifecycleTasks, { after: behind }), ({ name }) => name);
  const findLate = inOrder(lateBuckets(metadata, behind), (id) => id);
  const runAt = services.runAt();
  // As of now: the progress that is read below may be older than the end of such a turn.
  const moving = moves.buckets();
  const turns: BucketTurn[] = [];
  for await (const page of soundPages(scanLifecycleBuckets(metadata, behind), pageRows))
    for (const { row } of page) {
      await rest();
      if (row.bucketId === behind || moving.has(row.bucketId)) continue;
      const task = await findProgress(row.bucketId);
      const hasLate = (await findLate(row.bucketId)) !== undefined;
      const hasPass = isDue(row, task, { now, hasLate, runAt });
      if (!hasPass && task?.state.moves === undefined) continue;
      if (services.shards?.isResting(row.bucketId)) continue;
      if (turns.length === turnsMax) return { turns, isEnd: false };
      turns.push({ listed: row, hasPass, task });
    }
  return { turns, isEnd: true };
}

/** Finds items of a sorted list by their names, which are asked for in order: the list is read once. */
function inOrder<T>(items: AsyncGenerator<T>, nameOf: (item: T) => string) {
  let next: IteratorResult<T> | undefined;
  return async (name: string): Promise<T | undefined> => {
    next ??= await items.next();
    while (next.done !== true && nameOf(next.value) < name) next = await items.next();
    return next.done !== true && nameOf(next.value) === name ? next.value : undefined;
  };
}
