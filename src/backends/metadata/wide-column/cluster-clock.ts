/**
 * The cluster's clock as this process can know it: an estimate, and by how much it may be wrong. A stamp that is drawn at its late edge,
 * and waited for until its early edge is past, is earlier than every stamp that is drawn anywhere afterwards.
 *
 * The estimate is the median of the clocks of several nodes, so that one wrong clock changes nothing.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';

/** How old an estimate may be. */
const freshMs = 2_000;
/** How old the last answer of a node may be for its clock to count. Longer than the restart of a node. */
const answerAgeMaxMs = 10 * 60_000;
/** By how much two clocks may drift apart, and the estimate with them. */
const driftPerMs = 1e-4;
/** A slow answer is a poor estimate: up to this many queries are sent to a node, until one is good enough. */
const samplesMax = 5;
const goodErrorMs = 0.8;
/** The cluster reports whole milliseconds. */
const grainMs = 0.5;
/** A clock that differs more from the others, or from what it was, is wrong. */
const skewMaxMs = 1_000;
/** A single node whose clock was set is believed after so many measurements. */
const confirmations = 5;
/** A commit does not wait longer until the clock has passed a stamp. */
const waitMaxMs = 12_000;

/** The clock of one node. */
export interface NodeClock {
  readonly node: string;
  /** In ms since the epoch. */
  read(): Promise<number>;
}

interface Estimate {
  /** The cluster's time less this process's. */
  readonly offsetMs: number;
  readonly errorMs: number;
  readonly at: number;
}

export class ClusterClock {
  readonly #clocks: () => readonly NodeClock[];
  /** The best recent answer of each node. */
  readonly #answers = new Map<string, Estimate>();
  #estimate: Estimate | undefined;
  /** Measurements in turn that differ from the estimate. */
  #jumps = 0;
  #askedAt = 0;
  #measuring: Promise<void> | undefined;
  #lastStamp = 0n;

  /** @param clocks those of the nodes that are connected now */
  constructor(clocks: () => readonly NodeClock[]) {
    this.#clocks = clocks;
  }

  /** In ms since the epoch. */
  async now(): Promise<number> {
    const { offsetMs } = await this.#current();
    return Math.round(performance.now() + offsetMs);
  }

  /**
   * A stamp for plain writes, in µs: no earlier than now, and later than any that this process has drawn.
   * @throws StoreUnavailable where the clock is now far behind a stamp that was drawn
   */
  async stamp(): Promise<bigint> {
    const estimate = await this.#current();
    const now = microseconds(performance.now() + estimate.offsetMs + boundError(estimate));
    const next = now > this.#lastStamp ? now : this.#lastStamp + 1n;
    assertNear(next, now);
    this.#lastStamp = next;
    return next;
  }

  /**
   * Waits until no process can draw a stamp this early any more.
   * @throws StoreUnavailable where that takes longer than a statement may
   */
  async passed(stamp: bigint): Promise<void> {
    const started = performance.now();
    for (;;) {
      const estimate = await this.#current();
      const surely = microseconds(performance.now() + estimate.offsetMs - boundError(estimate));
      if (surely > stamp) return;
      assertNear(stamp, surely - microseconds(performance.now() - started));
      await sleep(Math.min(freshMs, Math.ceil(Number(stamp - surely) / 1000)));
    }
  }

  /** Nodes whose clocks are wrong, and by how many ms each is ahead. */
  wrongClocks(): ReadonlyMap<string, number> {
    const estimate = this.#estimate;
    if (estimate === undefined) return new Map();
    const wrong = [...this.#answers].filter(([, answer]) => !areNear(answer, estimate));
    return new Map(wrong.map(([node, { offsetMs }]) => [node, offsetMs - estimate.offsetMs]));
  }

  async #current(): Promise<Estimate> {
    const ageMs = performance.now() - this.#askedAt;
    if (this.#estimate === undefined || ageMs > freshMs) {
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = undefined;
      });
      // A stale estimate is used while a new one is made; without any, callers wait.
      if (this.#estimate === undefined || ageMs > answerAgeMaxMs) await this.#measuring;
      else this.#measuring.catch(() => undefined);
    }
    if (this.#estimate === undefined) throw new Error('the clock of the cluster is not known');
    return this.#estimate;
  }

