/**
 * Counts requests and bytes in the process, without a row for each request. Every `SVC_USAGE_TRAFFIC_INTERVAL` the process writes its
 * present sums over its earlier ones, so a write that is repeated counts nothing twice, and processes never wait for each other. A process
 * that is killed loses what it counted since its last write.
 */
import { sharedBudget } from '../../base/shared-budget.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import { findTraffic, trafficChanges } from '../../metadata/buckets/usage.ts';
import type { TrafficRow } from '../../metadata/records/usage.ts';
import { isStoreFailure } from '../../ports/metadata-store.ts';

type Ctx = Pick<Context, 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'>;

/** Who sent a request, about what, and who pays for it. */
export type TrafficKey = Pick<TrafficRow, 'bucketId' | 'bucket' | 'requester' | 'payer'>;
export type TrafficAmount = Partial<Pick<TrafficRow, keyof typeof zeros>>;

export const dayMs = 86_400_000;

/** No process writes to a day later than this after its end; the day is closed then. */
export const trafficCloseMs = 6 * 60 * 60 * 1000;
/** How long rows are kept. */
export const trafficRetentionMs = 400 * dayMs;
/**
 * Pairs of bucket and account that a process counts at the same time, some 500 bytes each. Those who pay share them. The requests of further
 * pairs are counted for the account that pays, as if they were about no bucket: its bill is right, and there is one such entry for an account.
 */
const entriesMax = 50_000;
const entriesPerWrite = 64;

const zeros = { requestsA: 0, requestsB: 0, requestsFree: 0, ingressBytes: 0, egressBytes: 0 };
const amounts = Object.keys(zeros) as (keyof typeof zeros)[];

type Writable<T> = { -readonly [K in keyof T]: T[K] };

interface Entry {
  /** Its key among the entries. */
  readonly place: string;
  readonly row: Writable<TrafficRow>;
  isWritten: boolean;
  /** False where the store may have a row of this process already, whose sums are to be added before the next write. */
  isWhole: boolean;
}

/** The rows that the store has not taken in one round of writes, and why it refused the first one. */
interface Unwritten {
  rows: number;
  cause: unknown;
}

export class TrafficCounter {
  readonly #entries = new Map<string, Entry>();
  readonly #taken = sharedBudget(entriesMax);
  #process = '';
  /** An entry was dropped, so that one that begins may have begun before. */
  #hasDropped = false;
  /** Counts of requests for which there was no entry of their bucket. */
  #merged = 0;
  #running: Promise<void> | undefined;
  /** Absent where a timer ends with its request: workerd lets no other request use the controller. */
  #rest: AbortController | undefined;
  #isClosed = false;

