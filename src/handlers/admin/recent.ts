/**
 * What the processes of this node did last: ListLogs, ListRequests, GetRequestHistory, and the diagnostics of a support
 * bundle. Each process keeps its own entries in memory, and the one that answers asks the others.
 *
 * Readers of lines and requests follow them page by page. No process keeps state for a reader: the `next` of a page has
 * the reader's position in every process (ADR 38).
 */

import { fail } from '../../base/errors.ts';
import {
  hasStatus,
  type LogLine,
  type MinuteCounts,
  type Position,
  percentileMs,
  positionBefore,
  type ReadOptions,
  type RecentEntries,
  type RecentEntry,
  RecentRequests,
  type RequestCounts,
  type RequestEntry,
  RequestHistory,
  sumCounts,
  type Timed,
} from '../../base/recent-entries.ts';
import type { Context } from '../../context.ts';
import { drawId } from '../../domain/common/ids.ts';
import type { Random } from '../../ports/random.ts';
import type { LogLevel } from '../../ports/telemetry.ts';
import type { AdminQuery } from '../../protocol/admin/operations.ts';
import { type AdminHandler, jsonReply } from './call.ts';

/** A process that is busy for longer is left out of this page, and continued in the next one. */
const askMs = 2_000;
const idLength = 8;
/** Processes in a cursor; those that have ended are left out first. */
const processesMax = 256;

/** Names the entries of this process in cursors: a process that replaces it begins with new ones. */
class JournalId {
  #id: string | undefined;

  of(random: Random): string {
    this.#id ??= drawId(random).slice(0, idLength);
    return this.#id;
  }
}

type Positions = ReadonlyMap<string, Position>;

interface Question<F> {
  readonly filter: F;
  readonly max: number;
  /** Absent: the newest entries. */
  readonly after?: Readonly<Record<string, Position>>;
}

/** What a process answers. */
interface Answer<E> {
  readonly id: string;
  readonly entries: readonly RecentEntry<E>[];
  readonly next: Position;
  readonly lost: number;
}

/** A kind of entries that processes share. */
interface RecentKind<T extends Timed, E extends Timed, F> {
  readonly topic: string;
  entriesOf(ctx: Context): RecentEntries<T> | undefined;
  matches(entry: T, filter: F): boolean;
  /** The form in which processes send an entry. */
  describe(entry: T, process: string): E;
}

interface NodePage<E> {
  /** The oldest first. */
  readonly entries: readonly E[];
  readonly next: string;
  readonly lost: number;
  readonly processes: number;
}

function readOwn<T extends Timed, E extends Timed, F>(
  ctx: Context,
  kind: RecentKind<T, E, F>,
  { filter, max, after }: Question<F>,
): Answer<E> {
  const id = ctx.caches.of(JournalId).of(ctx.random);
  // A reader that does not know this process yet begins with its first entry.
  const place = after === undefined ? undefined : (after[id] ?? []);
  const options: ReadOptions<T> = { after: place, max, matches: (entry) => kind.matches(entry, filter) };
  const { entries = [], next = [], lost = 0 } = kind.entriesOf(ctx)?.read(options) ?? {};
  const process = ctx.diagnostics?.name ?? '';
  const describe = (each: RecentEntry<T>) => ({ ...each, entry: kind.describe(each.entry, process) });
  return { id, next, lost, entries: entries.map(describe) };
}

/** Answers the other processes of the node. */
function shareRecent<T extends Timed, E extends Timed, F>(ctx: Context, kind: RecentKind<T, E, F>): void {
  // The cast: only processes of this node ask.
  ctx.siblings.answer(kind.topic, (about) =>
    JSON.stringify(readOwn(ctx, kind, JSON.parse(about) as Question<F>)),
  );
}

/** @throws InvalidArgument where `after` is not the `next` of a page */
async function readNode<T extends Timed, E extends Timed, F>(
  ctx: Context,
  kind: RecentKind<T, E, F>,
  { filter, max, after }: { readonly filter: F; readonly max: number; readonly after: string | undefined },
): Promise<NodePage<E>> {
  const places = after === undefined ? undefined : readCursor(after);
  const question = {
    filter,
    max,
    ...(places === undefined ? {} : { after: Object.fromEntries(places) }),
  };
  const others = await ctx.siblings.ask({ topic: kind.topic, about: JSON.stringify(question) }, askMs);
  // The cast: a process of this node has answered.
  const answers = [readOwn(ctx, kind, question), ...others.map((text) => JSON.parse(text) as Answer<E>)];
  const all = answers
    .flatMap(({ id, entries }) => entries.map((each) => ({ ...each, id })))
    .sort((a, b) => a.entry.at - b.entry.at || (a.id === b.id ? a.order - b.order : 0));
  const isFirst = places === undefined;
  const visible = isFirst ? all.slice(-max) : all.slice(0, max);
  const left = Map.groupBy(isFirst ? [] : all.slice(max), ({ id }) => id);
  const next = new Map([
    ...answers.map(({ id, next: end }) => [id, positionBefore(end, left.get(id) ?? [])] as const),
    ...[...(places ?? [])].filter(([id]) => answers.every((answer) => answer.id !== id)),
  ]);
  return {
    entries: visible.map(({ entry }) => entry),
    next: writeCursor(next),
    lost: answers.reduce((sum, { lost }) => sum + lost, 0),
    processes: answers.length,
  };
}

