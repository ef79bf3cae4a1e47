/**
 * How far each slot of a lane was read past rows of targets that take nothing. Targets whose names have the same hash
 * share a lane, so behind the rows of one there may be rows of another. A pass goes on where the last one ended, so a
 * long backlog is read once.
 */
import { placementsEndMs } from '../../metadata/background/hourly-queues.ts';

interface PassedSlot {
  /** All rows that are due before the times below are of these targets. */
  readonly targets: ReadonlySet<string>;
  /** Store time (ms). Commits of usual speed add no row that is due before it. */
  readonly usualFrom: number;
  /** Store time (ms). No commit adds a row that is due before it; a redrive may. */
  readonly slowFrom: number;
  /** When a pass last read everything from `slowFrom` on, by the monotonic clock. */
  readonly slowReadAt: number;
  /** When a pass is to read the whole slot again, by the monotonic clock. */
  readonly wholeAgainAt: number;
}

/** A commit of usual speed takes less time from drawing the time of its row. */
const usualCommitMs = 10_000;
/** The rows of slower commits are found within this time. */
const slowEveryMs = 60_000;
/** An event that a redrive queues before older ones of its object is found within this time: the shorter one where a slot has few rows. */
const wholeEveryMinMs = 60_000;
const wholeEveryMaxMs = 10 * 60_000;
/** For each row that the last reading of the whole slot has read. */
const wholeEveryMsPerRow = 60;

const wholeEvery = (rows: number): number =>
  Math.min(wholeEveryMaxMs, Math.max(wholeEveryMinMs, rows * wholeEveryMsPerRow));

/** Slots that are remembered; the rows of others are read again. */
const slotsMax = 65_536;

/** Where a pass may go on, once it may try none of these targets. */
export interface Resumption {
  /** Store time (ms). It reads no row that was due before. */
  readonly due: number;
  readonly targets: ReadonlySet<string>;
  /** Whether it also finds the rows of slow commits. */
  readonly isFromSlow: boolean;
}

export class PassedRows {
  readonly #slots = new Map<number, PassedSlot>();

  find(slot: number, elapsed: number): Resumption | undefined {
    const passed = this.#slots.get(slot);
    if (passed === undefined || elapsed >= passed.wholeAgainAt) return undefined;
    const isFromSlow = elapsed - passed.slowReadAt >= slowEveryMs;
    return { due: isFromSlow ? passed.slowFrom : passed.usualFrom, targets: passed.targets, isFromSlow };
  }

  /** The next pass reads the whole slot. */
  forget(slot: number): void {
    this.#slots.delete(slot);
  }

  /**
   * Records that a pass has read the slot to its end.
   * @param end targets: those whose rows it has left. now: store time when it began. from: where it went on; absent
   *   where it read everything. rows: how many it has read
   */
  record(
    slot: number,
    end: {
      readonly targets: ReadonlySet<string>;
      readonly now: number;
      readonly elapsed: number;
      readonly from?: Resumption | undefined;
      readonly rows: number;
    },
  ): void {
    const { targets, now, elapsed, from, rows } = end;
    const all = new Set([...targets, ...(from?.targets ?? [])]);
    if (all.size === 0) {
      this.#slots.delete(slot);
      return;
    }
    const known = this.#slots.get(slot);
    const [oldest = slot] = this.#slots.keys();
    if (known === undefined && this.#slots.size >= slotsMax) this.#slots.delete(oldest);
    const usualFrom = now - usualCommitMs;
    if (known !== undefined && from?.isFromSlow === false)
      this.#slots.set(slot, { ...known, targets: all, usualFrom });
    else
      this.#slots.set(slot, {
        targets: all,
        usualFrom,
        slowFrom: now - placementsEndMs,
        slowReadAt: elapsed,
        wholeAgainAt: from === undefined ? elapsed + wholeEvery(rows) : (known?.wholeAgainAt ?? elapsed),
      });
  }
}
