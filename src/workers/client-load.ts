/**
 * Limits how much of the clients' throughput background work costs. Time is cut into cycles, and long walks work only in the first part
 * of each. The requests that are answered in both parts tell what the work costs: where clients are answered more slowly in the first
 * part, it becomes shorter, until the loss over a whole cycle is what is allowed. Whatever is contended (processor, disk, a distant
 * store), the measure is the clients' own throughput. Without clients there is no waiting.
 */
import type { Clock } from '../ports/clock.ts';

const cycleMs = 500;
/** The part of the clients' throughput that background work may cost. */
const lossMax = 0.17;
/** Limits of the working part, while clients are active. Less than a whole cycle, so that there is something to compare with. */
const share = { min: 0.1, start: 0.5, max: 0.7 } as const;
/** Answers at the beginning of the resting part are not counted, because work that began before still ends. */
const settleMs = 50;
/** Fewer answers in a cycle are no load. */
const answersMin = 10;
/** How much of the former counts remains with each cycle: they describe the last ten cycles or so. */
const decay = 0.9;
/** How fast the share follows the measurement. */
const step = 0.3;

interface Count {
  answers: number;
  ms: number;
}
const computeRate = ({ answers, ms }: Count): number => (ms === 0 ? 0 : answers / ms);

export class ClientLoad {
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  #cycle = 0;
  /** The working part of the cycle; 1 where no client is active. */
  #share = 1;
  #isWorking = false;
  /** Answers in the parts of the present cycle. */
  #now = { working: 0, resting: 0 };
  #working: Count = { answers: 0, ms: 0 };
  #resting: Count = { answers: 0, ms: 0 };

  constructor(clock: Pick<Clock, 'elapsed' | 'sleep'>) {
    this.#clock = clock;
  }

  /** A request of a client was answered. */
  answered(): void {
    const left = this.#workEnds();
    if (left > 0) this.#now.working += 1;
    else if (left < -settleMs) this.#now.resting += 1;
  }

  /** Resolves in the working part of a cycle. */
  async yieldToClients(signal: AbortSignal): Promise<void> {
    while (this.#workEnds() <= 0 && !signal.aborted) {
      const untilNext = cycleMs - (this.#clock.elapsed() % cycleMs);
      await this.#clock.sleep(Math.max(1, untilNext), signal);
    }
    this.#isWorking = true;
    signal.throwIfAborted();
  }

  /** How long the working part of the present cycle lasts, in ms; not positive when it is over. */
  #workEnds(): number {
    const now = this.#clock.elapsed();
    const cycle = Math.floor(now / cycleMs);
    if (cycle !== this.#cycle) this.#endCycle(cycle);
    return this.#share * cycleMs - (now - cycle * cycleMs);
  }

  #endCycle(next: number): void {
    const { working, resting } = this.#now;
    // A cycle without background work tells nothing about its cost.
    if (this.#isWorking && next === this.#cycle + 1) this.#learn(working, resting);
    else if (next > this.#cycle + 1) this.#share = 1;
    this.#cycle = next;
    this.#now = { working: 0, resting: 0 };
    this.#isWorking = false;
  }

  #learn(working: number, resting: number): void {
    if (working + resting < answersMin) {
      this.#share = 1;
      this.#working = { answers: 0, ms: 0 };
      this.#resting = { answers: 0, ms: 0 };
      return;
    }
    if (this.#share === 1) {
      this.#share = share.start;
      return;
    }
    const workingMs = this.#share * cycleMs;
    this.#working = {
      answers: this.#working.answers * decay + working,
      ms: this.#working.ms * decay + workingMs,
    };
    this.#resting = {
      answers: this.#resting.answers * decay + resting,
      ms: this.#resting.ms * decay + cycleMs - workingMs - settleMs,
    };
    const loss = 1 - computeRate(this.#working) / computeRate(this.#resting);
    const target = loss > 0 ? Math.min(share.max, Math.max(share.min, lossMax / loss)) : share.max;
    this.#share += step * (target - this.#share);
  }
}