const writeCursor = (places: Positions): string =>
  [...places]
    .slice(0, processesMax)
    .map(([id, place]) => [id, ...place].join('.'))
    .join('~');

function readCursor(text: string): Positions {
  const places = text.split('~').map((part) => part.split('.'));
  const isCursor = places.length <= processesMax && places.every(isPlace);
  if (!isCursor)
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return new Map(places.map(([id = '', ...place]) => [id, place.map(Number)]));
}

const isPlace = ([id = '', ...place]: readonly string[]): boolean =>
  /^[0-9a-f]{8}$/.test(id) && place.length <= 2 && place.every((each) => /^\d{1,15}$/.test(each));

// ListLogs: the last lines of the log of this node.

type LineFilter = Omit<AdminQuery<'ListLogs'>, 'limit' | 'after'>;

interface SentLine extends LogLine {
  readonly process: string;
}

type Fields = Readonly<Record<string, unknown>>;

interface ReadLine {
  readonly level: LogLevel;
  readonly message: string;
  /** The other fields of the line. */
  readonly fields: Fields;
}

const levels: readonly LogLevel[] = ['DEBUG', 'INFO', 'WARN', 'ERROR'];
const isAtLeast = (level: LogLevel, least: LogLevel): boolean =>
  levels.indexOf(level) >= levels.indexOf(least);

/** Requests of a follower itself: at level DEBUG each page would cause another line. */
const ownPolls: ReadonlySet<unknown> = new Set(['admin:ListLogs', 'admin:ListRequests']);

/** A line that was cut is no JSON: its text is the message. */
function readLine(text: string): ReadLine {
  try {
    const { time: _, level, message, ...fields } = JSON.parse(text) as Fields;
    return { level: level as LogLevel, message: String(message), fields };
  } catch {
    const level = levels.find((each) => text.slice(0, 80).includes(`"level":"${each}"`)) ?? 'INFO';
    return { level, message: text, fields: {} };
  }
}

function passesFilter({ level, fields }: ReadLine, filter: LineFilter): boolean {
  const { bucket, account, operation, status, minMs, level: least = 'DEBUG' } = filter;
  if (!isAtLeast(level, least)) return false;
  if (bucket !== undefined && fields['bucket'] !== bucket) return false;
  if (account !== undefined && fields['account'] !== account) return false;
  if (operation === undefined && level === 'DEBUG' && ownPolls.has(fields['operation'])) return false;
  if (operation !== undefined && fields['operation'] !== operation) return false;
  if (status !== undefined && !hasStatus(fields, status)) return false;
  return minMs === undefined || Number(fields['duration_ms']) >= minMs;
}

const lines: RecentKind<LogLine, SentLine, LineFilter> = {
  topic: 'recent-lines',
  entriesOf: ({ diagnostics }) => diagnostics?.lines.entries,
  matches: ({ text }, filter) => passesFilter(readLine(text), filter),
  describe: (line, process) => ({ ...line, process }),
};

export const shareRecentLines = (ctx: Context): void => shareRecent(ctx, lines);

const stringOrUndefined = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;

function describeLine({ at, text, process }: SentLine) {
  const { level, message, fields } = readLine(text);
  return {
    time: new Date(at).toISOString(),
    level,
    message,
    bucket: stringOrUndefined(fields['bucket']),
    account: stringOrUndefined(fields['account']),
    fields,
    process,
  };
}

export const ListLogs: AdminHandler<'ListLogs'> = async (ctx, { query }) => {
  if (ctx.diagnostics === undefined)
    throw fail('NotImplemented', 'The application that embeds this gateway owns its log.');
  const { limit = listedMax, after, ...filter } = query;
  const { entries, ...page } = await readNode(ctx, lines, { filter, max: limit, after });
  return jsonReply({ lines: entries.map(describeLine), ...page });
};

/** The newest warnings and errors of the processes of this node, the oldest first. */
export async function readLastErrors(ctx: Context, max: number) {
  const filter: LineFilter = { level: 'WARN' };
  return (await readNode(ctx, lines, { filter, max, after: undefined })).entries.map(describeLine);
}

// ListRequests: the last requests of the storage protocol to this node.

const listedMax = 100;

