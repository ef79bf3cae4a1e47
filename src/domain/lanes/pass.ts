/** One pass over a slot: which of its rows may be tried, and what became of them. */
import { describeError } from '../../base/text/describe-error.ts';
import type { WorkerName } from '../../config/workers.ts';
import type { HourlyQueue } from '../../metadata/background/hourly-queues.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import type { HourlyRow } from '../../metadata/records/queues.ts';
import { isStorageFull } from '../../ports/chunk-store.ts';
import { isStoreFailure } from '../../ports/metadata-store.ts';
import { nameSender, type RefusedHow, type Subject, type TargetStates } from './target-states.ts';

export interface LaneQueue {
  readonly queue: HourlyQueue;
  /** Which delivers it, for metrics. */
  readonly worker: WorkerName;
  /** Rows that a slot has in memory. After a kill at most these are delivered again. */
  readonly batchMax: number;
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
  /** Logs a row that could not be given up. */
  reportStuck(row: HourlyRow, cause: unknown): void;
  /** The label of a target in metrics. Several targets may share one. */
  labelOf(target: string): string;
  /** Sets the gauge of the objects that wait, because their target refuses them. */
  showRefused(objectsByLabel: ReadonlyMap<string, number>): void;
  /** Asks the target for something harmless. @returns why it takes nothing; undefined where it answers as it should */
  probe?(row: HourlyRow, signal: AbortSignal): Promise<string | undefined>;
}

/**
 * Whether nothing can be delivered after this error. Any other one is about a row, and must not delay the rows of
 * others. A full disk takes no further rows, but rows that are delivered are removed.
 */
export const endsDelivery = (cause: unknown): boolean =>
  (isStoreFailure(cause) && !isStorageFull(cause)) || cause instanceof LeaseLost;

interface Opening {
  readonly queue: LaneQueue;
  readonly states: TargetStates;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
  /** How long an owner's deliveries to a target may take in this pass. The rows behind them wait, so that those of others do not. */
  readonly shareMs: number;
}

export class Pass {
  readonly queue: LaneQueue;
  readonly now: number;
  readonly signal: AbortSignal;
  /** Rows that are done. */
  done = 0;
  /** Rows that were not tried or failed, because their target takes nothing. */
  readonly blockedRows = new Set<HourlyRow>();
  /** Whether rows stay that could not be moved, although their targets are not blocked. */
  hasRetained = false;
  readonly #states: TargetStates;
  readonly #shareMs: number;
  /** How long deliveries took, by target and owner. */
  readonly #spentMs = new Map<string, number>();
  /** Targets of which rows stay: what lies behind these stays too, also where the target recovers during the pass. */
  readonly #blocked = new Set<string>();
  /** Objects of which a row was refused or had to wait: later rows of them wait too, also where the rest ends during the pass. */
  readonly #stuck = new Set<string>();
  /** Rows that were refused in this batch. */
  #tried = new Set<HourlyRow>();
  #rested: HourlyRow[] = [];
  #done = new Set<HourlyRow>();
  #refused: HourlyRow[] = [];

  constructor({ queue, states, now, signal, shareMs }: Opening) {
    this.queue = queue;
    this.now = now;
    this.signal = signal;
    this.#states = states;
    this.#shareMs = shareMs;
  }

  /**
   * Deliveries to the subject's target took so long. The wait for a turn at the target counts too, because the rows of
   * others in this slot wait as long.
   */
  spent(subject: Subject, ms: number): void {
    const name = nameSender(subject);
    this.#spentMs.set(name, (this.#spentMs.get(name) ?? 0) + ms);
  }

  /** Whether the sender of the subject has had its share of time. */
  hasHadShare(subject: Subject): boolean {
    return (this.#spentMs.get(nameSender(subject)) ?? 0) >= this.#shareMs;
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
      !this.#states.isTenantResting(subject) &&
      !this.hasHadShare(subject);
    if (!mayTry) this.#stuck.add(subject.object);
    return mayTry;
  }

  /** Whether a row of a waiting lane may not be tried yet. */
  mustWait(row: HourlyRow): boolean {
    const subject = this.queue.subjectOf(row);
    if (this.#states.isObjectResting(subject)) this.#stuck.add(subject.object);
    return !this.mayTry(row);
  }

  /** A row of a target that takes others stays where it is, and later rows of its object behind it. */
  retain(row: HourlyRow): void {
    this.hasRetained = true;
    this.#stuck.add(this.queue.subjectOf(row).object);
  }

  isBlocked(target: string): boolean {
    return this.#blocked.has(target);
  }

  /** A row of the target stays unread or untried: what lies behind it stays too. */
  block(target: string): void {
    this.#blocked.add(target);
  }

  /** Targets of which rows stay. */
  get blocked(): ReadonlySet<string> {
    return this.#blocked;
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

  /**
   * Carries out what gives a row up. Where the row itself makes that fail, it waits as a refused one does, because an error that ends the
   * pass would stop the rows of all others too.
   * @returns whether the row was removed
   */
  async giveUp(row: HourlyRow, remove: () => Promise<void>): Promise<boolean> {
    try {
      await remove();
    } catch (cause) {
      this.signal.throwIfAborted();
      if (endsDelivery(cause)) throw cause;
      this.queue.reportStuck(row, cause);
      this.refused(row, describeError(cause), 'own-fault');
      return false;
    }
    this.finished([row]);
    return true;
  }

  /** The target does not take this row now; it may take others. */
  refused(row: HourlyRow, error: string, how: RefusedHow): void {
    const subject = this.queue.subjectOf(row);
    this.#tried.add(row);
    this.#stuck.add(subject.object);
    if (this.#states.refused(subject, error, how)) this.#rested.push(row);
  }

  /** The target has answered, if only to refuse a row for good. */
  answered(target: string): void {
    this.#states.answered(target);
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
      if (this.isExhausted(row)) overdue.push(row);
      else others.push(row);
    }
    for (const row of overdue) {
      const why = this.#states.lastFailure(this.queue.subjectOf(row));
      const isRemoved = await this.giveUp(row, () => this.queue.giveUp([row], why));
      if (!isRemoved) others.push(row);
    }
    for (const row of others) {
      const subject = this.queue.subjectOf(row);
      if (this.mayTryTarget(subject.target) && this.#isRefused(row, subject)) this.#refused.push(row);
      else {
        this.#blocked.add(subject.target);
        this.blockedRows.add(row);
      }
    }
    this.#tried = new Set();
  }

  #isRefused(row: HourlyRow, subject: Subject): boolean {
    return this.#stuck.has(subject.object) || this.#tried.has(row) || this.#states.isTenantResting(subject);
  }

  /** Whether a row is old enough to be given up, and has failed often enough, or its target or tenant has. */
  isExhausted(row: HourlyRow): boolean {
    if (row.due + this.queue.retryMaxMs > this.now) return false;
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
