/**
 * The lanes of an hourly queue whose rows go to targets (docs/adr/0033-lanes-of-deliveries.md). The hash of a target chooses its lane, which
 * runs beside the others, so a target that hangs delays no other (but for one in 65,536). In a lane the slots run in parallel, and the
 * rows of a slot one after the other: the rows of an object are in one slot.
 *
 * A lane holds only rows that nothing stands in the way of. Rows of an object that its target refuses, of a tenant that rests, and those
 * beyond a tenant's share are moved to the waiting lane of their tenant at this target, and the later rows of such an object follow
 * them. So the order of an object holds, and neither a bad event nor a long backlog delays other tenants.
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
  hashToLane,
  isWaitingSlot,
  laneOfSlot,
} from '../../metadata/background/hourly-queues.ts';
import type { Term } from '../../metadata/background/tasks.ts';
import type { HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import { type LaneQueue, Pass } from './pass.ts';
import { forgetFailure, listFailing, type Subject, storeFailure, TargetStates } from './target-states.ts';
import { WaitingRows } from './waiting-rows.ts';

/** Slots of a lane that are delivered at a time. */
const slotsMax = 16;
/** Waiting lanes of a target that run at a time; the others follow in turn. */
const waitingLanesMax = 8;
/** Rows of one tenant that a slot delivers in a pass, before the next ones are moved out of the way of others. */
const shareMax = 256;
/** Rows that are moved together. */
const movesMax = 64;
/** Rows that a pass reads of a waiting slot; objects behind these wait until some of them are done. */
const waitingReadMax = 5_000;
/** A waiting slot of which nothing could be delivered is not read again for this many times the time that the pass took. */
const idleFactor = 10;
/** How often the states of targets are stored. */
const storedEveryMs = 1_000;

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'telemetry'>;

