/**
 * The last entries of a stream, such as requests or lines of the log, in memory for a fixed number of entries, which accounts share. A
 * reader keeps a position and continues from it. Entries that were overwritten before it came back are lost to it, and it learns how many. Below: counts of the
 * requests of a day.
 */

export interface Timed {
  /** Unix time in ms. */
  readonly at: number;
}

/** The number of entries that a reader has behind it, for each ring. */
export type Position = readonly number[];

export interface RecentEntry<T> {
  readonly ring: number;
  /** Its number in the ring. */
  readonly index: number;
  /** Its number in all rings: the order of entries of the same time. */
  readonly order: number;
  readonly entry: T;
}

interface RecentPage<T> {
  readonly entries: readonly RecentEntry<T>[];
  /** Where the reader continues. */
  readonly next: Position;
  /** Entries since its position that are overwritten, also those that do not match. */
  readonly lost: number;
}

export interface ReadOptions<T> {
  /** Absent: the newest entries. */
  readonly after?: Position | undefined;
  readonly max: number;
  matches(entry: T): boolean;
}

interface Retained<T> extends Omit<RecentEntry<T>, 'ring'> {}

/** Accounts share it: where it is full, one with more than an equal share loses its oldest entry. */
class Ring<T> {
  readonly #byAccount = new Map<string, Retained<T>[]>();
  readonly #max: number;
  end = 0;
  size = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(entry: T, order: number, account: string): void {
    const own = this.#byAccount.get(account) ?? [];
    if (own.length === 0) this.#byAccount.set(account, own);
    own.push({ index: this.end, order, entry });
    this.end += 1;
    if (this.size < this.#max) this.size += 1;
    else this.#removeOldest(account, own);
  }

  /** @param own the entries of the account that has added one: there is one more than all shares together */
  #removeOldest(account: string, own: Retained<T>[]): void {
    const share = this.#max / this.#byAccount.size;
    let [holder, entries] = [account, own];
    if (own.length <= share) for ([holder, entries] of this.#byAccount) if (entries.length > share) break;
    entries.shift();
    if (entries.length === 0) this.#byAccount.delete(holder);
  }

  /** In no order. */
  from(start: number): readonly Retained<T>[] {
    return [...this.#byAccount.values()].flat().filter(({ index }) => index >= start);
  }
}

/** Several rings with one order, in which entries were added: a flood in one ring overwrites nothing in another. */
export class RecentEntries<T extends Timed> {
  readonly #rings: readonly Ring<T>[];
  #count = 0;

  /** @param sizes of the rings, in entries */
  constructor(sizes: readonly number[]) {
    this.#rings = sizes.map((max) => new Ring<T>(max));
  }

  /** @param account that causes the entry: it overwrites those of others only while it has no more than an equal share */
  add(ring: number, entry: T, account: string): void {
    this.#rings[ring]?.add(entry, this.#count, account);
    this.#count += 1;
  }

  read({ after, max, matches }: ReadOptions<T>): RecentPage<T> {
    let lost = 0;
    const entries = this.#rings
      .flatMap((each, ring) => {
        const start = after?.[ring] ?? 0;
        const since = each.from(start);
        lost += Math.max(0, each.end - start - since.length);
        return since.flatMap((retained) => (matches(retained.entry) ? { ring, ...retained } : []));
      })
      .sort((a, b) => a.order - b.order);
    const next = this.#rings.map(({ end }) => end);
    if (after === undefined) return { entries: entries.slice(-max), next, lost: 0 };
    return { entries: entries.slice(0, max), next: positionBefore(next, entries.slice(max)), lost };
  }
}

/** A copy of the first characters of a text, because a slice would keep the whole text in memory. */
const copyStart = (text: string, max: number): string =>
  JSON.parse(JSON.stringify(text.slice(0, max))) as string;

/** The position in front of entries that the reader has not got. */
export function positionBefore(
  end: Position,
  left: readonly Pick<RecentEntry<unknown>, 'ring' | 'index'>[],
): Position {
  const next = [...end];
  for (const { ring, index } of left) next[ring] = Math.min(next[ring] ?? index, index);
  return next;
}

// The last lines of the log of this process, for operators. Warnings and errors have a ring of their own.

/** Lines that are kept; with their length, at most 5 MiB. */
const lineSizes = { severe: 200, other: 1_000 } as const;
const lineMax = 4_096;
const isSevere = /^.{0,60}"level":"(?:WARN|ERROR)"/;

export interface LogLine extends Timed {
  /** The line as it was written; a longer one is cut, and then is no JSON. */
  readonly text: string;
}

export class RecentLines {
  readonly entries = new RecentEntries<LogLine>([lineSizes.severe, lineSizes.other]);

  /** @param line of the log, in which secrets are masked already */
  add(line: string, at: number): void {
    const text = line.length > lineMax ? copyStart(line, lineMax) : line;
    const about = /"account":"[^"]*"/.exec(line) ?? /"request_id"/.exec(line);
    this.entries.add(isSevere.test(line) ? 0 : 1, { at, text }, copyStart(about?.[0] ?? '', lineMax));
  }

  /** Warnings and errors, the oldest first. */
  severe(): readonly string[] {
    const { entries } = this.entries.read({
      max: lineSizes.severe,
      matches: ({ text }) => isSevere.test(text),
    });
    return entries.map(({ entry }) => entry.text);
  }
}

// The last requests of the storage protocol to this process, for operators. Refused and failed ones have a ring of their own.

/** Requests that are kept; with the texts below, at most 8 MiB. */
const requestSizes = { refused: 1_024, answered: 4_096 } as const;
/** A text may be a slice of the request's target: beyond this length it is copied, so that the target is not kept. */
const targetMax = 512;
const textMax = 512;
const addressMax = 64;

export interface RequestEntry extends Timed {
  readonly requestId: string;
  readonly operation: string;
  readonly method: string;
  readonly status: number;
  /** The error code of a refusal. */
  readonly code: string | undefined;
  readonly durationMs: number;
  /** '' where the request is about no bucket. */
  readonly bucket: string;
  readonly key: string;
  /** Of the caller; '' where it is unknown. */
  readonly account: string;
  readonly remote: string;
  /** Bytes of its body that were read. */
  readonly receivedBytes: number;
}

export class RecentRequests {
  readonly entries = new RecentEntries<RequestEntry>([requestSizes.refused, requestSizes.answered]);

