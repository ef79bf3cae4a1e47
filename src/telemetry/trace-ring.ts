/**
 * The finished traces that a process keeps, chosen by how they ended: every failure, the slowest of each operation and band of
 * latency, and a sample of the rest. Each kind has bytes of its own, so a flood of refused requests removes no slow ones. A flood of
 * requests with the same error, such as those of a tenant beyond its rate limit, removes none with another error or of another account; nor do slow ones.
 */

import { hasStatus } from '../base/recent-entries.ts';
import type { TraceDocument, TraceFilter, TraceRetention, TraceSummary } from '../ports/trace.ts';

type Shelved = Exclude<TraceRetention, 'running'>;

/** What an entry costs beside its texts. */
const entryBytes = 400;
/** Upper bounds of the bands of latency, in ms. */
const bands = [1, 10, 100, 1_000, 10_000, Number.POSITIVE_INFINITY] as const;
const slowestMax = 8;
/** After this time a faster trace may replace one of the slowest, so that these are of today. */
const slowestMs = 15 * 60_000;
/** Names of operations, and names that nothing selects on; further ones share a group. */
const groupsMax = 512;
const shared = 'other';
/** In each interval of this length one of the other requests is kept. It is a time, not a share, so that load does not raise the cost. */
const sampleMs = 250;

interface Entry {
  readonly summary: TraceSummary;
  readonly account: string;
  readonly text: string;
  readonly bytes: number;
  /** By the monotonic clock. */
  readonly endedAt: number;
}

/** The slowest of an operation in one band, shared among accounts: one that is often slow replaces its own traces. */
interface Group {
  /** The slowest first. */
  readonly entries: Entry[];
  /** By account, and of those without a trace here: one that took no longer is not kept before `until`. */
  floors: ReadonlyMap<string, number>;
  floorMs: number;
  until: number;
}

export interface Ended {
  readonly operation: string;
  /** Of the caller. */
  readonly account: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  readonly durationMs: number;
  readonly isSampled: boolean;
  /** By the monotonic clock. */
  readonly endedAt: number;
}

/** The traces of one kind, in the order of their ends. */
interface Shelf {
  readonly entries: Set<Entry>;
  bytes: number;
  readonly bytesMax: number;
}

const openShelf = (mebibytes: number): Shelf => ({
  entries: new Set(),
  bytes: 0,
  bytesMax: mebibytes * 1024 * 1024,
});

/** The entries of the group that has the most bytes. */
const findLargest = (
  entries: Iterable<Entry>,
  group: (entry: Entry) => string | undefined,
): readonly Entry[] => {
  const sum = (own: readonly Entry[]): number => own.reduce((total, { bytes }) => total + bytes, 0);
  return [...Map.groupBy(entries, group).values()].reduce((most, own) => (sum(own) > sum(most) ? own : most));
};

export class TraceRing {
  /** 14 MiB together; the rest of 16 is for the traces that are being recorded, and for the maps. */
  readonly #shelves: Readonly<Record<Shelved, Shelf>> = {
    failed: openShelf(4),
    refused: openShelf(3),
    slow: openShelf(5),
    sample: openShelf(2),
  };
  readonly #groups = new Map<string, Group[]>();
  #sampledAt = Number.NEGATIVE_INFINITY;

  /** Why the trace is to be kept; undefined for most. */
  offer(ended: Ended): Shelved | undefined {
    const { status = 0, code } = ended;
    if (status >= 500) return 'failed';
    if (code !== undefined) return status === 0 ? 'failed' : 'refused';
    if (this.#isSlow(ended)) return 'slow';
    // Background work that follows a sampled request shows what became of it.
    const isFollowUp = status === 0 && ended.isSampled;
    if (!isFollowUp && ended.endedAt - this.#sampledAt < sampleMs) return undefined;
    this.#sampledAt = ended.endedAt;
    return 'sample';
  }

  add(retention: Shelved, ended: Ended, document: TraceDocument): void {
    const text = JSON.stringify(document);
    const summary = summarize(document);
    const shelf = this.#shelves[retention];
    const entry = {
      summary,
      account: ended.account,
      text,
      bytes: textBytes(text) + textBytes(document.key) + entryBytes,
      endedAt: ended.endedAt,
    };
    shelf.entries.add(entry);
    shelf.bytes += entry.bytes;
    if (retention === 'slow') this.#addToGroup(ended, entry);
    if (shelf.bytes > shelf.bytesMax) this.#makeSpace(retention, shelf);
  }

  /**
   * Removes the oldest of the code, and in it of the account, with the most bytes: a caller that is refused again and again replaces its
   * own traces. Many are removed at a time, because all entries are read to find them.
   */
  #makeSpace(retention: Shelved, shelf: Shelf): void {
    const max = shelf.bytesMax * 0.95;
    while (shelf.bytes > max)
      for (const entry of findLargest(
        findLargest(shelf.entries, ({ summary }) => summary.code),
        ({ account }) => account,
      ))
        if (shelf.bytes > max) this.#remove(retention, entry);
  }

  /** The latest first. */
  *entries(filter: TraceFilter): Generator<TraceSummary> {
    for (const { summary } of this.#found(filter)) yield summary;
  }

  documents(filter: TraceFilter): readonly TraceDocument[] {
    return this.#found(filter)
      .slice(0, filter.max)
      .map(({ text }) => JSON.parse(text) as TraceDocument);
  }

  #found(filter: TraceFilter): Entry[] {
    return Object.values(this.#shelves)
      .flatMap(({ entries }) => [...entries].filter((entry) => entryMatches(entry, filter)))
      .sort((a, b) => b.endedAt - a.endedAt);
  }

  #remove(retention: Shelved, entry: Entry): void {
    const shelf = this.#shelves[retention];
    shelf.entries.delete(entry);
    shelf.bytes -= entry.bytes;
    if (retention !== 'slow') return;
    const { entries } = this.#groupOf(entry.summary);
    const at = entries.indexOf(entry);
    if (at >= 0) entries.splice(at, 1);
  }

  #groupOf({ operation, durationMs }: Pick<Ended, 'operation' | 'durationMs'>): Group {
    let groups = this.#groups.get(operation);
    if (groups === undefined) {
      const isCrowded = this.#groups.size >= groupsMax && operation !== shared;
      if (isCrowded) return this.#groupOf({ operation: shared, durationMs });
      groups = bands.map(() => ({ entries: [], floors: new Map(), floorMs: 0, until: 0 }));
      this.#groups.set(operation, groups);
    }
    let band = 0;
    while (durationMs >= (bands[band] as number)) band += 1;
    return groups[band] as Group;
  }

  #isSlow(ended: Ended): boolean {
    const { entries, floors, floorMs, until } = this.#groupOf(ended);
    return (
      entries.length < slowestMax ||
      ended.endedAt > until ||
      ended.durationMs > (floors.get(ended.account) ?? floorMs)
    );
  }

  /** Replaces one that is too old, else the fastest of the account that has the most. */
  #addToGroup(ended: Ended, entry: Entry): void {
    const group = this.#groupOf(ended);
    const { entries } = group;
    entries.push(entry);
    entries.sort((a, b) => b.summary.durationMs - a.summary.durationMs);
    if (entries.length > slowestMax) {
      const old = entries.find(({ endedAt }) => ended.endedAt - endedAt > slowestMs);
      this.#remove('slow', old ?? rank(entries).next);
    }
    const { floors, floorMs } = rank(entries);
    const until = Math.min(...entries.map(({ endedAt }) => endedAt)) + slowestMs;
    Object.assign(group, { floors, floorMs, until });
  }
}

