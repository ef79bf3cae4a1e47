/** Keys whose row a target refused, while it takes others: they rest for a doubling time. Beyond the limit the oldest are tried earlier. */
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { Clock } from '../../../ports/clock.ts';

const pauseFirstMs = 1_000;
const pauseMaxMs = 60_000;
const bytesMax = 4 << 20;
/** About what an entry takes besides its key. */
const entryBytes = 200;

interface Paused {
  readonly until: number;
  readonly pauseMs: number;
}

export class PausedKeys {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #keys = new BoundedCache<Paused>({
    name: 'delivery-paused-keys',
    entriesMax: 10_000,
    bytes: { max: bytesMax, sizeOf: (_, key) => key.length + entryBytes },
  });

  constructor({ clock }: { readonly clock: Pick<Clock, 'elapsed'> }) {
    this.#clock = clock;
  }

  pause(key: string): void {
    const pauseMs = Math.min(2 * (this.#keys.get(key)?.pauseMs ?? pauseFirstMs / 2), pauseMaxMs);
    this.#keys.set(key, { until: this.#clock.elapsed() + pauseMs, pauseMs });
  }

  isPaused(key: string): boolean {
    const paused = this.#keys.get(key);
    return paused !== undefined && this.#clock.elapsed() < paused.until;
  }
}
