/**
 * The heartbeats of a process and of its workers: what each did last, how fast, and what it has left. They are written together every ten
 * seconds (every two minutes, with the renewals of the leases, where the metadata are on this machine); the start, the
 * end and a failure of a worker are written immediately. A worker that was idle all the time is left out of three
 * writes of four: the row of the process says that it lives.
 */
import { describeError } from '../base/text/describe-error.ts';
import type { Context } from '../context.ts';
import { heartbeatMs, processBeat, putHeartbeats, removeGateway } from '../metadata/background/heartbeats.ts';
import type { GatewayRow, HeartbeatProgress, HeartbeatRow, LastUnit } from '../metadata/records/processes.ts';
import type { LeasePace } from './leadership.ts';
import type { Progress, Watch } from './worker.ts';

type Ctx = Pick<Context, 'metadata' | 'clock' | 'telemetry'>;

/** A rate is the average over so many intervals between two heartbeats. */
const intervalsMax = 6;
/** The row of an idle worker is written with each heartbeat of this number. */
const idleBeats = 4;

interface Interval {
  readonly ms: number;
  readonly done: number;
}

/** Counts what a worker does, and keeps its rate. */
class Counter {
  readonly #of: string;
  #done = 0;
  #left: Omit<Progress, 'done'> = {};
  #seen: { readonly at: number; readonly done: number };
  #intervals: readonly Interval[] = [];

  constructor(of: string, now: number) {
    this.#of = of;
    this.#seen = { at: now, done: 0 };
  }

  add({ done = 0, ...left }: Progress): void {
    this.#done += done;
    if (left.left !== undefined) this.#left = left;
  }

  /** @param now monotonic, in ms */
  read(now: number): HeartbeatProgress {
    const ms = now - this.#seen.at;
    if (ms > 0) {
      this.#intervals = [...this.#intervals, { ms, done: this.#done - this.#seen.done }].slice(-intervalsMax);
      this.#seen = { at: now, done: this.#done };
    }
    const sum = (of: keyof Interval): number => this.#intervals.reduce((total, each) => total + each[of], 0);
    const perSecond = this.#intervals.length === 0 ? 0 : (sum('done') * 1000) / sum('ms');
    return { of: this.#of, done: this.#done, perSecond, ...this.#left };
  }
}

type Written = Omit<HeartbeatRow, 'slot' | 'process' | 'beatAt'>;

/** What the process writes of itself, where it serves. */
export type DescribeGateway = () => Omit<GatewayRow, 'slot' | 'beatAt'>;

interface HeartbeatOptions {
  /** Of the leases, whose renewals and heartbeats are then written together. */
  readonly pace?: LeasePace | undefined;
  readonly gateway?: DescribeGateway | undefined;
}

interface Watched {
  /** Absent before the worker first leads. */
  row?: Written;
  counter: Counter;
  /** The news of the row that was last written. */
  stored?: string;
}

/** What an operator looks for in a row, without the times and the number of idle units; a rate as exact as it is shown. */
const significantText = ({ lastUnit, units, ...row }: Written, progress: HeartbeatProgress): string =>
  JSON.stringify([
    row,
    { ...progress, perSecond: progress.perSecond.toFixed(1) },
    lastUnit?.outcome,
    lastUnit?.outcome === 'busy' && units,
  ]);

interface WriteOptions {
  /** The row of the process is written too. */
  readonly isBeat?: boolean;
  readonly leavesOutIdle?: boolean;
  readonly gateway?: DescribeGateway | undefined;
}

export class Heartbeats {
  readonly #ctx: Ctx;
  readonly #process: string;
  readonly #watched = new Map<string, Watched>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  /** Writes follow each other, so that an older row never replaces a newer one. */
  #writing: Promise<void> = Promise.resolve();

  readonly #pace: LeasePace | undefined;
  readonly #since: number;
  readonly #gateway: DescribeGateway | undefined;

  /** @param process the name under which operators find the process, such as `host:pid` */
  constructor(ctx: Ctx, process: string, { pace, gateway }: HeartbeatOptions = {}) {
    this.#ctx = ctx;
    this.#process = process;
    this.#pace = pace;
    this.#since = ctx.clock.now();
    this.#gateway = gateway;
    this.#ended = this.#beat();
  }

  /** Ends the heartbeats, after the last state is written. Call it when the workers have stopped. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    await this.#writing;
    await this.#leave();
  }

  /** A gateway that stops is not missed. */
  async #leave(): Promise<void> {
    const { metadata, telemetry } = this.#ctx;
    if (this.#gateway === undefined) return;
    await removeGateway(metadata, this.#gateway()).catch((cause: unknown) =>
      telemetry.log('DEBUG', 'the heartbeat of the gateway could not be removed', { cause }),
    );
  }