  /** Where `SVC_USAGE_TRAFFIC_INTERVAL` is 0 the caller counts nothing. */
  count(ctx: Ctx, key: TrafficKey, amount: TrafficAmount): void {
    const entry = this.#find(ctx, key);
    add(entry, amount);
    entry.isWritten = false;
    if (!this.#isClosed) this.#running ??= this.#run(ctx);
  }

  /** Writes what is counted, at the end of the process. */
  async close(ctx: Ctx): Promise<void> {
    this.#isClosed = true;
    if (this.#rest !== undefined) {
      this.#rest.abort();
      await this.#running;
    }
    await this.#write(ctx);
  }

  #find(ctx: Ctx, { bucketId, bucket, requester, payer }: TrafficKey): Entry {
    const day = toDay(ctx.clock.now());
    const place = `${day} ${bucketId} ${requester} ${payer}`;
    const known = this.#entries.get(place);
    if (known !== undefined) return known;
    // An abort makes an error with a stack trace, also where the signal was aborted before.
    if (this.#entries.size >= entriesMax / 2 && this.#rest?.signal.aborted === false) this.#rest.abort();
    if (!this.#taken.hasSpace(1, payer) && bucketId !== '') {
      this.#merged += 1;
      return this.#find(ctx, { bucketId: '', bucket: '', requester: payer, payer });
    }
    this.#taken.add(1, payer);
    if (this.#process === '') this.#process = toHex(ctx.random.bytes(8));
    const entry = {
      place,
      row: {
        bucketId,
        bucket,
        day,
        requester,
        payer,
        writer: this.#process,
        ...zeros,
      },
      isWritten: false,
      isWhole: !this.#hasDropped,
    };
    this.#entries.set(place, entry);
    return entry;
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry.place);
    this.#taken.give(1, entry.row.payer);
    this.#hasDropped = true;
  }

  /** Entries of former days are given up, and where there are many also those that nothing was added to since they were written. */
  #dropWritten(ctx: Ctx, entries: Iterable<Entry>): void {
    // `close` may write beside a turn that is under way: one of them would drop an entry that has taken the place of another.
    if (this.#isClosed) return;
    const today = toDay(ctx.clock.now());
    for (const entry of entries)
      if (entry.isWritten && (this.#entries.size > entriesMax / 4 || entry.row.day !== today))
        this.#drop(entry);
  }

  /** Runs until everything is written; where a timer ends with its request, once: the next request that counts begins another turn. */
  async #run(ctx: Ctx): Promise<void> {
    const { hasRequestScopedTimers } = ctx.clock;
    do {
      this.#rest = hasRequestScopedTimers ? undefined : new AbortController();
      await ctx.clock.sleep(ctx.config.SVC_USAGE_TRAFFIC_INTERVAL, this.#rest?.signal);
      await this.#write(ctx);
    } while (!hasRequestScopedTimers && !this.#isClosed && this.#waiting().length > 0);
    this.#running = undefined;
  }

  #waiting(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ isWritten }) => !isWritten);
  }

  async #write(ctx: Ctx): Promise<void> {
    this.#dropLate(ctx);
    const waiting = this.#waiting();
    const unwritten: Unwritten = { rows: 0, cause: undefined };
    let takesRows = true;
    for (let first = 0; takesRows && first < waiting.length; first += entriesPerWrite)
      takesRows = await this.#writeEntries(ctx, waiting.slice(first, first + entriesPerWrite), unwritten);
    // One entry of the log for many rows, because the next interval may log the same rows again.
    if (unwritten.rows > 0) ctx.telemetry.log('WARN', 'traffic is not written yet', { ...unwritten });
    if (!takesRows) return;
    this.#dropWritten(ctx, this.#entries.values());
    const requests = this.#merged;
    if (requests > 0) ctx.telemetry.log('WARN', 'traffic was counted without its buckets', { requests });
    this.#merged = 0;
  }

  /**
   * Entries that the store refuses are written one by one, so that one of them delays no other bucket. What is not written is tried again.
   * @returns whether the store takes rows
   */
  async #writeEntries(ctx: Ctx, entries: readonly Entry[], unwritten: Unwritten): Promise<boolean> {
    try {
      await Promise.all(entries.map((entry) => complete(ctx, entry)));
      for (const entry of entries) entry.isWritten = true;
      await ctx.metadata.apply(
        entries.flatMap(({ row }) => trafficChanges({ ...row }, startOfDay(row.day) + trafficRetentionMs)),
      );
      // Not only once all are written: entries that begin meanwhile take their place.
      this.#dropWritten(ctx, entries);
      return true;
    } catch (cause) {
      for (const entry of entries) entry.isWritten = false;
      if (isStoreFailure(cause) || entries.length === 1) {
        unwritten.rows += entries.length;
        unwritten.cause ??= cause;
        return !isStoreFailure(cause);
      }
    }
    for (const entry of entries) if (!(await this.#writeEntries(ctx, [entry], unwritten))) return false;
    return true;
  }

  #dropLate({ clock, telemetry }: Ctx): void {
    const now = clock.now();
    for (const entry of this.#entries.values()) {
      const { row } = entry;
      if (now < startOfDay(row.day) + dayMs + trafficCloseMs) continue;
      this.#drop(entry);
      if (entry.isWritten) continue;
      const requests = row.requestsA + row.requestsB + row.requestsFree;
      telemetry.log('WARN', 'traffic of a closed day was lost', { day: row.day, requests });
    }
  }
}

/** Adds what this process has counted before it gave the entry up. */
async function complete({ metadata }: Pick<Ctx, 'metadata'>, entry: Entry): Promise<void> {
  if (entry.isWhole) return;
  const before = await findTraffic(metadata, entry.row);
  entry.isWhole = true;
  add(entry, before);
}

function add({ row }: Entry, amount: TrafficAmount = {}): void {
  for (const name of amounts) row[name] += amount[name] ?? 0;
}

// UTC days as text, `YYYY-MM-DD`: they sort as text, and operators read them.

export const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The first moment of a day, in ms. */
export const startOfDay = (day: string): number => Date.parse(`${day}T00:00:00Z`);

export const addDays = (day: string, days: number): string => toDay(startOfDay(day) + days * dayMs);

/** Whether a text is a day of the calendar; 2026-02-30 is none. */
export const isDay = (text: string): boolean => {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const ms = startOfDay(text);
  return !Number.isNaN(ms) && toDay(ms) === text;
};
