/**
 * Counts the requests of the last day by minute, with their results and durations, in memory of a fixed size. Durations are counted in
 * bands that are 1.19 times as wide as the one before, so a percentile is exact to a fifth.
 */

const slots = 24 * 60;
const minuteMs = 60_000;
const bands = 64;
/** Requests, refusals, failures; then one counter for each band of durations. */
const width = 3 + bands;
const firstMs = 0.25;
const perDouble = 4;

export interface RequestCounts {
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  /** By band. */
  readonly durations: readonly number[];
}

/** Counts of minutes, as the processes of a node exchange them: the minute since 1970, and its counters in their order. */
export type MinuteCounts = readonly (readonly [minute: number, counters: readonly number[]])[];

const bandOf = (ms: number): number =>
  Math.min(bands - 1, Math.max(0, Math.ceil(perDouble * Math.log2(ms / firstMs))));

/** The longest duration of a band, in milliseconds. */
const limitOf = (band: number): number => firstMs * 2 ** (band / perDouble);

/** The duration that the given share of the requests stayed below; undefined without requests. */
export function percentileMs(durations: readonly number[], share: number): number | undefined {
  const total = durations.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  const band = durations.findIndex((count) => {
    seen += count;
    return seen >= total * share;
  });
  return limitOf(band);
}

/** Sums counters of any minutes. */
export function sumCounts(all: Iterable<readonly number[]>): RequestCounts {
  const sums = new Array<number>(width).fill(0);
  for (const counters of all)
    for (let i = 0; i < width; i += 1) sums[i] = (sums[i] ?? 0) + (counters[i] ?? 0);
  const [requests = 0, refused = 0, failed = 0, ...durations] = sums;
  return { requests, refused, failed, durations };
}

export class RequestHistory {
  readonly #counters = new Uint32Array(slots * width);
  /** The minute that a slot counts. */
  readonly #minutes = new Uint32Array(slots);

  add(now: number, { status, durationMs }: { readonly status: number; readonly durationMs: number }): void {
    const minute = Math.floor(now / minuteMs);
    const slot = minute % slots;
    const at = slot * width;
    if (this.#minutes[slot] !== minute) {
      this.#minutes[slot] = minute;
      this.#counters.fill(0, at, at + width);
    }
    this.#raise(at);
    if (status >= 500) this.#raise(at + 2);
    else if (status >= 400) this.#raise(at + 1);
    this.#raise(at + 3 + bandOf(durationMs));
  }

  #raise(index: number): void {
    this.#counters[index] = (this.#counters[index] ?? 0) + 1;
  }

  /** The minutes with requests among the last ones, the present one included. */
  read(now: number, minutes: number): MinuteCounts {
    const last = Math.floor(now / minuteMs);
    const found: [number, number[]][] = [];
    for (let minute = last - Math.min(minutes, slots) + 1; minute <= last; minute += 1) {
      const slot = minute % slots;
      if (this.#minutes[slot] !== minute) continue;
      found.push([minute, [...this.#counters.subarray(slot * width, (slot + 1) * width)]]);
    }
    return found;
  }
}

/** The requests of the present minute and the one before, and how many seconds these are. */
export function lastMinute(
  history: RequestHistory,
  now: number,
): Omit<RequestCounts, 'durations'> & { readonly seconds: number } {
  const { requests, refused, failed } = sumCounts(history.read(now, 2).map(([, counters]) => counters));
  return { seconds: 60 + Math.floor((now % minuteMs) / 1000), requests, refused, failed };
}

// Requests by their outcome, as operators ask for them.

/** @param asked a status such as `503`, a class such as `5xx`, or an error code such as `AccessDenied` */
export function hasStatus(
  { status, code }: { readonly status?: number | undefined; readonly code?: string | undefined },
  asked: string,
): boolean {
  if (asked === code) return true;
  if (status === undefined) return false;
  return asked === String(status) || asked.toLowerCase() === `${String(status)[0]}xx`;
}
