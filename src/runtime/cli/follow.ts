/** `sluice admin requests`, `logs` and `audit follow`: a line for each entry, and with `--follow` also the entries that come later. */
import { printable } from '../../base/text/printable.ts';
import { type AdminClient, AdminRefused } from '../../client/admin-client.ts';
import type { AdminOperationName, AdminReply } from '../../protocol/admin/operations.ts';

type Request = AdminReply<'ListRequests'>['requests'][number];
type Line = Pick<AdminReply<'ListLogs'>['lines'][number], 'time' | 'level' | 'message' | 'process'> & {
  readonly fields: Readonly<Record<string, unknown>>;
};

type AuditRow = AdminReply<'FollowAudit'>['rows'][number];

interface Followed {
  /** The list of the reply. */
  readonly list: string;
  readonly pollMs?: number;
  format(entry: never): string;
}

const clock = (time: string): string => time.slice(11, 23);
const blankOr = (text: string): string => (text === '' ? '-' : text);

function formatRequest(entry: Request): string {
  const { time, status, operation, durationMs, bucket, key, account, remote, code, requestId } = entry;
  const place = key === '' ? bucket : `${bucket}/${key}`;
  const columns = [
    clock(time),
    String(status),
    `${durationMs.toFixed(1)} ms`.padStart(11),
    operation.padEnd(24),
    blankOr(account),
    blankOr(remote),
    blankOr(place),
    ...(code === undefined ? [] : [code]),
    requestId,
  ];
  return printable(columns.join('  '));
}

function formatLine({ time, level, message, fields }: Line): string {
  const rest = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return printable([clock(time), level.padEnd(5), message, ...rest].join('  '));
}

function formatAuditRow(row: AuditRow): string {
  const {
    time,
    status,
    action,
    resource,
    key,
    keys,
    principal,
    source,
    error,
    changes = [],
    requestId,
  } = row;
  const place = key === undefined ? resource : `${resource}/${key}`;
  const changed = changes.map(
    ({ field, old, new: now }) => `${field}: ${JSON.stringify(old) ?? '-'} -> ${JSON.stringify(now) ?? '-'}`,
  );
  const columns = [
    clock(time),
    String(status),
    action.padEnd(24),
    principal ?? 'anonymous',
    source,
    keys === undefined ? blankOr(place) : `${place} (${keys.length} keys)`,
    ...(error === undefined ? [] : [error]),
    ...changed,
    requestId,
  ];
  return printable(columns.join('  '));
}

const followed: Partial<Readonly<Record<AdminOperationName, Followed>>> = {
  ListRequests: { list: 'requests', format: formatRequest },
  ListLogs: { list: 'lines', format: formatLine },
  // Each page reads the metadata.
  FollowAudit: { list: 'rows', format: formatAuditRow, pollMs: 1_000 },
};

/** The operation that follows, for `--follow`: the list of the audit log has one of its own. */
export const followerOf = (name: AdminOperationName): AdminOperationName | undefined => {
  const follower = name === 'ListAudit' ? 'FollowAudit' : name;
  return follower in followed ? follower : undefined;
};

interface Page {
  readonly lost?: number;
  readonly next: string;
  readonly entries: readonly never[];
  readonly hasMore?: boolean;
}

function readPage({ list }: Followed, json: unknown): Page {
  // The cast: the operations of the table above reply so.
  const reply = json as Page & Readonly<Record<string, readonly never[]>>;
  return { ...reply, entries: reply[list] ?? [] };
}

/** The entries of a reply as lines; undefined for replies of other operations. */
export function formatEntries(name: AdminOperationName, json: unknown): string | undefined {
  const found = followed[name];
  if (found === undefined) return undefined;
  const lines = readPage(found, json).entries.map(found.format);
  return lines.length === 0 ? `no ${found.list}` : lines.join('\n');
}

const pollMs = 500;
const retryMs = 2_000;
/** A process of the gateway that dies may leave a request without any answer. */
const answerMs = 15_000;
const pageMax = 1_000;

export interface Follow {
  readonly client: AdminClient;
  readonly name: AdminOperationName;
  readonly query: Readonly<Record<string, unknown>>;
  readonly asJson: boolean;
  /** Resolves when the reader of the output has taken the text. */
  readonly print: (text: string) => Promise<void>;
  readonly report: (text: string) => void;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Ends with its process, or with a refusal. @throws AdminRefused; the first time also what `fetch` throws */
export async function followEntries({ client, name, query, asJson, print, report }: Follow): Promise<never> {
  const how = followed[name] as Followed;
  const format = asJson ? (entry: never): string => JSON.stringify(entry) : how.format;
  let after: string | undefined;
  let isAway = false;
  for (;;) {
    const more = after === undefined ? {} : { after, limit: pageMax };
    // The cast: arguments were read by the row of this operation.
    const answer = await client
      .call(name, { query: { ...query, ...more } as never, signal: AbortSignal.timeout(answerMs) })
      .catch((cause: unknown) => {
        if (after === undefined || cause instanceof AdminRefused) throw cause;
        if (!isAway) report('the gateway cannot be reached; trying again');
        isAway = true;
      });
    if (answer === undefined) {
      await sleep(retryMs);
      continue;
    }
    isAway = false;
    const page = readPage(how, answer.json);
    const { lost = 0, hasMore = page.entries.length >= pageMax } = page;
    if (lost > 0) report(`${lost} ${how.list} were lost: they came faster than they were read`);
    if (page.entries.length > 0) await print(`${page.entries.map(format).join('\n')}\n`);
    const isWhole = after === undefined || !hasMore;
    after = page.next;
    if (isWhole) await sleep(how.pollMs ?? pollMs);
  }
}
