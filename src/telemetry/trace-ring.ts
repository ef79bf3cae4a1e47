/**
 * The finished traces that a process keeps, chosen by how they ended: every failure, the slowest of each operation and band of
 * latency, and a sample of the rest. Each kind has bytes of its own, so a flood of refused requests removes no slow ones. A flood of
 * requests with the same error, such as those of a tenant beyond its rate limit, removes none with another error or of another account; nor do slow ones.
 */

import { hasStatus } from '../base/recent-entries.ts';
import type { TraceDocument, TraceFilter, TraceRetention, TraceSummary } from '../ports/trace.ts';

type Shelved = Exclude<TraceRetention, 'running'>;

/** 14 MiB together; the rest of 16 is for the traces that are being recorded, and for the maps. */
const bytesMax: Readonly<Record<Shelved, number>> = {
  failed: 4 * 1024 * 1024,
  refused: 3 * 1024 * 1024,
  slow: 5 * 1024 * 1024,
  sample: 2 * 1024 * 1024,
};
/** What an entry costs beside its texts. */
const entryBytes = 400;
/** Upper bounds of the bands of latency, in ms. */
const bands = [1, 10, 100, 1_000, 10_000, Number.POSITIVE_INFINITY] as const;
const slowestMax = 8;
/** After this time a faster trace may replace one of the slowest, so that these are of today. */
const slowestMs = 15 * 60_000;
/** Names of operations, accounts with the same error, and names that nothing selects on; further ones share a group. */
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

/** What an account has in a group. */
interface Share {
  count: number;
  fastestMs: number;
}

/** The slowest of an operation in one band, shared among accounts: one that is often slow replaces its own traces. */
interface Group {
  readonly entries: Entry[];
  shares: ReadonlyMap<string, Share>;
  /** The largest share, and the fastest trace of the accounts that have that much. */
  largest: Share;
  /** A trace that is slower than none is not kept before this time. */
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

/** Traces in the order of their ends. */
class Entries {
  readonly entries = new Set<Entry>();
  bytes = 0;
}

/** The traces of one kind, by error code and account. Codes are those of a table, so there are few. */
class Shelf {
  readonly #byCode = new Map<string, { readonly byAccount: Map<string, Entries>; bytes: number }>();
  bytes = 0;

  /** The account, or `shared` where the code has traces of many others. */
  accountOf({ account, code = '' }: Ended): string {
    const known = this.#byCode.get(code)?.byAccount;
    return known === undefined || known.has(account) || known.size < groupsMax ? account : shared;
  }

  add(entry: Entry): void {
    const { account, bytes, summary } = entry;
    const code = summary.code ?? '';
    const same = this.#byCode.get(code) ?? { byAccount: new Map<string, Entries>(), bytes: 0 };
    const own = same.byAccount.get(account) ?? new Entries();
    this.#byCode.set(code, same);
    same.byAccount.set(account, own);
    own.entries.add(entry);
    for (const each of [own, same, this]) each.bytes += bytes;
  }

  delete(entry: Entry): void {
    const { account, bytes, summary } = entry;
    const same = this.#byCode.get(summary.code ?? '');
    const own = same?.byAccount.get(account);
    if (same === undefined || own === undefined || !own.entries.delete(entry)) return;
    for (const each of [own, same, this]) each.bytes -= bytes;
    if (own.entries.size === 0) same.byAccount.delete(account);
  }

