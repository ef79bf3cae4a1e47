/** Limits how fast bytes move: an average rate, kept by waiting. */
import { SharedSemaphore } from '../../base/mutex.ts';
import type { Clock } from '../../ports/clock.ts';

/** Waits until this many further bytes are within the rate. */
export type Pace = (bytes: number, signal: AbortSignal) => Promise<void>;

/** Shorter waits are added to the next one, because timers are not exact. */
const waitMsMin = 10;

export function openPace(clock: Pick<Clock, 'elapsed' | 'sleep'>, bytesPerSecond: number): Pace {
  /** When the bytes admitted so far are within the average rate. */
  let paidAt = 0;
  return async (bytes, signal) => {
    const now = clock.elapsed();
    paidAt = Math.max(paidAt, now) + (bytes * 1000) / bytesPerSecond;
    if (paidAt - now >= waitMsMin) await clock.sleep(paidAt - now, signal);
    signal.throwIfAborted();
  };
}

/** One pace for the bytes of several owners. Those that wait go in rotation, however many each of them moves at a time. */
export function openSharedPace(
  clock: Pick<Clock, 'elapsed' | 'sleep'>,
  bytesPerSecond: number,
): (owner: string) => Pace {
  const pace = openPace(clock, bytesPerSecond);
  const turns = new SharedSemaphore(1);
  return (owner) => (bytes, signal) => turns.run(owner, () => pace(bytes, signal), signal);
}

/** The pace that also waits until clients leave room for background work. */
export const behindClients =
  (pace: Pace, yieldToClients: (signal: AbortSignal) => Promise<void>): Pace =>
  async (count, signal) => {
    await yieldToClients(signal);
    await pace(count, signal);
  };
