/** A background worker: it does one bounded unit of work at a time. */
import { openTurns } from '../domain/common/turns.ts';
import type { Task, TaskRange } from '../metadata/background/tasks.ts';
import type { HeartbeatProgress } from '../metadata/records/processes.ts';
import type { Clock } from '../ports/clock.ts';
import type { MetricName, Telemetry } from '../ports/telemetry.ts';
import type { Gate } from './controls.ts';
import type { IdleRest } from './idle-rest.ts';

/** Does one bounded unit; 'busy' if there is more to do now. Ends early when the signal aborts. */
export interface Unit {
  (signal: AbortSignal): Promise<'busy' | 'idle'>;
  /** Waits for work that goes on between units. Called when the run ends, however it does, and after the signal has aborted. */
  readonly end?: (() => Promise<void>) | undefined;
}

/** What a worker has done since its last report, and what it has left. */
export interface Progress extends Partial<Pick<HeartbeatProgress, 'left' | 'oldestSeconds' | 'queues'>> {
  readonly done?: number;
}

/** Gets the events of a worker's life. */
export interface Watch {
  began(generation: number): void;
  unitEnded(outcome: 'busy' | 'idle', tookMs: number): void;
  failed(cause: unknown): void;
  ended(): void;
  report(progress: Progress): void;
}

/** What the process gives to the units of a worker. */
export interface WorkerServices {
  report(progress: Progress): void;
  /** For a unit that runs as long as its lease: each of its rounds counts as a unit, so that operators see whether it goes on. */
  roundEnded(tookMs: number): void;
  /** Resolves when the clients of this process leave room for background work. Call it before each short piece of a long unit. */
  yieldToClients(signal: AbortSignal): Promise<void>;
  /** Store time (ms) of the last request of an operator to run now: a pass is due where the last one began before it. */
  runAt(): number | undefined;
  /** The rests between units, for a unit that knows what it waits for; and between the rounds of one that runs as long as its lease. */
  readonly idle?: IdleRest;
  /** Shards that have failed, for a unit that works on several. It outlasts the runs of the worker. */
  readonly shards?: ShardRests;
}

/** For a worker without a supervisor. */
export const unsupervised: WorkerServices = {
  report() {},
  roundEnded() {},
  async yieldToClients() {},
  runAt: () => undefined,
};

/** Between two pages of a long walk: other work of the process has its turn, and clients have theirs. */
export async function pauseForClients(
  { clock }: { readonly clock: Pick<Clock, 'sleep'> },
  { signal, yieldToClients }: Pick<Turn, 'signal' | 'yieldToClients'>,
): Promise<void> {
  await yieldToClients(signal);
  await clock.sleep(0, signal);
}

// What most workers are: a loop of steps.

/** What a step gets beside what the step before it has saved. */
export interface Turn extends WorkerServices {
  readonly signal: AbortSignal;
}

/** What a step has done, and what it has left for the next one. */
export interface Stepped<Saved> {
  readonly is: 'busy' | 'idle';
  /** What the next step gets; absent: the same. */
  readonly saved?: Saved;
  readonly done?: number;
  /** Store time (ms) before which there is nothing to do. */
  readonly nothingBefore?: number;
}

interface Steps<Ctx, Saved> {
  /**
   * Called once in each run, before its first step: begins the term of this leader, which fences all earlier ones, and reads what they have
   * saved.
   * @param generation of the leader's lease
   */
  begin(context: Ctx, generation: number, turn: Turn): Promise<Saved> | Saved;
  /** Does a bounded piece of work, and saves it under the term. */
  step(context: Ctx, saved: Saved, turn: Turn): Promise<Stepped<Saved>>;
  /** Waits for what steps have begun and not awaited. Called when the run ends, however it does, and after the signal has aborted. */
  end?(saved: Saved): Promise<void>;
  /**
   * Takes back the gauges, because those of the next leader are about the same. Called when the run ends, however it
   * does, and again after a step that was under way then, because that step may have set them since.
   */
  retire?(context: Ctx, services: WorkerServices): void;
}

/**
 * The loop of a worker that works in steps. A run that fails keeps nothing in memory: the next one begins again. The annotation lets a
 * bundler leave out a worker that no registry names.
 */
