/**
 * The lanes of an hourly queue whose rows go to targets (docs/adr/0033-lanes-of-deliveries.md). A queue has 65,536 lanes, and the hash of a
 * target chooses its lane. Lanes run side by side, so a target that hangs delays only targets of the same lane. A lane
 * is read past the rows of a target that takes nothing, because tenants choose the names of buckets at peers, and so
 * their lanes. The slots of a lane run in parallel. The rows of a slot are delivered one after the other; all rows of
 * an object are in one slot, so they keep their order.
 *
 * A lane is for rows that can be delivered now. It moves three kinds of rows to the waiting lane of their tenant at this target: rows of
 * an object that the target refuses, rows of a tenant that rests, and rows beyond a tenant's share. Later rows of such an object follow
 * them, so its rows keep their order. So neither a bad event nor a long backlog delays other tenants.
 */
import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import {
  beginLanes,
  dueRowsOfHour,
  listDueHours,
  listsOldHoursAt,
} from '../../metadata/background/hourly-consumer.ts';
import {
  anyLaneOfSlot,
  isWaitingSlot,
  laneOfSlot,
  queueHour,
  targetLane,
} from '../../metadata/background/hourly-queues.ts';
import type { Term } from '../../metadata/background/tasks.ts';
import type { HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import { isStorageFull } from '../../ports/chunk-store.ts';
import { endsDelivery, type LaneQueue, Pass } from './pass.ts';
import { PassedRows, type Resumption } from './passed-rows.ts';
import { forgetFailure, listFailing, type Subject, storeFailure, TargetStates } from './target-states.ts';
import { type WaitingLane, WaitingRows, WaitingTurns } from './waiting-rows.ts';

/** Slots of a lane that are delivered at a time. */
const slotsMax = 16;
/** Waiting lanes of a target that run at a time; the others follow in rotation. */
const waitingLanesMax = 8;
/** Rows of one tenant that a slot delivers in a pass, before the next ones are moved out of the way of others. */
const shareMax = 256;
/** How long a slot delivers rows of one owner in a pass, before the next ones are moved out of the way of others. */
const shareMs = 1_000;
/** The same in a waiting slot, which two tenants may share. */
const waitingShareMs = 10_000;
/** Rows that are moved together. */
const movesMax = 64;
/** Rows of a tenant that a pass passes over in a waiting slot, and rows that it tries. What lies behind these waits for a later pass. */
const waitingReadMax = 5_000;
/**
 * A waiting slot of which nothing could be delivered is not read again for this many times the time that the pass took. After resting lanes
 * were read, none of them is read for as long.
 */
const idleFactor = 10;
/** The rest of a lane that failed: it doubles with each failure in a row. */
const laneRestFirstMs = 1_000;
const laneRestMaxMs = 2 * 60_000;
/** How long nothing is moved after the store was full. */
const fullRestMs = 5_000;
/** How often a lane is read all of whose known targets rest: another one may have got its first rows. */
const restingReadMs = 2_000;
/** Lanes all of whose known targets rest that are read at a time: a tenant may have any number of targets. */
const restingLanesMax = 16;
/** The longest pause after a read of them, in case the process stood still. */
const restingPauseMaxMs = 60_000;
/** Rows that a pass reads first of a slot in which rows stayed: the first of them are given up when they are too old. */
const resumedPage = 16;
/** How often the states of targets are stored. */
const storedEveryMs = 1_000;

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'telemetry'>;

export class Lanes {
  readonly #ctx: Ctx;
  readonly #queue: LaneQueue;
  readonly #states: TargetStates;
  readonly #waiting: WaitingRows;
  readonly #running = new Map<number, Promise<void>>();
  /** The targets that rows of each lane named. */
  readonly #targets = new Map<number, Set<string>>();
  readonly #passed = new PassedRows();
  /** When a lane all of whose known targets rest may be read again, by the monotonic clock. */
  readonly #restingDue = new Map<number, number>();
  /** Those of them that are read at the moment. */
  readonly #restingReads = new Set<number>();
  /** None of them is read before, by the monotonic clock. */
  #restingPause = Number.NEGATIVE_INFINITY;
  /** The waiting lanes that run. */
  readonly #waitingRuns = new Map<number, WaitingLane>();
  readonly #turns = new WaitingTurns();
  #isRestored = false;
  readonly #generation: number;
  #term: Term | undefined;
  #storedAt = Number.NEGATIVE_INFINITY;
  #storing: Promise<void> = Promise.resolve();
  #failure: { readonly cause: unknown } | undefined;
  /** Lanes whose last run failed, by number: their runs that failed in a row, and when they run again by the monotonic clock. */
  readonly #failedLanes = new Map<number, { readonly failures: number; readonly until: number }>();
  /** No row is moved before, by the monotonic clock, because the store was full. */
  #fullUntil = Number.NEGATIVE_INFINITY;
  /** Whether the last start found rows, or lanes that it could not start. */
  #hasWork = true;
  /** Store time. */
  #listsAgainAt = Number.NEGATIVE_INFINITY;

  /** @param generation of the leader's lease: a later leader ends the right of an earlier one to move rows */
  constructor(ctx: Ctx, queue: LaneQueue, generation: number) {
    this.#ctx = ctx;
    this.#queue = queue;
    this.#generation = generation;
    this.#states = new TargetStates(ctx);
    this.#waiting = new WaitingRows(ctx);
  }

  /** Starts every lane that has rows and does not run. @throws the error of a lane that failed since */
  async start(signal: AbortSignal): Promise<void> {
    if (this.#failure !== undefined) {
      const { cause } = this.#failure;
      this.#failure = undefined;
      throw cause;
    }
    // Before anything is read: what an earlier leader moves after this is no longer removed from where it was.
    this.#term ??= await beginLanes(this.#ctx.metadata, this.#queue.queue, this.#generation);
    await this.#restoreStates();
    this.#states.forgetStale();
    this.#storeStates();
    // A lane that runs already may have read its slots before this look.
    this.#hasWork = this.#running.size > 0;
    const now = await this.#ctx.metadata.now();
    const hours = await listDueHours(this.#ctx, this.#queue.queue, now);
    this.#listsAgainAt = now + listsOldHoursAt(this.#ctx, this.#queue.queue) - this.#ctx.clock.elapsed();
    await this.#waiting.load(hours, { now, subjectOf: this.#queue.subjectOf });
    const at = { now, signal };
    const main = hours.filter(({ slot }) => !isWaitingSlot(slot));
    const waiting = this.#waiting.due();
    this.#forgetUnused([...hours.map(({ slot }) => slot), ...waiting]);
    this.#startMain(
      Map.groupBy(main, ({ slot }) => laneOfSlot(slot)),
      at,
    );
    const due = Map.groupBy(waiting, (slot) => laneOfSlot(slot));
    for (const [lane, slots] of due) this.#startWaiting(lane, { slots, ...at });
    this.#turns.forgetUnused(() => this.#waitingLanes());
  }

  /** The store time (ms) before which `start` has nothing to do, unless a row is committed: every row is due when it is committed. */
  nothingBefore(): number {
    const isBusy =
      this.#hasWork ||
      this.#running.size > 0 ||
      this.#waiting.hasAny ||
      this.#states.hasChanged ||
      this.#failure !== undefined;
    return isBusy ? Number.NEGATIVE_INFINITY : this.#listsAgainAt;
  }

  /** Failures are counted on from those of the former leader. */
  async #restoreStates(): Promise<void> {
    if (this.#isRestored) return;
    for (const [target, failing] of await listFailing(this.#ctx.metadata, this.#queue.queue))
      this.#states.restore(target, failing);
    this.#isRestored = true;
  }

  /** Resolves when no lane runs. */
  async settle(): Promise<void> {
    await Promise.all(this.#running.values());
    this.#storedAt = Number.NEGATIVE_INFINITY;
    this.#storeStates();
    await this.#storing;
    // Another process may lead now, and shows the same queue.
    this.#queue.showRefused(new Map());
  }

  #run(lane: number, signal: AbortSignal, work: () => Promise<void>): void {
    const run = work()
      .then(() => void this.#failedLanes.delete(lane))
      .catch((cause: unknown) => {
        if (signal.aborted) return;
        if (endsDelivery(cause)) this.#failure ??= { cause };
        else this.#failed(lane, cause);
      })
      .finally(() => {
        this.#running.delete(lane);
        this.#waitingRuns.delete(lane);
      });
    this.#running.set(lane, run);
  }

  /** A lane rests after an error that may be about one of its rows: the others go on. */
  #failed(lane: number, cause: unknown): void {
    const failures = (this.#failedLanes.get(lane)?.failures ?? 0) + 1;
    const restMs = Math.min(laneRestFirstMs * 2 ** (failures - 1), laneRestMaxMs);
    this.#failedLanes.set(lane, { failures, until: this.#ctx.clock.elapsed() + restMs });
    const { queue, worker } = this.#queue;
    const about = { queue, lane, failures, cause };
    if (isStorageFull(cause)) {
      this.#ctx.telemetry.log('WARN', 'a lane of a queue rests, because the store is full', about);
      return;
    }
    this.#ctx.telemetry.count('svc_worker_panic_total', { worker, shard: '' });
    this.#ctx.telemetry.log('ERROR', 'a lane of a queue failed; it is tried again', about);
  }

  #restsAfterFailure(lane: number): boolean {
    return (this.#failedLanes.get(lane)?.until ?? Number.NEGATIVE_INFINITY) > this.#ctx.clock.elapsed();
  }

  #startMain(lanes: ReadonlyMap<number, readonly QueueHour[]>, at: At): void {
    const idle = [...lanes.keys()].filter(
      (lane) => !this.#running.has(lane) && !this.#restsAfterFailure(lane),
    );
    const [resting, others] = partition(idle, (lane) => this.#isResting(lane));
    const taken = this.#takeResting(resting);
    if (taken.length + others.length < lanes.size) this.#hasWork = true;
    const run = (lane: number, work: (of: Lane) => Promise<unknown>): void =>
      this.#run(
        lane,
        at.signal,
        async () => void (await work({ lane, places: lanes.get(lane) ?? [], ...at })),
      );
    for (const lane of others) {
      this.#restingDue.delete(lane);
      run(lane, (of) => this.#runLane(of));
    }
    for (const lane of taken) run(lane, (of) => this.#readResting(of));
  }

  /** The resting lanes that are read now: those first that are due for the longest time. */
  #takeResting(lanes: readonly number[]): readonly number[] {
    const now = this.#ctx.clock.elapsed();
    const dueAt = (lane: number): number => this.#restingDue.get(lane) ?? now;
    for (const lane of lanes) this.#restingDue.set(lane, dueAt(lane));
    if (now < this.#restingPause) return [];
    const reading = [...this.#restingReads].filter((lane) => this.#isResting(lane)).length;
    const taken = lanes
      .filter((lane) => dueAt(lane) <= now)
      .sort((a, b) => dueAt(a) - dueAt(b))
      .slice(0, Math.max(0, restingLanesMax - reading));
    for (const lane of taken) this.#restingDue.set(lane, now + restingReadMs);
    return taken;
  }

  /** Another target of the lane, which is not known yet, may have rows. */
  async #readResting(of: Lane): Promise<void> {
    const { lane } = of;
    const begunAt = this.#ctx.clock.elapsed();
    this.#restingReads.add(lane);
    try {
      const hasTried = await this.#runLane(of);
      if (hasTried || !this.#isResting(lane)) return;
      const endedAt = this.#ctx.clock.elapsed();
      const pause = Math.min(idleFactor * (endedAt - begunAt), restingPauseMaxMs);
      this.#restingPause = Math.max(this.#restingPause, endedAt + pause);
    } finally {
      this.#restingReads.delete(lane);
    }
  }

  /** Starts waiting lanes of a target whose turn it is. */
  #startWaiting(lane: number, { slots, ...at }: At & { readonly slots: readonly number[] }): void {
    const running = [...this.#waitingRuns.values()].filter((each) => targetLane(each.lane) === lane);
    if (running.length >= waitingLanesMax) return;
    const due = [...Map.groupBy(slots, anyLaneOfSlot)]
      .filter(([each]) => !this.#running.has(each) && !this.#restsAfterFailure(each))
      .map(([each, ofLane]) => ({ lane: each, slots: ofLane, owners: this.#ownersIn(ofLane) }));
    const begun = this.#turns.begin(lane, { due, running, max: waitingLanesMax });
    const parallel = Math.max(2, Math.floor(slotsMax / Math.max(1, begun.length + running.length)));
    for (const each of begun) {
      this.#waitingRuns.set(each.lane, each);
      this.#run(each.lane, at.signal, () => this.#runWaiting(each.slots, { parallel, ...at }));
    }
  }

  #ownersIn(slots: readonly number[]): ReadonlySet<string> {
    const owners = new Set(slots.flatMap((slot) => this.#waiting.ownersIn(slot)));
    return owners.size > 0 ? owners : new Set(['']);
  }

  /** Every waiting lane with rows. */
  *#waitingLanes(): Generator<WaitingLane & { readonly target: number }> {
    for (const [lane, slots] of Map.groupBy(this.#waiting.slots, anyLaneOfSlot))
      yield { lane, target: targetLane(lane), owners: this.#ownersIn(slots) };
  }

  /** Stores what has changed for the operator; a write that fails is left out, and the next one follows. */
  #storeStates(): void {
    const { metadata, telemetry, clock } = this.#ctx;
    const { queue, labelOf } = this.#queue;
    if (clock.elapsed() - this.#storedAt < storedEveryMs) return;
    const changed = this.#states.takeChanged();
    if (changed.length === 0) return;
    this.#storedAt = clock.elapsed();
    const refused = this.#states.refusedByTarget();
    const byLabel = new Map<string, number>();
    for (const [target, { objects }] of refused) {
      const label = labelOf(target);
      byLabel.set(label, (byLabel.get(label) ?? 0) + objects);
    }
    this.#queue.showRefused(byLabel);
    const store = async (): Promise<void> => {
      for (const target of changed) {
        const { failures, error } = this.#states.get(target);
        const of = refused.get(target);
        if (failures === 0 && of === undefined) await forgetFailure(metadata, queue, target);
        else await storeFailure(metadata, queue, { target, failures, error, ...(of && { refused: of }) });
      }
    };
    this.#storing = this.#storing
      .then(store)
      .catch((cause: unknown) =>
        telemetry.log('DEBUG', 'the state of a target could not be stored', { cause }),
      );
  }

  /** Forgets lanes without rows: tenants choose the names of buckets at peers, and so lanes. @param slots that have rows */
  #forgetUnused(slots: readonly number[]): void {
    const used = new Set(slots.map(laneOfSlot));
    for (const lane of this.#running.keys()) used.add(targetLane(lane));
    for (const lanes of [this.#targets, this.#restingDue, this.#failedLanes])
      for (const lane of lanes.keys()) if (!used.has(targetLane(lane))) lanes.delete(lane);
  }

  #targetsOf(lane: number): Set<string> {
    let targets = this.#targets.get(lane);
    if (targets === undefined) {
      targets = new Set();
      this.#targets.set(lane, targets);
    }
    return targets;
  }

  /** Whether every known target of the lane rests. */
  #isResting(lane: number): boolean {
    const targets = [...this.#targetsOf(lane)];
    return targets.length > 0 && targets.every((target) => this.#states.isResting(target));
  }

  /** A target that failed is tried by one slot, because each try may take as long as the time-out. */
  #parallel(lane: number, most: number): number {
    return [...this.#targetsOf(lane)].some((target) => this.#states.isDoubtful(target)) ? 1 : most;
  }

  /** @returns whether a row was tried of a target that has failed */
  async #runLane({ lane, places, ...at }: Lane): Promise<boolean> {
    const bySlot = [...Map.groupBy(places, ({ slot }) => slot)];
    const trials = new Map<string, number>();
    await inParallel(slotsMax, bySlot, ([slot, hours]) => this.#drainSlot({ lane, slot, hours, trials }, at));
    return trials.size > 0;
  }

  /** Delivers what it can of a slot in a target's lane, and moves the rest out of the way. Rows of targets that take nothing stay. */
  async #drainSlot({ lane, slot, hours, trials }: SlotOfLane, { now, signal }: At): Promise<void> {
    const { subjectOf, batchMax } = this.#queue;
    const pass = new Pass({ queue: this.#queue, states: this.#states, now, signal, shareMs });
    const resumption = this.#passed.find(slot, this.#ctx.clock.elapsed());
    const mayTry = (target: string): boolean => {
      // Only one slot tries a target that failed, because each try may take as long as the time-out.
      const trial = this.#states.isDoubtful(target) ? trials.get(target) : undefined;
      return pass.mayTryTarget(target) && (trial === undefined || trial === slot);
    };
    const walk = new SlotWalk(this.#ctx, { hours, pass, resumption, mayTry });
    let shares = new Map<string, number>();
    let hour: number | undefined;
    let batch: HourlyRow[] = [];
    let moves: HourlyRow[] = [];
    const reserve = (row: HourlyRow): void => {
      this.#waiting.reserve(row, subjectOf(row));
      moves.push(row);
    };
    const flush = async (): Promise<void> => {
      for (const row of await this.#deliver(batch, pass)) reserve(row);
      pass.takeDone();
      batch = [];
      const reserved = moves;
      moves = [];
      await this.#moveReserved(reserved, pass);
    };
    const drain = async (): Promise<void> => {
      for await (const row of walk.rows()) {
        this.#hasWork = true;
        signal.throwIfAborted();
        if (row.hour !== hour) shares = new Map();
        hour = row.hour;
        const subject = subjectOf(row);
        const { target, tenant } = subject;
        this.#targetsOf(lane).add(target);
        const isTried = mayTry(target);
        if (!isTried && !pass.isExhausted(row)) {
          walk.passOver(target);
          continue;
        }
        const share = (shares.get(tenant) ?? 0) + 1;
        const isInTheWay =
          this.#waiting.has(row, subject) ||
          this.#states.isObjectResting(subject) ||
          this.#states.isTenantResting(subject) ||
          pass.hasHadShare(subject) ||
          share > shareMax;
        if (isInTheWay && isTried) reserve(row);
        else {
          shares.set(tenant, share);
          batch.push(row);
          if (this.#states.isDoubtful(target) && !trials.has(target)) trials.set(target, slot);
        }
        if (batch.length >= batchMax || moves.length >= movesMax) await flush();
      }
      await flush();
    };
    try {
      await drain();
    } finally {
      // After an error these rows stay too. The lane reads them again, and their objects may be tried.
      for (const row of moves) this.#waiting.release(row, subjectOf(row));
    }
    const elapsed = this.#ctx.clock.elapsed();
    // The next pass may go on behind rows of blocked targets only.
    if (pass.hasRetained) this.#passed.forget(slot);
    else this.#passed.record(slot, { targets: pass.blocked, now, elapsed, from: walk.from, rows: walk.read });
  }

  /** @returns the rows that may not be tried now, because of their object or tenant, the given-up ones left out */
  async #deliver(batch: readonly HourlyRow[], pass: Pass): Promise<readonly HourlyRow[]> {
    const { queue } = pass;
    for (const [target, rows] of Map.groupBy(batch, (row) => queue.subjectOf(row).target)) {
      if (pass.mayTryTarget(target)) await queue.deliver(target, this.#sort(rows), pass);
      await pass.settle(rows);
    }
    return pass.takeRefused();
  }

  #sort(rows: readonly HourlyRow[]): readonly HourlyRow[] {
    return rows.toSorted((a, b) => a.hour - b.hour || a.due - b.due || this.#queue.compare(a, b));
  }

  /** Where a target takes nothing, its rows stay, and so does everything behind them. */
  async #moveReserved(rows: readonly HourlyRow[], pass: Pass): Promise<void> {
    const { subjectOf } = this.#queue;
    const isFull = this.#fullUntil > this.#ctx.clock.elapsed();
    const [stay, go] = partition(rows, (row) => isFull || pass.isBlocked(subjectOf(row).target));
    for (const row of stay) this.#waiting.release(row, subjectOf(row));
    if (isFull) for (const row of stay) pass.retain(row);
    await this.#move(this.#sort(go), pass);
  }

  /** On a full disk the rows stay, and those of other objects are delivered past them. */
  async #move(rows: readonly HourlyRow[], pass: Pass): Promise<void> {
    if (rows.length === 0) return;
    if (this.#term === undefined) throw new Error('the term of the lanes has not begun');
    const { queue, subjectOf } = this.#queue;
    const restsUntil = (subject: Subject): number => this.#states.restsUntil(subject);
    try {
      await this.#waiting.move(rows, { queue, term: this.#term, subjectOf, restsUntil });
    } catch (cause) {
      if (!isStorageFull(cause)) throw cause;
      for (const row of rows) pass.retain(row);
      this.#fullUntil = this.#ctx.clock.elapsed() + fullRestMs;
      this.#ctx.telemetry.log('WARN', 'the store is full: rows that wait stay where they are', {
        queue,
        cause,
      });
    }
  }

  async #runWaiting(
    slots: readonly number[],
    { parallel, now, signal }: At & { readonly parallel: number },
  ): Promise<void> {
    const [first = 0] = slots;
    await inParallel(this.#parallel(laneOfSlot(first), parallel), slots, (slot) =>
      this.#drainWaiting(slot, now, signal),
    );
  }

  /** Delivers what it can of a waiting slot; the rest stays in its order. */
  async #drainWaiting(slot: number, now: number, signal: AbortSignal): Promise<void> {
    const { queue, subjectOf, batchMax } = this.#queue;
    const begunAt = this.#ctx.clock.elapsed();
    const at = { now, signal, shareMs: waitingShareMs };
    const pass = new Pass({ queue: this.#queue, states: this.#states, ...at });
    let restsUntil = Number.POSITIVE_INFINITY;
    let tried = 0;
    /** Rows that wait, by tenant: two tenants may share a slot. */
    const passedOver = new Map<string, number>();
    let batch: HourlyRow[] = [];
    const wait = (subject: Subject): void => {
      restsUntil = Math.min(restsUntil, this.#states.restsUntil(subject));
    };
    const flush = async (): Promise<boolean> => {
      const rows = batch;
      batch = [];
      this.#waiting.read(slot, rows.map(subjectOf));
      for (const row of await this.#deliver(rows, pass)) wait(subjectOf(row));
      for (const row of pass.takeDone()) this.#waiting.finished(slot, subjectOf(row));
      for (const row of pass.blockedRows) wait(subjectOf(row));
      return pass.blockedRows.size === 0;
    };
    const drain = async (): Promise<void> => {
      for (const hour of this.#waiting.begin(slot)) {
        let rows = 0;
        for await (const row of dueRowsOfHour(this.#ctx, { queue, slot, hour }, pass)) {
          signal.throwIfAborted();
          rows += 1;
          const subject = subjectOf(row);
          this.#targetsOf(laneOfSlot(slot)).add(subject.target);
          const before = passedOver.get(subject.tenant) ?? 0;
          if (before >= waitingReadMax) continue;
          if (this.#waiting.hasArrived(slot, subject.object)) restsUntil = Number.NEGATIVE_INFINITY;
          else if (!pass.mustWait(row) || pass.isExhausted(row)) {
            batch.push(row);
            tried += 1;
            if (batch.length >= batchMax && !(await flush())) return;
            if (tried >= waitingReadMax) break;
            continue;
          } else wait(subject);
          passedOver.set(subject.tenant, before + 1);
        }
        if (rows === 0) this.#waiting.isEmpty(slot, hour);
        if (!(await flush()) || tried >= waitingReadMax) return;
      }
    };
    try {
      await drain();
    } catch (cause) {
      // What the pass has not read may be due.
      restsUntil = Number.NEGATIVE_INFINITY;
      throw cause;
    } finally {
      const endedAt = this.#ctx.clock.elapsed();
      // A pass that has done something is followed by another one, after as long a pause where many rows had to be passed over.
      const isLong = Math.max(0, ...passedOver.values()) >= waitingReadMax;
      const pause = (endedAt - begunAt) * (pass.done === 0 ? idleFactor : isLong ? 1 : 0);
      this.#waiting.end(
        slot,
        Math.max(pass.done > 0 ? Number.NEGATIVE_INFINITY : restsUntil, endedAt + pause),
      );
    }
  }
}

interface At {
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
}

interface Lane extends At {
  readonly lane: number;
  readonly places: readonly QueueHour[];
}

interface SlotOfLane {
  readonly lane: number;
  readonly slot: number;
  readonly hours: readonly QueueHour[];
  /** The slot that tries each target which failed. */
  readonly trials: Map<string, number>;
}

interface Walk {
  readonly hours: readonly QueueHour[];
  readonly pass: Pass;
  readonly resumption: Resumption | undefined;
  readonly mayTry: (target: string) => boolean;
}

/**
 * The rows of a slot, the oldest first. Once a row was passed over, the walk skips to the place where the last pass ended, if none of the
 * targets of the rows between may be tried.
 */
class SlotWalk {
  readonly #ctx: Ctx;
  readonly #of: Walk;
  #hasPassedOver = false;
  /** How many rows it has read ahead of `from`. `PassedRows` uses it only for a walk that skipped nothing. */
  read = 0;
  /** Where it has gone on; undefined as long as it reads everything. */
  from: Resumption | undefined;

  constructor(ctx: Ctx, of: Walk) {
    this.#ctx = ctx;
    this.#of = of;
  }

  /** The row that was read last stays. */
  passOver(target: string): void {
    this.#of.pass.block(target);
    this.#hasPassedOver = true;
  }

  async *rows(): AsyncGenerator<HourlyRow> {
    const { hours, pass, resumption } = this.#of;
    const firstPage = resumption === undefined ? undefined : { firstPage: resumedPage };
    for (const place of hours) {
      if (this.from !== undefined && place.hour < queueHour(this.from.due)) continue;
      const begin = this.#isIn(place) ? this.from?.due : undefined;
      for await (const row of dueRowsOfHour(this.#ctx, place, { now: pass.now, from: begin, ...firstPage })) {
        this.read += 1;
        yield row;
        if (this.#resumesAfter(row)) break;
      }
      if (begin === undefined && this.#isIn(place))
        yield* dueRowsOfHour(this.#ctx, place, { now: pass.now, from: this.from?.due });
    }
  }

  /** Whether it goes on in this hour. */
  #isIn({ hour }: QueueHour): boolean {
    return this.from !== undefined && queueHour(this.from.due) === hour;
  }

  #resumesAfter(row: HourlyRow): boolean {
    const { resumption, pass, mayTry } = this.#of;
    if (resumption === undefined || this.from !== undefined || !this.#hasPassedOver) return false;
    const { due, targets } = resumption;
    const hour = queueHour(due);
    if (row.hour > hour || (row.hour === hour && row.due >= due)) return false;
    for (const target of targets) if (mayTry(target)) return false;
    for (const target of targets) pass.block(target);
    this.from = resumption;
    return true;
  }
}

function partition<T>(
  items: readonly T[],
  isFirst: (item: T) => boolean,
): readonly [readonly T[], readonly T[]] {
  const { first = [], second = [] } = Object.groupBy(items, (item) => (isFirst(item) ? 'first' : 'second'));
  return [first, second];
}
