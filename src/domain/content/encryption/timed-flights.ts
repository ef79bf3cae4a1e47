/**
 * Answers that cost a call to another service: callers that arrive together wait for one call, its answer is kept for a while, and a
 * failure for a short while, so that refused requests do not burden the service.
 */
import { BoundedCache } from '../../../base/bounded-cache.ts';

interface Flight<T> {
  readonly answer: Promise<T>;
  /** By the monotonic clock; while the call runs, its answer is waited for. */
  until: number;
}

export interface FlightTimes {
  readonly clock: { elapsed(): number };
  readonly keptMs: number;
  readonly failureKeptMs: number;
}

export class TimedFlights<T> {
  readonly #flights: BoundedCache<Flight<T>>;

  constructor(limits: { readonly name: string; readonly entriesMax: number }) {
    this.#flights = new BoundedCache(limits);
  }

  async find(
    name: string,
    { clock, keptMs, failureKeptMs }: FlightTimes,
    call: () => Promise<T>,
  ): Promise<T> {
    const known = this.#flights.get(name);
    if (known !== undefined && clock.elapsed() < known.until) return known.answer;
    const answer = call();
    const flight: Flight<T> = { answer, until: Number.POSITIVE_INFINITY };
    this.#flights.set(name, flight);
    try {
      return await answer;
    } finally {
      const lasts = await answer.then(
        () => keptMs,
        () => failureKeptMs,
      );
      flight.until = clock.elapsed() + lasts;
    }
  }
}
