/** Counts the bytes of bodies that are held whole, up to a bound. */
import type { BodyMemory } from '../../../ports/storage/body-memory.ts';

export interface BodyBudget extends BodyMemory {
  readonly usedBytes: number;
  readonly limitBytes: number;
}

export function bodyBudget(bytesMax: number): BodyBudget {
  let taken = 0;
  return {
    limitBytes: bytesMax,
    get usedBytes() {
      return taken;
    },
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
