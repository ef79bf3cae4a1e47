/** ListLogs: the last lines of the log of this node. */
import type { LogLine } from '../../../base/recent-lines.ts';
import { hasStatus } from '../../../base/status-filter.ts';
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import type { LogLevel } from '../../../ports/telemetry.ts';
import type { AdminQuery } from '../../../protocol/operations/admin.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { type RecentKind, readNode, shareRecent } from './recent.ts';
import { listedMax } from './recent-requests.ts';

type Filter = Omit<AdminQuery<'ListLogs'>, 'limit' | 'after'>;

interface Sent extends LogLine {
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

function passesFilter({ level, fields }: ReadLine, filter: Filter): boolean {
  const { bucket, account, operation, status, minMs, level: least = 'DEBUG' } = filter;
  if (!isAtLeast(level, least)) return false;
  if (bucket !== undefined && fields['bucket'] !== bucket) return false;
  if (account !== undefined && fields['account'] !== account) return false;
  if (operation === undefined && level === 'DEBUG' && ownPolls.has(fields['operation'])) return false;
  if (operation !== undefined && fields['operation'] !== operation) return false;
  if (status !== undefined && !hasStatus(fields, status)) return false;
  return minMs === undefined || Number(fields['duration_ms']) >= minMs;
}

const lines: RecentKind<LogLine, Sent, Filter> = {
  topic: 'recent-lines',
  entriesOf: ({ diagnostics }) => diagnostics?.lines.entries,
  matches: ({ text }, filter) => passesFilter(readLine(text), filter),
  describe: (line, process) => ({ ...line, process }),
};

export const shareRecentLines = (ctx: Context): void => shareRecent(ctx, lines);

const stringOrUndefined = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;

function describe({ at, text, process }: Sent) {
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
  return jsonReply({ lines: entries.map(describe), ...page });
};

/** The newest warnings and errors of the processes of this node, the oldest first. */
export async function readLastErrors(ctx: Context, max: number) {
  const filter: Filter = { level: 'WARN' };
  return (await readNode(ctx, lines, { filter, max, after: undefined })).entries.map(describe);
}
