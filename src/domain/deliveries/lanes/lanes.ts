/**
 * The lanes of an hourly queue whose rows go to targets: each target has its own, which runs beside the others, so a target that hangs
 * delays no other. In a lane the slots run in parallel, and the rows of a slot one after the other: the rows of an object are in one slot.
 *
 * Nothing is held in memory but the rows that are on their way. Where a target takes nothing, its rows stay in the queue.
 */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import { dueRowsOfHour, listDueHours } from '../../../metadata/background/hourly-consumer.ts';
import { type HourlyQueue, laneOf, laneOfSlot } from '../../../metadata/background/hourly-queues.ts';
import type { HourlyRow, QueueHour } from '../../../metadata/records/queues.ts';
import { forgetFailure, storeFailure } from './stored-states.ts';
import { type TargetState, TargetStates } from './target-states.ts';

/** Slots of a lane that are delivered at a time. */
const slotsMax = 16;

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'telemetry'>;

export interface Pass {
  readonly states: TargetStates;
  /** Store time. */
  readonly now: number;
  readonly signal: AbortSignal;
  /** What the queue orders by, where a row of it stays: its later rows wait for the next pass. One set for each slot. */
  readonly stuck: Set<string>;
}

export interface LaneQueue {
  readonly queue: HourlyQueue;
  /** Rows that a slot has in memory. After a kill at most these are delivered again. */
  readonly batchMax: number;
  /** The targets that are known; rows may name others. */
  readonly targets: readonly string[];
  targetOf(row: HourlyRow): string;
  /**
   * Rows of one slot, the oldest first. Rows whose target rests stay in the queue.
   * @returns how many rows are done
   */
  deliver(rows: readonly HourlyRow[], pass: Pass): Promise<number>;
}

export class Lanes {
  readonly #ctx: Ctx;
  readonly #queue: LaneQueue;
  readonly #states: TargetStates;
  readonly #running = new Map<number, Promise<void>>();
  /** The targets of each lane: those of the settings, and others that rows named. */
  readonly #targets = new Map<number, Set<string>>();
  #storing: Promise<void> = Promise.resolve();
  #failure: { readonly cause: unknown } | undefined;

  constructor(ctx: Ctx, queue: LaneQueue) {
    this.#ctx = ctx;
    this.#queue = queue;
    this.#states = new TargetStates(ctx, (target, state) => this.#store(target, state));
    for (const target of queue.targets) this.#targetsOf(laneOf(target)).add(target);
  }

  /** Starts every lane that has rows and does not run. @throws the error of a lane that failed since */
  async start(signal: AbortSignal): Promise<void> {
    if (this.#failure !== undefined) {
      const { cause } = this.#failure;
      this.#failure = undefined;
      throw cause;
    }
    const now = await this.#ctx.metadata.now();
    const hours = await listDueHours(this.#ctx, this.#queue.queue, now);
    const pass = { states: this.#states, now, signal };
    for (const [lane, places] of Map.groupBy(hours, ({ slot }) => laneOfSlot(slot))) {
      if (this.#running.has(lane) || this.#isResting(lane)) continue;
      const run = this.#runLane(lane, { places, pass })
        .catch((cause: unknown) => {
          if (!signal.aborted) this.#failure ??= { cause };
        })
        .finally(() => this.#running.delete(lane));
      this.#running.set(lane, run);
    }
  }

  /** Resolves when no lane runs. */
  async settle(): Promise<void> {
    await Promise.all(this.#running.values());
    await this.#storing;
  }

  /** Stores a change for the operator; one that fails is left out, and the next one follows. */
  #store(target: string, { failures, error }: TargetState): void {
    const { metadata, telemetry } = this.#ctx;
    const { queue } = this.#queue;
    this.#storing = this.#storing
      .then(() =>
        failures === 0
          ? forgetFailure(metadata, queue, target)
          : storeFailure(metadata, queue, { target, failures, error }),
      )
      .catch((cause: unknown) =>
        telemetry.log('DEBUG', 'the state of a target could not be stored', { target, cause }),
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

  async #runLane(
    lane: number,
    { places, pass }: { readonly places: readonly QueueHour[]; readonly pass: Omit<Pass, 'stuck'> },
  ): Promise<void> {
    const bySlot = [...Map.groupBy(places, ({ slot }) => slot).values()];
    // A target that failed is tried by one slot, because each try may take as long as the time-out.
    const isDoubtful = [...this.#targetsOf(lane)].some((target) => this.#states.get(target).failures > 0);
    await inParallel(isDoubtful ? 1 : slotsMax, bySlot, async (hours) => {
      const ofSlot: Pass = { ...pass, stuck: new Set() };
      for (const place of hours) if (!(await this.#drainHour(lane, { place, pass: ofSlot }))) return;
    });
  }

  /** @returns whether the slot's next hour is worth reading */
  async #drainHour(
    lane: number,
    { place, pass }: { readonly place: QueueHour; readonly pass: Pass },
  ): Promise<boolean> {
    let batch: HourlyRow[] = [];
    const deliver = async (): Promise<boolean> => {
      if (batch.length === 0) return true;
      const targets = this.#targetsOf(lane);
      for (const row of batch) targets.add(this.#queue.targetOf(row));
      const done = await this.#queue.deliver(batch, pass);
      batch = [];
      // A target that rests may still have rows that are overdue, and these are the oldest.
      return done > 0 || !this.#isResting(lane);
    };
    for await (const row of dueRowsOfHour(this.#ctx, place, pass)) {
      pass.signal.throwIfAborted();
      batch.push(row);
      if (batch.length >= this.#queue.batchMax && !(await deliver())) return false;
    }
    return deliver();
  }
}