/* @__NO_SIDE_EFFECTS__ */
export const inSteps =
  <Ctx, Saved>({ begin, step, end, retire }: Steps<Ctx, Saved>) =>
  (context: Ctx, generation = 0, services = unsupervised): Unit => {
    let run: { readonly saved: Saved } | undefined;
    const unit = async (signal: AbortSignal) => {
      if (run === undefined) {
        if (retire !== undefined)
          signal.addEventListener('abort', () => retire(context, services), { once: true });
        run = { saved: await begin(context, generation, { ...services, signal }) };
      }
      let stepped: Stepped<Saved>;
      try {
        stepped = await step(context, run.saved, { ...services, signal });
      } finally {
        if (signal.aborted) retire?.(context, services);
      }
      const { is, saved = run.saved, done, nothingBefore } = stepped;
      run = { saved };
      if (done !== undefined) services.report({ done });
      if (nothingBefore !== undefined) services.idle?.nothingBefore(nothingBefore);
      return is;
    };
    return Object.assign(unit, {
      end: async () => {
        if (run !== undefined) await end?.(run.saved);
      },
    });
  };

export interface Worker {
  readonly name: string;
  /** Leader-elected on `<name>-leader`. Those that lease their slots themselves are not: `gc`, `rebalance`, and the sweep. */
  readonly leased: boolean;
  /** The rest after an idle unit, in ms. */
  readonly everyMs: number;
  /**
   * Called for every run, so that a panic leaves no state behind in memory.
   * @param generation of the lease that it runs under, the fencing token of its writes; 0 without a lease
   * @param idle the rests between the units of this run
   */
  start(generation: number, idle: IdleRest): Unit;
  readonly watch?: Watch;
  /** Absent: operators do not control it. */
  readonly gate?: Gate;
}

/** The rests after the first, second, third and every further failure in a row. */
export const backoffMs = [1_000, 5_000, 30_000, 120_000] as const;
/** The largest number of failed shards that a process remembers; beyond it, the shard that failed first is retried at once. */
const failedMax = 10_000;

interface FailedShard {
  readonly failures: number;
  /** By the clock of this process, which may differ from the store's. */
  readonly failedAt: number;
  readonly until: number;
  /** The last request of an operator to run now, at the failure. */
  readonly runAt: number | undefined;
}

/** A shard that fails rests alone, so that it does not delay the others. */
export class ShardRests {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #runAt: WorkerServices['runAt'];
  readonly #failed = new Map<string, FailedShard>();

  /** @param runAt an operator's request to run now ends the rests */
  constructor(clock: Pick<Clock, 'now'>, runAt: WorkerServices['runAt']) {
    this.#clock = clock;
    this.#runAt = runAt;
  }

