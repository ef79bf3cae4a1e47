/** One pass over a slot: which of its rows may be tried, and what became of them. */
import type { HourlyQueue } from '../../metadata/background/hourly-queues.ts';
import type { HourlyRow } from '../../metadata/records/queues.ts';
import type { RefusedHow, Subject, TargetStates } from './target-states.ts';

export interface LaneQueue {
  readonly queue: HourlyQueue;
  /** Rows that a slot has in memory. After a kill at most these are delivered again. */
  readonly batchMax: number;
  /** The targets that are known; rows may name others. */
  readonly targets: readonly string[];
  /** How long a row is retried, by its `due`. */
  readonly retryMaxMs: number;
  subjectOf(row: HourlyRow): Subject;
  /** Orders rows of one millisecond. */
  compare(a: HourlyRow, b: HourlyRow): number;
  /**
   * Delivers rows of one slot and target, the oldest first, and tells the pass what became of each. It stops where the pass says that a row
   * may not be tried.
   */
  deliver(target: string, rows: readonly HourlyRow[], pass: Pass): Promise<void>;
  /** Rows that were retried for too long. */
  giveUp(
    rows: readonly HourlyRow[],
    why: { readonly error: string; readonly attempts: number },
  ): Promise<void>;
  /** Asks the target for something harmless. @returns why it takes nothing; undefined where it answers as it should */
  probe?(row: HourlyRow, signal: AbortSignal): Promise<string | undefined>;
}

interface Opening {
  readonly queue: LaneQueue;
  readonly states: TargetStates;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
}

export class Pass {
  readonly queue: LaneQueue;
  readonly now: number;
  readonly signal: AbortSignal;
  /** Rows that are done. */
  done = 0;
  /** Rows that were not tried or failed, because their target takes nothing. */
  readonly left = new Set<HourlyRow>();
  readonly #states: TargetStates;
  /** Targets with rows in `left`: what lies behind these stays too, also where the target recovers during the pass. */
  readonly #blocked = new Set<string>();
  /** Objects of which a row was refused or had to wait: later rows of them wait too, also where the rest ends during the pass. */
  readonly #stuck = new Set<string>();
  /** Rows that were refused in this batch. */
  #tried = new Set<HourlyRow>();
  #rested: HourlyRow[] = [];
  #done = new Set<HourlyRow>();
  #refused: HourlyRow[] = [];

  constructor({ queue, states, now, signal }: Opening) {
    this.queue = queue;
    this.now = now;
    this.signal = signal;
    this.#states = states;
  }

  mayTryTarget(target: string): boolean {
    return !this.#blocked.has(target) && !this.#states.isResting(target);
  }

  /** Whether a row may be tried now. It may not behind a row of its object that was refused or had to wait. */
  mayTry(row: HourlyRow): boolean {
    const subject = this.queue.subjectOf(row);
    const mayTry =
      this.mayTryTarget(subject.target) &&
      !this.#stuck.has(subject.object) &&
      !this.#states.isTenantResting(subject);
    if (!mayTry) this.#stuck.add(subject.object);
    return mayTry;
  }

  /** Whether a row of a waiting lane may not be tried yet. */
  mustWait(row: HourlyRow): boolean {
    const subject = this.queue.subjectOf(row);
    if (this.#states.isObjectResting(subject)) this.#stuck.add(subject.object);
    return !this.mayTry(row);
  }

  isBlocked(target: string): boolean {
    return this.#blocked.has(target);
  }

  isOverdue({ due }: HourlyRow): boolean {
    return due + this.queue.retryMaxMs <= this.now;
  }

  /** The target has taken these rows, and they were removed. */
  delivered(rows: readonly HourlyRow[]): void {
    for (const row of rows) this.#states.succeeded(this.queue.subjectOf(row));
    this.finished(rows);
  }

  /** These rows were removed without a delivery. */
  finished(rows: readonly HourlyRow[]): void {
    for (const row of rows) {
      this.#states.forget(this.queue.subjectOf(row));
      this.#done.add(row);
    }
    this.done += rows.length;
  }

  /** The target does not take this row now; it may take others. */
  refused(row: HourlyRow, error: string, how: RefusedHow = {}): void {
    const subject = this.queue.subjectOf(row);
    this.#tried.add(row);
    this.#stuck.add(subject.object);
    if (this.#states.refused(subject, error, how)) this.#rested.push(row);
  }

  /** The target takes nothing now. */
  unavailable(target: string, error: string): void {
    this.#states.unavailable(target, error);
  }

  failuresOf(target: string): number {
    return this.#states.get(target).failures;
  }

  /** Decides about the rows of a batch that are not done: they are given up, wait, or stay where they are. */
  async settle(rows: readonly HourlyRow[]): Promise<void> {
    for (const row of this.#rested.splice(0)) await this.#probe(row);
    const overdue: HourlyRow[] = [];
    const others: HourlyRow[] = [];
    for (const row of rows) {
      if (this.#done.has(row)) continue;
      if (this.#isExhausted(row)) overdue.push(row);
      else others.push(row);
    }
    for (const row of overdue) {
      await this.queue.giveUp([row], this.#states.lastFailure(this.queue.subjectOf(row)));
      this.finished([row]);
    }
    for (const row of others) {
      const subject = this.queue.subjectOf(row);
      if (this.mayTryTarget(subject.target) && this.#isRefused(row, subject)) this.#refused.push(row);
      else {
        this.#blocked.add(subject.target);
        this.left.add(row);
      }
    }
    this.#tried = new Set();
  }

  #isRefused(row: HourlyRow, subject: Subject): boolean {
    return this.#stuck.has(subject.object) || this.#tried.has(row) || this.#states.isTenantResting(subject);
  }

  #isExhausted(row: HourlyRow): boolean {
    if (!this.isOverdue(row)) return false;
    const subject = this.queue.subjectOf(row);
    return this.#tried.has(row)
      ? this.#states.isRefusedSteadily(subject)
      : this.#states.failsSteadily(subject);
  }

  async #probe(row: HourlyRow): Promise<void> {
    if (this.queue.probe === undefined) return;
    const subject = this.queue.subjectOf(row);
    const error = await this.queue.probe(row, this.signal);
    if (error === undefined) this.#states.probed(subject);
    else this.#states.unavailable(subject.target, error);
  }

  /** The rows that may not be tried now, because of their object or tenant. */
  takeRefused(): readonly HourlyRow[] {
    const refused = this.#refused;
    this.#refused = [];
    return refused;
  }

  /** The rows that are done since the last call. */
  takeDone(): readonly HourlyRow[] {
    const done = [...this.#done];
    this.#done = new Set();
    return done;
  }
}
