/**
 * Names for ops. Times and random parts have a fixed width, so that names sort by time and no name is
 * the prefix of another; digits are 0–9 and a–v, so that a name can be part of any path or key.
 */

import { memoizeLast } from '../../../base/memoize.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Random } from '../../../ports/random.ts';

const timeDigits = 9;
const randomDigits = 8;

const digitOf = Array.from({ length: 256 }, (_, byte) => (byte & 31).toString(32));

/** 45 bits of milliseconds and 40 random bits: `1hq9f3k0a` + `c0v4m2pq`. */
export function stamp(ports: { readonly clock: Clock; readonly random: Random }): string {
  const bytes = ports.random.bytes(randomDigits);
  let drawn = '';
  for (let i = 0; i < randomDigits; i++) drawn += digitOf[bytes[i] as number];
  return timeText(ports.clock.now()) + drawn;
}

const timeText = memoizeLast((ms: number) => Math.floor(ms).toString(32).padStart(timeDigits, '0'));

/** A stamp of the millisecond after another's, with its own random part. */
export const stampAfter = (other: string, own: string): string =>
  (Number.parseInt(other.slice(0, timeDigits), 32) + 1).toString(32).padStart(timeDigits, '0') +
  own.slice(timeDigits);

/** The least stamp of a time. */
export const stampAt = (ms: number): string =>
  Math.floor(ms).toString(32).padStart(timeDigits, '0') + '0'.repeat(randomDigits);

/** `number` as exactly `width` digits. */
export function digits(number: number, width: number): string {
  return number.toString(32).padStart(width, '0');
}
