/**
 * `--watch` of commands that may take long: a live line with what is done and left, the rate and the time to the end. It goes to standard
 * error, so that standard output has only the result. The line is made from the same progress as those of `sluice admin tasks`.
 */
import { advanceProgress } from '../../domain/common/task-progress.ts';
import type { TaskAmount, TaskProgress } from '../../metadata/records/tasks.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import { formatTask } from './task-line.ts';
import { openLiveLines } from './watch.ts';

/** How often a line is drawn. */
const everyMs = 1_000;

interface WatchedWork {
  /** What the line begins with, such as `backup`. */
  readonly kind: string;
  /** What `count` counts, such as `files`. */
  readonly of: string;
  /** Which of the two amounts limits how fast it is. */
  readonly paced: keyof TaskAmount;
}

interface Displayed {
  readonly done: TaskAmount;
  /** Absent: not known. */
  readonly left?: TaskAmount | undefined;
}

export class CommandWatch {
  readonly #live: ReturnType<typeof openLiveLines>;
  readonly #clock: Clock;
  #work: WatchedWork = { kind: '', of: '', paced: 'count' };
  #progress: TaskProgress | undefined;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(out: Parameters<typeof openLiveLines>[0], clock: Clock) {
    this.#live = openLiveLines(out);
    this.#clock = clock;
  }

  /** A piece of the command's work begins, of which nothing can be counted. */
  note(text: string): void {
    this.#live.show([text]);
  }

  /** A piece of the command's work begins. @param visible what an earlier run has done counts, but not for the rate */
  begin(work: WatchedWork, visible: Displayed): void {
    const now = this.#clock.now();
    this.#work = work;
    this.#progress = {
      startedAt: now,
      updatedAt: now,
      done: visible.done,
      measured: { at: now, done: visible.done },
    };
    this.#draw('running', visible);
  }

  /** Whether the last line is a second old: work in small steps calls `show` only then. */
  get isDue(): boolean {
    return this.#clock.elapsed() - this.#drawnAt >= everyMs;
  }

  show(visible: Displayed): void {
    this.#draw('running', visible);
  }

  /** The piece of work is done. In a pipe this is a last line. */
  end(done: TaskAmount): void {
    const left = { count: 0, ...(done.bytes === undefined ? {} : { bytes: 0 }) };
    this.#draw('done', { done, left });
  }

  /** Removes the line from a terminal: before other output, and at the end. */
  clear(): void {
    this.#live.clear();
  }

  #draw(state: 'running' | 'done', { done, left }: Displayed): void {
    this.#drawnAt = this.#clock.elapsed();
    const now = this.#clock.now();
    const startedAt = this.#progress?.startedAt ?? now;
    this.#progress = advanceProgress(this.#progress, { startedAt, done }, now);
    const { kind, of, paced } = this.#work;
    const { perSecond } = this.#progress;
    const rate = perSecond?.[paced] ?? 0;
    const amount = left?.[paced];
    const line = formatTask({
      kind,
      of,
      state,
      done,
      ...(left === undefined ? {} : { left }),
      ...(perSecond === undefined ? {} : { perSecond }),
      ...(state === 'running' && amount !== undefined && rate > 0
        ? { etaSeconds: Math.ceil(amount / rate) }
        : {}),
    });
    this.#live.show([line]);
  }
}

/** Runs the work of a command, with a watch where its flags have `--watch`, and removes the line at its end. */
export async function withWatch<T>(
  own: readonly string[],
  work: (watch: CommandWatch | undefined) => Promise<T>,
): Promise<T> {
  const watch = own.includes('--watch') ? new CommandWatch(process.stderr, systemClock) : undefined;
  try {
    return await work(watch);
  } finally {
    watch?.clear();
  }
}
