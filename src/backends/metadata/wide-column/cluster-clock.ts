/**
 * The cluster's clock as this process can know it: an estimate, and by how much it may be wrong. A stamp that is drawn at
 * its late edge, and waited for until its early edge is past, is earlier than every stamp that is drawn anywhere afterwards.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** How old an estimate may be. */
const freshMs = 2_000;
/** By how much two clocks may drift apart, and the estimate with them. */
const driftPerMs = 1e-4;
/** A slow answer is a poor estimate: up to this many queries are sent, until one is good enough. */
const samplesMax = 5;
const goodErrorMs = 0.8;
/** The cluster reports whole milliseconds. */
const grainMs = 0.5;

interface Estimate {
  /** The cluster's time less this process's. */
  readonly offsetMs: number;
  readonly errorMs: number;
  readonly at: number;
}

export class ClusterClock {
  /** Queries the cluster's time, in ms. */
  readonly #ask: () => Promise<number>;
  #estimate: Estimate | undefined;
  #askedAt = 0;
  #measuring: Promise<void> | undefined;
  #lastStamp = 0n;

  constructor(ask: () => Promise<number>) {
    this.#ask = ask;
  }

  /** In ms since the epoch. */
  async now(): Promise<number> {
    const { offsetMs } = await this.#current();
    return Math.round(performance.now() + offsetMs);
  }

  /** A stamp for plain writes, in µs: no earlier than now, and later than any that this process has drawn. */
  async stamp(): Promise<bigint> {
    const estimate = await this.#current();
    const now = microseconds(performance.now() + estimate.offsetMs + boundError(estimate));
    this.#lastStamp = now > this.#lastStamp ? now : this.#lastStamp + 1n;
    return this.#lastStamp;
  }

  /** Waits until no process can draw a stamp this early any more. */
  async passed(stamp: bigint): Promise<void> {
    for (;;) {
      const estimate = await this.#current();
      const surely = microseconds(performance.now() + estimate.offsetMs - boundError(estimate));
      if (surely > stamp) return;
      await sleep(Math.ceil(Number(stamp - surely) / 1000));
    }
  }

  async #current(): Promise<Estimate> {
    if (this.#estimate === undefined || performance.now() - this.#askedAt > freshMs) {
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = undefined;
      });
      // A stale estimate is used while a new one is made; without any, callers wait.
      if (this.#estimate === undefined) await this.#measuring;
      else this.#measuring.catch(() => undefined);
    }
    if (this.#estimate === undefined) throw new Error('the clock of the cluster is not known');
    return this.#estimate;
  }

  async #measure(): Promise<void> {
    for (let sample = 0; sample < samplesMax; sample += 1) {
      const before = performance.now();
      const ms = await this.#ask();
      const after = performance.now();
      this.#askedAt = after;
      const errorMs = (after - before) / 2 + grainMs;
      const found = { offsetMs: ms + grainMs - (before + after) / 2, errorMs, at: after };
      const known = this.#estimate;
      if (known === undefined || errorMs <= boundError(known)) this.#estimate = found;
      if (errorMs <= goodErrorMs) return;
    }
  }
}

const boundError = ({ errorMs, at }: Estimate): number => errorMs + (performance.now() - at) * driftPerMs;
const microseconds = (ms: number): bigint => BigInt(Math.round(ms * 1000));
