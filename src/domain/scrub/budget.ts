/** The budget of one step of the scrub, which limits its duration and its read rate. */
import { dataBackends } from '../../config/data.ts';
import type { Config } from '../../config.ts';

export class ScrubBudget {
  #bytes: number;
  #reads = 1_000;
  #rows = 500;
  #listings = 4;
  #isOver = false;

  /** @param bytes that may be started; the last read may exceed it by less than its own length */
  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  get isSpent(): boolean {
    return this.#isOver || this.#bytes <= 0 || this.#reads <= 0 || this.#rows <= 0 || this.#listings <= 0;
  }

  read(bytes: number): void {
    this.#bytes -= bytes;
    this.#reads -= 1;
  }

  row(): void {
    this.#rows -= 1;
  }

  /** Counts a row for the list of damaged contents, because a commit takes few rows. */
  listing(): void {
    this.#listings -= 1;
  }

  /** Ends the step, because the next read would fail like the last one. */
  end(): void {
    this.#isOver = true;
  }

  /** Whether `end` was called: the next step waits a moment. */
  get isEnded(): boolean {
    return this.#isOver;
  }
}

/** A cluster whose reads fail ends so many steps of a pass. */
const pausesMax = 8;
/** The first rest after these; it doubles with each further failure in a row. */
const restMs = { first: 30_000, max: 5 * 60_000 } as const;

interface Failures {
  readonly pauses: number;
  readonly inRow: number;
  readonly restMs: number;
  /** By a monotonic clock (ms). */
  readonly until: number;
}

const noFailures: Failures = { pauses: 0, inRow: 0, restMs: 0, until: Number.NEGATIVE_INFINITY };

/**
 * The clusters whose reads fail in a pass. The first failures of a cluster end a step each, so that a short outage leaves few contents
 * unread. After these the cluster rests: its contents are passed over without a read, so that those of other clusters do not wait.
 */
export class RestingClusters {
  readonly #failures = new Map<string, Failures>();
  #pass: number | undefined;

  /** @param pass when it began */
  begin(pass: number): void {
    if (this.#pass !== pass) this.#failures.clear();
    this.#pass = pass;
  }

  isResting(cluster: string, elapsed: number): boolean {
    return elapsed < (this.#failures.get(cluster) ?? noFailures).until;
  }

  /** @returns whether the step ends */
  failed(cluster: string, elapsed: number): boolean {
    const former = this.#failures.get(cluster) ?? noFailures;
    const inRow = former.inRow + 1;
    const isPause = former.pauses < pausesMax;
    // One failure after a success may be about the one extent.
    const rest = isPause || inRow < 2 ? 0 : Math.min(2 * former.restMs || restMs.first, restMs.max);
    this.#failures.set(cluster, {
      pauses: former.pauses + (isPause ? 1 : 0),
      inRow,
      restMs: rest,
      until: elapsed + rest,
    });
    return isPause;
  }

  answered(cluster: string): void {
    const former = this.#failures.get(cluster);
    if (former !== undefined) this.#failures.set(cluster, { ...noFailures, pauses: former.pauses });
  }
}

/** Limits bytes per second. Unused budget expires after two seconds; overdrawn budget delays the next read. */
export class ScrubPace {
  readonly #perSecond: number;
  #left: number;
  #at: number;

  /** @param elapsed ms of a monotonic clock */
  constructor(perSecond: number, elapsed: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
    this.#at = elapsed;
  }

  /** The number of bytes that may be read now; none when 0 or less. */
  left(elapsed: number): number {
    const earned = ((elapsed - this.#at) / 1000) * this.#perSecond;
    this.#at = elapsed;
    this.#left = Math.min(this.#left + earned, 2 * this.#perSecond);
    return this.#left;
  }

  spend(bytes: number): void {
    this.#left -= bytes;
  }
}

// The read rate of the scrub.

const defaultRate = 16 * 1024 * 1024;

/** In bytes per second; 0 means never. Where reads cost money, only a rate that an operator set counts. */
export const scrubRate = ({
  SVC_SCRUB_RATE: rate,
  SVC_DATA_BACKEND: backend,
}: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_DATA_BACKEND'>): number =>
  rate ?? (dataBackends[backend].isPaid ? 0 : defaultRate);