type RequestFilter = Omit<AdminQuery<'ListRequests'>, 'limit' | 'after'>;

interface SentRequest extends RequestEntry {
  readonly process: string;
}

const requests: RecentKind<RequestEntry, SentRequest, RequestFilter> = {
  topic: 'recent-requests',
  entriesOf: ({ caches }) => caches.of(RecentRequests).entries,
  matches: (entry, { bucket, account, operation, status, minMs = 0 }) =>
    (bucket === undefined || entry.bucket === bucket) &&
    (account === undefined || entry.account === account) &&
    (operation === undefined || entry.operation === operation) &&
    (status === undefined || hasStatus(entry, status)) &&
    entry.durationMs >= minMs,
  describe: (entry, process) => ({ ...entry, process }),
};

export const shareRecentRequests = (ctx: Context): void => shareRecent(ctx, requests);

const describeRequest = ({ at, durationMs, ...entry }: SentRequest) => ({
  time: new Date(at).toISOString(),
  ...entry,
  durationMs: Math.round(durationMs * 10) / 10,
});

export const ListRequests: AdminHandler<'ListRequests'> = async (ctx, { query }) => {
  const { limit = listedMax, after, ...filter } = query;
  const { entries, ...page } = await readNode(ctx, requests, { filter, max: limit, after });
  return jsonReply({ requests: entries.map(describeRequest), ...page });
};

// GetRequestHistory: requests, failures and durations of the storage protocol, over the processes of this node.

const topic = 'requests';
/** A process that is busy for longer is left out. */
const historyAskMs = 2_000;
/** Points of a reply, at most; those of a day are five minutes each. */
const pointsMax = 288;

/** Answers the questions of the other processes of the node. */
export function shareRequests({
  siblings,
  caches,
  clock,
}: Pick<Context, 'siblings' | 'caches' | 'clock'>): void {
  siblings.answer(topic, (about) =>
    JSON.stringify(caches.of(RequestHistory).read(clock.now(), Number(about))),
  );
}

export const roundMs = (ms: number | undefined): number | undefined => ms && Math.round(ms * 10) / 10;

const describeHistory = (counts: RequestCounts, seconds: number) => ({
  requests: counts.requests,
  refused: counts.refused,
  failed: counts.failed,
  perSecond: Math.round((counts.requests / seconds) * 100) / 100,
  p50Ms: roundMs(percentileMs(counts.durations, 0.5)),
  p99Ms: roundMs(percentileMs(counts.durations, 0.99)),
});

/** Of the last minutes, by the processes of this node that answer in time. */
export async function readNodeMinutes(
  { siblings, caches, clock }: Pick<Context, 'siblings' | 'caches' | 'clock'>,
  minutes: number,
): Promise<{ readonly minutes: MinuteCounts; readonly processes: number }> {
  const answers = await siblings.ask({ topic, about: String(minutes) }, historyAskMs);
  // The cast: a process of this node has answered.
  const others = answers.map((answer) => JSON.parse(answer) as MinuteCounts);
  const own = caches.of(RequestHistory).read(clock.now(), minutes);
  return { minutes: [own, ...others].flat(), processes: 1 + others.length };
}

export const GetRequestHistory: AdminHandler<'GetRequestHistory'> = async (ctx, { query }) => {
  const { minutes = 15 } = query;
  const now = ctx.clock.now();
  const { minutes: all, processes } = await readNodeMinutes(ctx, minutes);
  const step = Math.ceil(minutes / pointsMax);
  const first = Math.floor(now / 60_000) - minutes + 1;
  const byPoint = Map.groupBy(all, ([minute]) => Math.floor((minute - first) / step));
  const points = Array.from({ length: Math.ceil(minutes / step) }, (_, index) => ({
    at: new Date((first + index * step) * 60_000).toISOString(),
    ...describeHistory(sumCounts((byPoint.get(index) ?? []).map(([, counters]) => counters)), step * 60),
  }));
  const total = describeHistory(sumCounts(all.map(([, counters]) => counters)), minutes * 60);
  return jsonReply({ stepSeconds: step * 60, processes, total, points });
};

// What a process says of itself in a support bundle, also to the process of its node that makes one.

export const diagnosticsTopic = 'diagnostics';

export function shareDiagnostics(ctx: Pick<Context, 'siblings' | 'diagnostics'>): void {
  ctx.siblings.answer(diagnosticsTopic, () => JSON.stringify(describeProcess(ctx)));
}

export const describeProcess = ({ diagnostics }: Pick<Context, 'diagnostics'>) => ({
  process: diagnostics?.process() ?? {},
  lastErrors: (diagnostics?.lines.severe() ?? []).map((line) => parseLine(line)),
});

const parseLine = (line: string): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    // A long line is cut.
    return line;
  }
};