export class Lanes {
  readonly #ctx: Ctx;
  readonly #queue: LaneQueue;
  readonly #states: TargetStates;
  readonly #waiting: WaitingRows;
  readonly #running = new Map<number, Promise<void>>();
  /** The targets of each lane: those of the settings, and others that rows named. */
  readonly #targets = new Map<number, Set<string>>();
  /** When a waiting lane ran last, by the number of runs before. */
  readonly #ranAt = new Map<number, number>();
  #runs = 0;
  #isRestored = false;
  readonly #generation: number;
  #term: Term | undefined;
  #storedAt = Number.NEGATIVE_INFINITY;
  #storing: Promise<void> = Promise.resolve();
  #failure: { readonly cause: unknown } | undefined;
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
    for (const target of queue.targets) this.#targetsOf(hashToLane(target)).add(target);
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
    this.#storeStates();
    // A lane that runs already may have read its slots before this look.
    this.#hasWork = this.#running.size > 0;
    const now = await this.#ctx.metadata.now();
    const hours = await listDueHours(this.#ctx, this.#queue.queue, now);
    this.#listsAgainAt = now + listsOldHoursAt(this.#ctx, this.#queue.queue) - this.#ctx.clock.elapsed();
    await this.#waiting.load(hours, { now, subjectOf: this.#queue.subjectOf });
    const at = { now, signal };
    const main = hours.filter(({ slot }) => !isWaitingSlot(slot));
    for (const [lane, places] of Map.groupBy(main, ({ slot }) => laneOfSlot(slot)))
      if (!this.#running.has(lane) && !this.#isResting(lane))
        this.#run(lane, signal, () => this.#runLane(lane, { places, ...at }));
      else this.#hasWork = true;
    const due = Map.groupBy(this.#waiting.due(), (slot) => laneOfSlot(slot));
    for (const [lane, slots] of due) this.#startWaiting(lane, { slots, ...at });
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
    this.#showRefused(new Map());
  }

  #run(lane: number, signal: AbortSignal, work: () => Promise<void>): void {
    const run = work()
      .catch((cause: unknown) => {
        if (!signal.aborted) this.#failure ??= { cause };
      })
      .finally(() => this.#running.delete(lane));
    this.#running.set(lane, run);
  }

  /** Starts waiting lanes of a target, those first that have not run for the longest time. */
  #startWaiting(
    lane: number,
    {
      slots,
      ...at
    }: { readonly slots: readonly number[]; readonly now: number; readonly signal: AbortSignal },
  ): void {
    const lanes = [...Map.groupBy(slots, anyLaneOfSlot)]
      .filter(([waitingLane]) => !this.#running.has(waitingLane))
      .sort(([a], [b]) => (this.#ranAt.get(a) ?? 0) - (this.#ranAt.get(b) ?? 0));
    const others = [...this.#running.keys()].filter(
      (each) => isWaitingLane(each) && targetLane(each) === lane,
    );
    const free = lanes.slice(0, Math.max(0, waitingLanesMax - others.length));
    const parallel = Math.max(2, Math.floor(slotsMax / Math.max(1, free.length + others.length)));
    for (const [waitingLane, ofLane] of free) {
      this.#runs += 1;
      this.#ranAt.set(waitingLane, this.#runs);
      this.#run(waitingLane, at.signal, () => this.#runWaiting(ofLane, { parallel, ...at }));
    }
    for (const known of this.#ranAt.keys())
      if (this.#ranAt.size > 2 * waitingLanesMax * slotsMax && !this.#running.has(known))
        this.#ranAt.delete(known);
  }

  /** Stores what has changed for the operator; a write that fails is left out, and the next one follows. */
  #storeStates(): void {
    const { metadata, telemetry, clock } = this.#ctx;
    const { queue } = this.#queue;
    if (clock.elapsed() - this.#storedAt < storedEveryMs) return;
    const changed = this.#states.takeChanged();
    if (changed.length === 0) return;
    this.#storedAt = clock.elapsed();
    const refused = this.#states.refusedByTarget();
    this.#showRefused(refused);
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

  /** The objects that wait, because their target refuses them. */
  #showRefused(refused: ReadonlyMap<string, { readonly objects: number }>): void {
    const { telemetry } = this.#ctx;
    const byTarget = [...refused].map(([target, { objects }]) => ({ target, objects }));
    if (this.#queue.queue === 'notify')
      telemetry.replace(
        'svc_notify_refused_objects',
        byTarget.map(({ target, objects }) => [{ target }, objects]),
      );
    else
      telemetry.replace(
        'svc_replication_refused_objects',
        byTarget.map(({ target, objects }) => [{ destination: target }, objects]),
      );
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

  async #runLane(
    lane: number,
    {
      places,
      now,
      signal,
    }: { readonly places: readonly QueueHour[]; readonly now: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const bySlot = [...Map.groupBy(places, ({ slot }) => slot).values()];
    await inParallel(this.#parallel(lane, slotsMax), bySlot, async (hours) => {
      const pass = new Pass({ queue: this.#queue, states: this.#states, now, signal });
      for (const place of hours) if (!(await this.#drainHour(lane, { place, pass }))) return;
    });
  }

  /** Delivers what it can of an hour in a target's lane, and moves the rest out of the way. @returns whether the next hour is worth reading */
  async #drainHour(
    lane: number,
    { place, pass }: { readonly place: QueueHour; readonly pass: Pass },
  ): Promise<boolean> {
    const { subjectOf, batchMax } = this.#queue;
    const shares = new Map<string, number>();
    let batch: HourlyRow[] = [];
    let moves: HourlyRow[] = [];
    const flush = async (): Promise<boolean> => {
      const refused = await this.#deliver(batch, pass);
      pass.takeDone();
      for (const row of refused) this.#waiting.reserve(row, subjectOf(row));
      // Where a target takes nothing, its rows stay, and so does everything behind them.
      const [stay, go] = partition([...refused, ...moves], (row) => pass.isBlocked(subjectOf(row).target));
      for (const row of stay) this.#waiting.release(row, subjectOf(row));
      await this.#move(this.#sort(go));
      batch = [];
      moves = [];
      return pass.left.size === 0 || [...this.#targetsOf(lane)].some((target) => pass.mayTryTarget(target));
    };
    for await (const row of dueRowsOfHour(this.#ctx, place, pass)) {
      this.#hasWork = true;
      pass.signal.throwIfAborted();
      const subject = subjectOf(row);
      const { target, tenant } = subject;
      this.#targetsOf(lane).add(target);
      const share = (shares.get(tenant) ?? 0) + 1;
      const isInTheWay =
        this.#waiting.has(row, subject) ||
        this.#states.isObjectResting(subject) ||
        this.#states.isTenantResting(subject) ||
        share > shareMax;
      if (isInTheWay && pass.mayTryTarget(target)) {
        this.#waiting.reserve(row, subject);
        moves.push(row);
      } else {
        shares.set(tenant, share);
        batch.push(row);
      }
      if ((batch.length >= batchMax || moves.length >= movesMax) && !(await flush())) return false;
    }
    return flush();
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

  async #move(rows: readonly HourlyRow[]): Promise<void> {
    if (rows.length === 0) return;
    if (this.#term === undefined) throw new Error('the term of the lanes has not begun');
    const { queue, subjectOf } = this.#queue;
    const restsUntil = (subject: Subject): number => this.#states.restsUntil(subject);
    await this.#waiting.move(rows, { queue, term: this.#term, subjectOf, restsUntil });
  }

  async #runWaiting(
    slots: readonly number[],
    {
      parallel,
      now,
      signal,
    }: { readonly parallel: number; readonly now: number; readonly signal: AbortSignal },
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
    const pass = new Pass({ queue: this.#queue, states: this.#states, now, signal });
    let restsUntil = Number.POSITIVE_INFINITY;
    let read = 0;
    let batch: HourlyRow[] = [];
    const wait = (subject: Subject): void => {
      restsUntil = Math.min(restsUntil, this.#states.restsUntil(subject));
    };
    const flush = async (): Promise<boolean> => {
      const rows = batch;
      batch = [];
      for (const row of await this.#deliver(rows, pass)) wait(subjectOf(row));
      for (const row of pass.takeDone()) this.#waiting.finished(slot, subjectOf(row).object);
      for (const row of pass.left) wait(subjectOf(row));
      return pass.left.size === 0;
    };
    const drain = async (): Promise<void> => {
      for (const hour of this.#waiting.begin(slot)) {
        let rows = 0;
        for await (const row of dueRowsOfHour(this.#ctx, { queue, slot, hour }, pass)) {
          signal.throwIfAborted();
          rows += 1;
          read += 1;
          const subject = subjectOf(row);
          this.#targetsOf(laneOfSlot(slot)).add(subject.target);
          if (this.#waiting.hasArrived(slot, subject.object)) restsUntil = Number.NEGATIVE_INFINITY;
          else if (pass.mustWait(row)) {
            if (pass.isOverdue(row) && this.#states.failsSteadily(subject)) batch.push(row);
            else wait(subject);
          } else batch.push(row);
          if (batch.length >= batchMax && !(await flush())) return;
          if (read >= waitingReadMax) break;
        }
        if (rows === 0) this.#waiting.isEmpty(slot, hour);
        if (!(await flush()) || read >= waitingReadMax) return;
      }
    };
    try {
      await drain();
    } finally {
      const endedAt = this.#ctx.clock.elapsed();
      const pause = pass.done > 0 ? 0 : (endedAt - begunAt) * idleFactor;
      this.#waiting.end(
        slot,
        Math.max(pass.done > 0 ? Number.NEGATIVE_INFINITY : restsUntil, endedAt + pause),
      );
    }
  }
}

function partition<T>(
  items: readonly T[],
  isFirst: (item: T) => boolean,
): readonly [readonly T[], readonly T[]] {
  const { first = [], second = [] } = Object.groupBy(items, (item) => (isFirst(item) ? 'first' : 'second'));
  return [first, second];
}

const isWaitingLane = (lane: number): boolean => lane >= 65_536;
const targetLane = (lane: number): number => lane % 65_536;