  isResting(shard: string): boolean {
    const found = this.#failed.get(shard);
    // Requests of operators state the time of the store, so they are compared with each other only.
    if (found === undefined || this.#runAt() !== found.runAt) return false;
    const now = this.#clock.now();
    // A clock that was set back does not make the rest longer.
    return now < found.until && now >= found.failedAt;
  }

  failed(shard: string): void {
    const failures = (this.#failed.get(shard)?.failures ?? 0) + 1;
    const failedAt = this.#clock.now();
    const restMs = backoffMs[Math.min(failures, backoffMs.length) - 1] ?? 0;
    this.#failed.delete(shard);
    this.#failed.set(shard, { failures, failedAt, until: failedAt + restMs, runAt: this.#runAt() });
    for (const [first] of this.#failed) {
      if (this.#failed.size <= failedMax) break;
      this.#failed.delete(first);
    }
  }

  succeeded(shard: string): void {
    this.#failed.delete(shard);
  }

  /** When the next rest ends, as store time (ms); Infinity where no shard rests. */
  get endsAt(): number {
    const now = this.#clock.now();
    let least = Number.POSITIVE_INFINITY;
    for (const { until } of this.#failed.values()) if (until > now) least = Math.min(least, until);
    return least;
  }
}

/** Thrown by a unit that works on several shards, so that the panic is counted for the right one. */
export class ShardPanic extends Error {
  readonly shard: string;
  /** The shard as a label of metrics; '' where tenants choose its name. */
  readonly label: string;
  constructor(shard: string, { cause, label = shard }: { readonly cause: unknown; readonly label?: string }) {
    super(`shard ${shard} failed`, { cause });
    this.shard = shard;
    this.label = label;
  }
}

interface Shard {
  readonly id: string;
  /** For operators, such as a bucket; absent: the id, which is a number. */
  readonly name?: string;
  /** Called before the shard rests. What it throws ends the unit. */
  onFailure?(cause: unknown): Promise<void>;
}

/** What a unit does for each task of a kind, whose name is the id of its shard. */
interface StepOfTask<State> {
  /** For operators. */
  nameOf(state: State): string;
  /** Called before the task rests. What it throws ends the unit. */
  onFailure(task: Task<State>, cause: unknown): Promise<void>;
  step(task: Task<State>): Promise<void>;
}

/** One unit's work on several shards: a shard that fails rests, and the unit continues with the others. */
export class ShardRound {
  readonly #rests: ShardRests | undefined;
  readonly #signal: AbortSignal;
  #panic: ShardPanic | undefined;

  constructor({ shards }: Pick<WorkerServices, 'shards'>, signal: AbortSignal) {
    this.#rests = shards;
    this.#signal = signal;
  }

  /** Whether a shard has failed, so that `end` will throw. */
  get hasFailed(): boolean {
    return this.#panic !== undefined;
  }

  isResting(id: string): boolean {
    return this.#rests?.isResting(id) === true;
  }

  /**
   * @returns whether the work succeeded. A failure after an abort is dropped: the abort may be its cause, and the next
   * run repeats the work.
   */
  async work({ id, name, onFailure }: Shard, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      this.#rests?.succeeded(id);
      return true;
    } catch (cause) {
      if (this.#signal.aborted) return false;
      await onFailure?.(cause);
      this.#rests?.failed(id);
      this.#panic ??= new ShardPanic(name ?? id, { cause, label: name === undefined ? id : '' });
      return false;
    }
  }

  /** A step of each task in turn, until the signal aborts. @returns whether there was a task that does not rest */
  async each<State>(
    tasks: AsyncIterable<Task<State>> | Iterable<Task<State>>,
    { nameOf, onFailure, step }: StepOfTask<State>,
  ): Promise<boolean> {
    let hasWorked = false;
    for await (const task of tasks) {
      if (this.#signal.aborted) break;
      if (this.isResting(task.name)) continue;
      hasWorked = true;
      const shard = { id: task.name, name: nameOf(task.state) };
      await this.work({ ...shard, onFailure: (cause) => onFailure(task, cause) }, () => step(task));
    }
    return hasWorked;
  }

  /** Call it after the last shard. @throws ShardPanic for the first shard that failed */
  end(): void {
    if (this.#panic !== undefined) throw this.#panic;
  }
}

/** Where a round over the tasks of a kind is, which may take several units. */
export interface TaskRound {
  readonly shards: ShardRound;
  /** The name of the last task that had its step; undefined once the round is over. */
  readonly after: string | undefined;
  /** Whether the round had a task that does not rest. */
  readonly hasWorked: boolean;
}

/** A unit of a round works on so many tasks, so that many of them delay nothing that the worker does between its units. */
const unitTasks = 16;

/**
 * One unit of a round: a step of each of the next tasks, which are read in turns on the event loop. What fails is kept until the caller ends
 * the round, because a run that fails begins with the first task again.
 * @param tasks in the order of their names, from the first one in the range on
 * @param former the round after the unit before; where it is over, another one begins
 */
export async function stepTasks<State>(
  { clock }: { readonly clock: Clock },
  {
    turn,
    tasks,
    former,
    ...stepOfTask
  }: StepOfTask<State> & {
    readonly turn: Pick<Turn, 'signal' | 'shards'>;
    readonly tasks: (range: TaskRange) => AsyncIterable<Task<State>>;
    readonly former: TaskRound | undefined;
  },
): Promise<TaskRound> {
  const { signal } = turn;
  const round = former?.after === undefined ? undefined : former;
  const shards = round?.shards ?? new ShardRound(turn, signal);
  const rest = openTurns(clock, { signal });
  const next: Task<State>[] = [];
  // Those that rest take no place, so a unit without work has passed all tasks.
  for await (const task of tasks({ after: round?.after, rest })) {
    if (!shards.isResting(task.name)) next.push(task);
    if (next.length === unitTasks) break;
  }
  const hasWorked = (await shards.each(next, stepOfTask)) || round?.hasWorked === true;
  return { shards, after: next.length === unitTasks ? next.at(-1)?.name : undefined, hasWorked };
}

// Reports the progress of workers from the metrics that they count.

/** An addition to one of these counters is reported as work that is done. */
const doneCounters: ReadonlySet<MetricName> = new Set<MetricName<'counter'>>([
  'svc_lifecycle_actions_total',
  'svc_notify_delivered_total',
  'svc_replication_versions_total',
  'svc_access_log_lines_total',
  'svc_scrub_bytes_total',
]);

export const reportingTelemetry = (telemetry: Telemetry, report: WorkerServices['report']): Telemetry => ({
  ...telemetry,
  count(name, labels, by = 1) {
    telemetry.count(name, labels, by);
    if (doneCounters.has(name)) report({ done: by });
  },
});