  async #measure(): Promise<void> {
    const clocks = this.#clocks();
    if (clocks.length === 0) throw new StoreUnavailable('no node is connected');
    const measured = await Promise.allSettled(clocks.map((clock) => this.#sample(clock)));
    const failures = measured.filter((each) => each.status === 'rejected');
    if (failures.length === clocks.length) throw failures[0]?.reason;
    this.#askedAt = performance.now();
    this.#combine();
  }

  async #sample({ node, read }: NodeClock): Promise<void> {
    for (let sample = 0; sample < samplesMax; sample += 1) {
      const before = performance.now();
      const ms = await read();
      const after = performance.now();
      const errorMs = (after - before) / 2 + grainMs;
      const found = { offsetMs: ms + grainMs - (before + after) / 2, errorMs, at: after };
      const known = this.#answers.get(node);
      // Two answers that exclude each other: the clock of the node was set.
      const isSet =
        known !== undefined && Math.abs(found.offsetMs - known.offsetMs) > errorMs + boundError(known);
      if (known === undefined || isSet || errorMs <= boundError(known)) this.#answers.set(node, found);
      if (errorMs <= goodErrorMs) return;
    }
  }

  #combine(): void {
    const now = performance.now();
    for (const [node, { at }] of this.#answers) if (now - at > answerAgeMaxMs) this.#answers.delete(node);
    const answers = [...this.#answers.values()];
    const candidates = medians(answers, now);
    const known = this.#estimate;
    const near = candidates.find((each) => known === undefined || areNear(each, known));
    const found = near ?? candidates[0];
    if (found === undefined) return;
    this.#jumps = near === undefined ? this.#jumps + 1 : 0;
    // Two nodes that agree prove that the estimate is wrong, as after a pause of this machine. A single one may have a wrong clock.
    const areTwo = answers.filter((each) => areNear(each, found)).length > 1;
    if (near === undefined && !areTwo && this.#jumps < confirmations) return;
    this.#jumps = 0;
    this.#estimate = found;
  }
}

/**
 * The median of clocks, each of which is known to be in an interval: it is between the medians of their ends. Of an even number, the
 * lower median and the upper one.
 */
function medians(answers: readonly Estimate[], at: number): readonly Estimate[] {
  const ends = (sign: 1 | -1): number[] =>
    answers.map((each) => each.offsetMs + sign * boundError(each)).sort((a, b) => a - b);
  const [lows, highs] = [ends(-1), ends(1)];
  const middle = (answers.length - 1) / 2;
  return [...new Set([Math.floor(middle), Math.ceil(middle)])].flatMap((i) => {
    const [low, high] = [lows[i], highs[i]];
    if (low === undefined || high === undefined) return [];
    return [{ offsetMs: (low + high) / 2, errorMs: (high - low) / 2, at }];
  });
}

const areNear = (one: Estimate, other: Estimate): boolean =>
  Math.abs(one.offsetMs - other.offsetMs) <= skewMaxMs + boundError(one) + boundError(other);

/** For an operator. @param wrong by how many ms the clock of each node is ahead */
export const describeWrongClocks = (wrong: ReadonlyMap<string, number>): string[] =>
  [...wrong].map(([node, aheadMs]) => {
    const seconds = (Math.abs(aheadMs) / 1000).toFixed(1);
    return `the clock of node ${node} is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the cluster's: correct it (NTP)`;
  });

function assertNear(stamp: bigint, time: bigint): void {
  if (stamp - time <= microseconds(waitMaxMs)) return;
  const seconds = Math.round(Number(stamp - time) / 1_000_000);
  throw new StoreUnavailable(
    `the clock of the cluster is ${seconds} s behind the stamp of a write: a clock of a node was wrong, or is`,
  );
}

const boundError = ({ errorMs, at }: Estimate): number => errorMs + (performance.now() - at) * driftPerMs;
const microseconds = (ms: number): bigint => BigInt(Math.round(ms * 1000));
