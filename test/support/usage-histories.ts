/** Random days of a bucket, and the exact integral of what they hold: what a bill should say. */
import type { Dice } from './dice.ts';

export const dayMs = 86_400_000;
export const storageClasses = ['STANDARD', 'STANDARD_IA', 'GLACIER'] as const;

/** A state of a key, from a time of the day until the next state or the end of the day. */
export interface KeyState {
  readonly key: string;
  readonly at: number;
  readonly until: number;
  readonly storageClass: string;
  readonly bytes: number;
}

export interface History {
  /** When the bucket is created and deleted, in ms of the day. */
  readonly created: number;
  readonly deleted: number;
  readonly states: readonly KeyState[];
}

/** Of a bucket that exists all day, or from or until some time of it. */
export function drawHistory(dice: Dice, kind: 'all-day' | 'created' | 'deleted'): History {
  const created = kind === 'created' ? 1 + dice.roll(dayMs / 2) : 0;
  const deleted = kind === 'deleted' ? dayMs / 2 + dice.roll(dayMs / 2 - 1) : dayMs;
  const states = dice
    .several([1, 4], () => dice.roll(1_000_000))
    .flatMap((name) => {
      const times = dice
        .several([1, 4], () => created + 1 + dice.roll(deleted - created - 1))
        .toSorted((a, b) => a - b);
      return times.flatMap((at, index): KeyState[] => {
        const until = times[index + 1] ?? deleted;
        // Sometimes the key is absent for a while.
        if (index > 0 && dice.chance(3)) return [];
        const bytes = 1 + dice.roll(2_000);
        return [{ key: `key${name}`, at, until, storageClass: dice.pick(storageClasses), bytes }];
      });
    });
  return { created, deleted, states };
}

export interface ExactUsage {
  readonly byteSeconds: number;
  /**
   * The largest error that samples may cause: what one sample interval of each state amounts to. A state that ends after the last sample
   * of the day may cost a half more, because the specification's formula counts the last sample until midnight.
   */
  readonly tolerance: number;
}

const isCutShort = (until: number, intervalMs: number): boolean =>
  until < dayMs && until > dayMs - intervalMs;

/** By storage class, with samples every `intervalMs`. */
export function exactUsage({ states }: History, intervalMs: number): ReadonlyMap<string, ExactUsage> {
  const sums = new Map<string, ExactUsage>();
  for (const { storageClass, bytes, at, until } of states) {
    const { byteSeconds = 0, tolerance = 0 } = sums.get(storageClass) ?? {};
    sums.set(storageClass, {
      byteSeconds: byteSeconds + (bytes * (until - at)) / 1_000,
      tolerance: tolerance + (bytes * intervalMs * (isCutShort(until, intervalMs) ? 1.5 : 1)) / 1_000,
    });
  }
  return sums;
}
