/** What a worker remembers about the targets of a queue: which ones rest after a failure, and for how long. */
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Random } from '../../../ports/random.ts';

export interface TargetState {
  /** Failures since the last delivery. */
  readonly failures: number;
  /** The error of the last one; '' after a delivery. */
  readonly error: string;
  /** By the monotonic clock. */
  readonly restsUntil: number;
}

const fresh: TargetState = { failures: 0, error: '', restsUntil: Number.NEGATIVE_INFINITY };

const pauseFirstMs = 1_000;
const pauseMaxMs = 60_000;
/** Within some 20 seconds, by the pauses. */
const steadyFailures = 5;
/** Targets of the settings, and some that earlier settings had. */
const statesMax = 1_024;

export class TargetStates {
  readonly #ctx: { readonly clock: Pick<Clock, 'elapsed'>; readonly random: Random };
  readonly #states = new BoundedCache<TargetState>({ name: 'delivery-targets', entriesMax: statesMax });

  /** Targets that have taken something: a former worker may have left a failure of another one. */
  readonly #succeeded = new Set<string>();
  readonly #changed: (target: string, state: TargetState) => void;

  /** @param changed is called when a target has failed, and when it takes something again */
  constructor(
    ctx: { readonly clock: Pick<Clock, 'elapsed'>; readonly random: Random },
    changed: (target: string, state: TargetState) => void,
  ) {
    this.#ctx = ctx;
    this.#changed = changed;
  }

  get(target: string): TargetState {
    return this.#states.get(target) ?? fresh;
  }

  /**
   * Whether it has failed often enough that old rows may be given up. After a long stop of all gateways every row is old, and one failure of a
   * target that comes up at the same time says little.
   */
  failsSteadily(target: string): boolean {
    return this.get(target).failures >= steadyFailures;
  }

  isResting(target: string): boolean {
    return this.get(target).restsUntil > this.#ctx.clock.elapsed();
  }

  /** The target takes nothing: it rests for a doubling time, spread over the second half of it. */
  failed(target: string, error: string): void {
    // Deliveries that ran at the same time failed for the same cause, which counts once.
    if (this.isResting(target)) return;
    const failures = this.get(target).failures + 1;
    const longest = Math.min(pauseFirstMs * 2 ** (failures - 1), pauseMaxMs);
    const share = (this.#ctx.random.bytes(1)[0] ?? 0) / 255;
    const restsUntil = this.#ctx.clock.elapsed() + longest * (0.5 + share / 2);
    const state = { failures, error, restsUntil };
    this.#states.set(target, state);
    this.#changed(target, state);
  }

  succeeded(target: string): void {
    if (this.get(target).failures === 0 && this.#succeeded.has(target)) return;
    if (this.#succeeded.size < statesMax) this.#succeeded.add(target);
    this.#states.set(target, fresh);
    this.#changed(target, fresh);
  }
}