  /** @param counts what the progress of the worker counts, for example `objects` */
  watch(worker: string, counts: string): Watch {
    const { clock, telemetry } = this.#ctx;
    const watched: Watched = { counter: new Counter(counts, clock.elapsed()) };
    this.#watched.set(worker, watched);
    const labels = { worker };
    const showUnit = (at?: number): void =>
      telemetry.set('svc_worker_last_unit_timestamp_seconds', labels, at && at / 1000);
    const change = (changed: Partial<Written>): void => {
      if (watched.row !== undefined) watched.row = { ...watched.row, ...changed };
    };
    return {
      began: (generation) => {
        const { units = 0, failures = 0, ...former } = watched.row ?? {};
        const { endedAt: _, ...retained } = former as Partial<Written>;
        watched.row = { ...retained, worker, generation, since: clock.now(), units, failures };
        watched.counter = new Counter(counts, clock.elapsed());
        // A worker that hangs in its first unit is stuck too.
        showUnit(clock.now());
        this.#write([watched]);
      },
      unitEnded: (outcome, tookMs) => {
        const lastUnit: LastUnit = { endedAt: clock.now(), tookMs: Math.round(tookMs), outcome };
        telemetry.count('svc_worker_units_total', labels);
        showUnit(lastUnit.endedAt);
        change({ lastUnit, units: (watched.row?.units ?? 0) + 1, failures: 0 });
      },
      failed: (cause) => {
        telemetry.count('svc_worker_failures_total', labels);
        const failures = (watched.row?.failures ?? 0) + 1;
        change({ failures, lastError: { at: clock.now(), message: describeError(cause) } });
        this.#write([watched]);
      },
      ended: () => {
        // Another process shows the values of the worker now.
        telemetry.set('svc_worker_backlog', labels, undefined);
        telemetry.set('svc_worker_oldest_seconds', labels, undefined);
        showUnit();
        change({ endedAt: clock.now() });
        this.#write([watched]);
      },
      report: (progress) => {
        const { done = 0, left, oldestSeconds } = progress;
        telemetry.count('svc_worker_done_total', { worker, of: counts }, done);
        if (left !== undefined) telemetry.set('svc_worker_backlog', labels, left);
        if (oldestSeconds !== undefined) telemetry.set('svc_worker_oldest_seconds', labels, oldestSeconds);
        watched.counter.add(progress);
      },
    };
  }

  async #beat(): Promise<void> {
    const { signal } = this.#stop;
    if (this.#gateway !== undefined) this.#write([], { gateway: this.#gateway });
    for (let beat = 1; !signal.aborted; beat += 1) {
      await (this.#pace?.pulses.next(this.#pace.renewalMs, signal) ??
        this.#ctx.clock.sleep(heartbeatMs.distant, signal));
      if (signal.aborted) return;
      const present = [...this.#watched.values()].filter(({ row }) => row?.endedAt === undefined);
      this.#write(present, {
        isBeat: true,
        leavesOutIdle: beat % idleBeats !== 0,
        gateway: this.#gateway,
      });
    }
  }

  /** Heartbeats are information for operators: a write that fails is left out, and the next one follows. */
  #write(
    some: readonly Watched[],
    { isBeat = false, leavesOutIdle = false, gateway }: WriteOptions = {},
  ): void {
    const { metadata, clock, telemetry } = this.#ctx;
    this.#writing = this.#writing.then(async () => {
      try {
        const beatAt = await metadata.now();
        const process = this.#process;
        const rows = isBeat ? [processBeat({ process, since: this.#since, beatAt })] : [];
        const news = new Map<Watched, string>();
        for (const watched of some) {
          const { row, counter, stored } = watched;
          if (row === undefined) continue;
          const progress = counter.read(clock.elapsed());
          news.set(watched, significantText(row, progress));
          if (leavesOutIdle && news.get(watched) === stored) continue;
          // If the write fails, the next one has this row again.
          delete watched.stored;
          rows.push({ ...row, slot: 0, process, beatAt, progress });
        }
        const ofGateway = gateway && { ...gateway(), slot: 0, beatAt };
        if (rows.length > 0 || ofGateway !== undefined) await putHeartbeats(metadata, rows, ofGateway);
        for (const [watched, stored] of news) watched.stored = stored;
      } catch (cause) {
        telemetry.log('DEBUG', 'the heartbeats of the workers could not be written', { cause });
      }
    });
  }
}