/**
 * The trace that goes next, which is the fastest of the accounts that have the most here; and what a trace must take longer than to stay,
 * by account and for accounts without one.
 */
function rank(entries: readonly Entry[]) {
  const byAccount = Map.groupBy(entries, ({ account }) => account);
  const most = Math.max(...Array.from(byAccount.values(), ({ length }) => length));
  // The cast: there is one, because a group is ranked when it has a new entry.
  const next = entries.findLast(({ account }) => byAccount.get(account)?.length === most) as Entry;
  const floorFor = (own: readonly Entry[]): number => {
    // With one more it has no more than others.
    if (own.length + 1 < most) return -1;
    const last = own.at(-1) ?? next;
    const rival = own.length === most ? last : next;
    return Math.min(last.summary.durationMs, rival.summary.durationMs);
  };
  const floors = new Map([...byAccount].map(([account, own]) => [account, floorFor(own)]));
  return { next, floors, floorMs: floorFor([]) };
}

/** A delivery belongs to the requests that it names in its text, too. */
const entryMatches = ({ summary, text }: Entry, filter: TraceFilter): boolean =>
  matches(summary, filter) ||
  (filter.id !== undefined &&
    summary.operation.startsWith('worker:') &&
    text.includes(filter.id) &&
    matches(summary, { ...filter, id: undefined }));

/** A text with a character beyond Latin-1 takes two bytes for each. */
const textBytes = (text: string): number => (/[\u0100-\uffff]/.test(text) ? text.length * 2 : text.length);

// Which traces an operator asks for.

export const summarize = ({
  requestId,
  traceId,
  kept,
  operation,
  bucket,
  key,
  status,
  code,
  startedAt,
  durationMs,
  stage,
  process,
}: TraceDocument): TraceSummary => ({
  requestId,
  traceId,
  kept,
  operation,
  bucket,
  key,
  status,
  code,
  startedAt,
  durationMs,
  stage,
  process,
});

export function matches(
  summary: TraceSummary,
  { id, operation, bucket, status, minMs = 0, belowMs, running }: TraceFilter,
): boolean {
  if (id !== undefined && id !== summary.requestId && id !== summary.traceId) return false;
  if (operation !== undefined && operation !== summary.operation) return false;
  if (bucket !== undefined && bucket !== summary.bucket) return false;
  if (status !== undefined && !hasStatus(summary, status)) return false;
  if (summary.durationMs < minMs) return false;
  if (belowMs !== undefined && summary.durationMs >= belowMs) return false;
  return running === undefined || running === (summary.kept === 'running');
}

// The traces that are being recorded, the latest first. A list through the traces: a set would cost as much as the rest of a record.

/** Traces that are remembered. A reader that never ends a body would keep its trace. */
const runningMax = 4_096;

/** What the list keeps in its members. */
export interface Listed<T> {
  newer: T | undefined;
  older: T | undefined;
  isListed: boolean;
}

export class RunningTraces<T extends Listed<T>> {
  #newest: T | undefined;
  #oldest: T | undefined;
  #size = 0;

  add(trace: T): void {
    trace.isListed = true;
    trace.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = trace;
    else this.#newest.newer = trace;
    this.#newest = trace;
    this.#size += 1;
    if (this.#size > runningMax) this.remove(this.#oldest as T);
  }

  remove(trace: T): void {
    if (!trace.isListed) return;
    const { newer, older } = trace;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    trace.isListed = false;
    trace.newer = undefined;
    trace.older = undefined;
    this.#size -= 1;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let trace = this.#newest; trace !== undefined; trace = trace.older) yield trace;
  }
}