  /**
   * @param account with which others share the rings
   * @param targetLength of the request
   */
  add(entry: RequestEntry, account: string, targetLength: number): void {
    const isShort =
      targetLength <= targetMax && entry.bucket.length <= textMax && entry.remote.length <= addressMax;
    this.entries.add(entry.status >= 400 ? 0 : 1, isShort ? entry : shorten(entry), account);
  }
}

const shorten = (entry: RequestEntry): RequestEntry => ({
  ...entry,
  bucket: copyStart(entry.bucket, textMax),
  key: copyStart(entry.key, textMax),
  remote: copyStart(entry.remote, addressMax),
});

// Counts the requests of the last day by minute, with their results and durations, in memory of a fixed size. Durations are counted in
// bands that are 1.19 times as wide as the one before, so a percentile is exact to a fifth.

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

const toBand = (ms: number): number =>
  Math.min(bands - 1, Math.max(0, Math.ceil(perDouble * Math.log2(ms / firstMs))));

/** The longest duration of a band, in milliseconds. */
const bandLimit = (band: number): number => firstMs * 2 ** (band / perDouble);

/** The duration that the given share of the requests stayed below; undefined without requests. */
export function percentileMs(durations: readonly number[], share: number): number | undefined {
  const total = durations.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  const band = durations.findIndex((count) => {
    seen += count;
    return seen >= total * share;
  });
  return bandLimit(band);
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
    this.#raise(at + 3 + toBand(durationMs));
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
