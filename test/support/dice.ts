/** A small seeded generator of random choices; the printed seed repeats them. */

export interface Dice {
  /** A random integer from 0 to `below` - 1. */
  roll(below: number): number;
  pick<T>(from: readonly T[]): T;
  /** True with the probability 1/`sides`. */
  chance(sides: number): boolean;
  /** Between `min` and `max` random values. */
  several<T>(count: readonly [min: number, max: number], make: () => T): T[];
}

/** The generator Mulberry32. */
export function openDice(seed: number): Dice {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const roll = (below: number): number => Math.floor(next() * below);
  return {
    roll,
    pick: <T>(from: readonly T[]) => from[roll(from.length)] as T,
    chance: (sides) => roll(sides) === 0,
    several: ([min, max], make) => Array.from({ length: min + roll(max - min + 1) }, make),
  };
}
