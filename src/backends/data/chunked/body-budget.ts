/** Counts the bytes of bodies that are held whole, up to a bound. */
import type { BodyMemory } from '../../../ports/storage/body-memory.ts';

export function bodyBudget(bytesMax: number): BodyMemory {
  let taken = 0;
  return {
    take(bytes) {
      if (taken + bytes > bytesMax) return false;
      taken += bytes;
      return true;
    },
    give(bytes) {
      taken -= bytes;
    },
  };
}