  /** The oldest of the code, and in it of the account, with the most bytes: who is refused again and again removes its own traces. */
  oldestOfLargest(): Entry | undefined {
    const accounts = findLargest(this.#byCode.values())?.byAccount.values();
    return accounts && findLargest(accounts)?.entries.values().next().value;
  }

  *[Symbol.iterator](): Generator<Entry> {
    for (const { byAccount } of this.#byCode.values())
      for (const { entries } of byAccount.values()) yield* entries;
  }
}

function findLargest<T extends { readonly bytes: number }>(all: Iterable<T>): T | undefined {
  let most: T | undefined;
  for (const each of all) if (most === undefined || each.bytes > most.bytes) most = each;
  return most;
}

export class TraceRing {
  readonly #shelves: Readonly<Record<Shelved, Shelf>> = {
    failed: new Shelf(),
    refused: new Shelf(),
    slow: new Shelf(),
    sample: new Shelf(),
  };
  readonly #groups = new Map<string, Group[]>();
  #sampledAt = Number.NEGATIVE_INFINITY;

  /** Bytes of the entries, for its test. */
  get bytes(): number {
    return Object.values(this.#shelves).reduce((sum, { bytes }) => sum + bytes, 0);
  }

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
      account: shelf.accountOf(ended),
      text,
      bytes: textBytes(text) + textBytes(document.key) + entryBytes,
      endedAt: ended.endedAt,
    };
    shelf.add(entry);
    if (retention === 'slow') this.#addToGroup(ended, entry);
    while (shelf.bytes > bytesMax[retention]) this.#remove(retention, shelf.oldestOfLargest() as Entry);
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
      .flatMap((shelf) => [...shelf].filter((entry) => entryMatches(entry, filter)))
      .sort((a, b) => b.endedAt - a.endedAt);
  }

  #remove(retention: Shelved, entry: Entry): void {
    this.#shelves[retention].delete(entry);
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
      groups = bands.map(() => ({ entries: [], ...share([]), until: 0 }));
      this.#groups.set(operation, groups);
    }
    let band = 0;
    while (durationMs >= (bands[band] as number)) band += 1;
    return groups[band] as Group;
  }

  #isSlow(ended: Ended): boolean {
    const { entries, shares, largest, until } = this.#groupOf(ended);
    if (entries.length < slowestMax || ended.endedAt > until) return true;
    const own = shares.get(ended.account) ?? { count: 0, fastestMs: Number.POSITIVE_INFINITY };
    if (own.count + 1 < largest.count) return true;
    const floorMs = own.count === largest.count ? own.fastestMs : Math.min(own.fastestMs, largest.fastestMs);
    return ended.durationMs > floorMs;
  }

  /** Replaces one that is too old, else the fastest of the account that has the most. */
  #addToGroup(ended: Ended, entry: Entry): void {
    const group = this.#groupOf(ended);
    const { entries } = group;
    entries.push(entry);
    entries.sort((a, b) => b.summary.durationMs - a.summary.durationMs);
    if (entries.length > slowestMax) {
      const old = entries.find(({ endedAt }) => ended.endedAt - endedAt > slowestMs);
      const { shares, largest } = share(entries);
      const fastest = entries.findLast(({ account }) => shares.get(account)?.count === largest.count);
      this.#remove('slow', old ?? (fastest as Entry));
    }
    Object.assign(group, share(entries));
    group.until = Math.min(...entries.map(({ endedAt }) => endedAt)) + slowestMs;
  }
}

function share(entries: readonly Entry[]): Pick<Group, 'shares' | 'largest'> {
  const shares = new Map<string, Share>();
  for (const { account, summary } of entries) {
    const own = shares.get(account) ?? { count: 0, fastestMs: summary.durationMs };
    shares.set(account, { count: own.count + 1, fastestMs: Math.min(own.fastestMs, summary.durationMs) });
  }
  const count = Math.max(0, ...[...shares.values()].map((each) => each.count));
  const ofLargest = [...shares.values()].filter((each) => each.count === count);
  return { shares, largest: { count, fastestMs: Math.min(...ofLargest.map((each) => each.fastestMs)) } };
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

export function summarize({
  requestId,
  traceId,
  kept: retention,
  operation,
  bucket,
  key,
  status,
  code,
  startedAt,
  durationMs,
  stage,
  process,
}: TraceDocument): TraceSummary {
  return {
    requestId,
    traceId,
    kept: retention,
    operation,
    bucket,
    key,
    ...(status === undefined ? {} : { status }),
    ...(code === undefined ? {} : { code }),
    startedAt,
    durationMs,
    ...(stage === undefined ? {} : { stage }),
    process,
  };
}

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
