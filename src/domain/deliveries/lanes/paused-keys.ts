/** Keys whose row a target refused, while it takes others: they rest for a doubling time. */
import type { Clock } from '../../../ports/clock.ts';

const pauseFirstMs = 1_000;
const pauseMaxMs = 60_000;
/** More keys than these say that the target takes nothing. */
export const pausedMax = 500;

interface Paused {
  readonly until: number;
  readonly pauseMs: number;
}

export class PausedKeys {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #keys = new Map<string, Paused>();

  constructor({ clock }: { readonly clock: Pick<Clock, 'elapsed'> }) {
    this.#clock = clock;
  }

  /** @returns false where too many keys rest: then the target should */
  pause(key: string): boolean {
    const known = this.#keys.get(key);
    if (known === undefined && this.#keys.size >= pausedMax) return false;
    const pauseMs = Math.min(2 * (known?.pauseMs ?? pauseFirstMs / 2), pauseMaxMs);
    this.#keys.set(key, { until: this.#clock.elapsed() + pauseMs, pauseMs });
    return true;
  }

  /** Its row is done. */
  forget(key: string): void {
    this.#keys.delete(key);
  }

  isPaused(key: string): boolean {
    const paused = this.#keys.get(key);
    return paused !== undefined && this.#clock.elapsed() < paused.until;
  }
}
