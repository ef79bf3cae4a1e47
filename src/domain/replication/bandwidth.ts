/** Keeps the bandwidth of a peer: the rate of the bodies that are sent to it, which accounts share. */
import { SharedSemaphore } from '../../base/mutex.ts';
import type { Clock } from '../../ports/clock.ts';
import { openSharedPace, type Pace } from '../rebalance/pace.ts';

/** What an account sends to a peer with a bandwidth. */
export interface Bandwidth {
  /** Waits until so many bytes of a body are within the rate. */
  readonly pace: Pace;
  /** Runs what sends a body of so many bytes, as soon as few enough bodies share the rate. */
  run<T>(bytes: number, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** A larger body is sent as a stream. */
export const smallBodyMax = 64 * 1024;
const middleBodyMax = 1024 * 1024;

/**
 * Receivers end a body that arrives too slowly, as this service does by `SVC_BODY_RATE_MIN`, so only some bodies share the rate. The pace
 * serves accounts in rotation: of n bodies the slowest is one of an account with n/2, beside n/2 accounts with one each. It gets 16 KiB
 * within 10 seconds where n² is the rate in KiB per second.
 */
export function openBandwidth(
  clock: Pick<Clock, 'elapsed' | 'sleep'>,
  bytesPerSecond: number,
): (account: string) => Bandwidth {
  const paceOf = openSharedPace(clock, bytesPerSecond);
  const bodies = Math.floor(Math.sqrt(bytesPerSecond / 1024)) - 1;
  const quarter = Math.ceil(bodies / 4);
  const small = new SharedSemaphore(quarter);
  const middle = new SharedSemaphore(bodies - 2 * quarter);
  // A large body takes hours, so one account gets half of these turns at most.
  const large = new SharedSemaphore(quarter, 1);
  const turnsFor = (bytes: number): SharedSemaphore =>
    bytes <= smallBodyMax ? small : bytes <= middleBodyMax ? middle : large;
  return (account) => ({
    pace: paceOf(account),
    run: (bytes, work, signal) => turnsFor(bytes).run(account, work, signal),
  });
}
