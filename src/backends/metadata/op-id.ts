/**
 * Names for ops. Times and random parts have a fixed width, so that names sort by time and no name is
 * the prefix of another; digits are 0–9 and a–v, so that a name can be part of any path or key.
 */
import type { Clock } from '../../ports/clock.ts';
import type { Random } from '../../ports/random.ts';

const timeDigits = 9;
const randomDigits = 8;

/** 45 bits of milliseconds and 40 random bits: `1hq9f3k0a` + `c0v4m2pq`. */
export function stamp(ports: { readonly clock: Clock; readonly random: Random }): string {
  let drawn = '';
  for (const byte of ports.random.bytes(randomDigits)) drawn += (byte & 31).toString(32);
  return Math.floor(ports.clock.now()).toString(32).padStart(timeDigits, '0') + drawn;
}

/** `number` as exactly `width` digits. */
export function digits(number: number, width: number): string {
  return number.toString(32).padStart(width, '0');
}
