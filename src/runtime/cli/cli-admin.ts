/** `sluice admin`: every operation of the operator API as a command. */
import { once } from 'node:events';
import { type AdminClient, AdminRefused, openAdminClient } from '../../admin-client.ts';
import { printable } from '../../base/text/printable.ts';
import type { SpanDocument, TraceDocument } from '../../ports/trace.ts';
import {
  type AdminOperationName,
  type AdminReply,
  describeAdminOperation,
} from '../../protocol/admin/operations.ts';
import {
  type AdminArguments,
  type AdminCommand,
  adminHelp,
  findAdminCommand,
  formatUsage,
  readArguments,
  UsageFault,
} from './commands.ts';
import { explainUnknownCommand, isMisspelt, suggestName } from './completion.ts';
import { isTransfer, runTransfer, transferUsage } from './iam-transfer.ts';
import { findProfile, type Profile } from './profiles.ts';
import { formatTasks, type Task } from './task-line.ts';
import {
  canWatch,
  formatPage,
  hasFailed,
  isBad,
  isRefreshed,
  openLiveLines,
  type State,
  showAnew,
  watchTasks,
  watchUntilEnd,
} from './watch.ts';

const codes = { done: 0, refused: 1, usage: 2, unreachable: 3 } as const;

const print = (text: string): void => {
  if (text !== '') process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
};
const reportProblem = (text: string): void => {
  process.stderr.write(`sluice: ${text}\n`);
};

/** Other names of first words: operators ask for one trace. */
const aliases: Readonly<Record<string, string>> = { trace: 'traces' };

/** A reader such as `head` may close the output before its end. */
function endWithReader(): void {
  process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EPIPE') throw cause;
    process.exit(codes.done);
  });
}

/** @returns the exit code */
export async function runAdmin([first, ...rest]: readonly string[]): Promise<number> {
  endWithReader();
  const args = first === undefined ? [] : [aliases[first] ?? first, ...rest];
  const words = args.filter((arg) => !arg.startsWith('-'));
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    print(adminHelp(words));
    return args.length === 0 ? codes.usage : codes.done;
  }
  if (isTransfer(args)) {
    try {
      return (await runTransfer(args)) ? codes.done : codes.refused;
    } catch (cause) {
      return explain(cause, transferUsage.join('\n       '));
    }
  }
  const command = findAdminCommand(args);
  if (command === undefined || isMisspelt(command, args)) {
    reportProblem(explainUnknownCommand(args));
    return codes.usage;
  }
  try {
    const isShort = !command.words.every((word, index) => args[index] === word);
    const input = readArguments(command, args.slice(command.words.length - (isShort ? 1 : 0)));
    if (input.common['--watch'] !== undefined && !canWatch(command.operation))
      throw new UsageFault('--watch is for what runs in the background');
    if (input.common['--follow'] !== undefined) assertFollowed(command, input);
    const profile = findProfile(input.common, process.env);
    return await execute(command, input, profile).catch(async (cause: unknown) => {
      const code = explain(cause, formatUsage(command));
      if (cause instanceof AdminRefused && cause.status === 404) await suggestMeant(command, input, profile);
      return code;
    });
  } catch (cause) {
    return explain(cause, formatUsage(command));
  }
}

/** @throws UsageFault */
function assertFollowed({ operation }: AdminCommand, { query }: AdminArguments): void {
  const follower = findFollower(operation);
  if (follower === undefined) throw new UsageFault('--follow is for `requests`, `logs` and `audit`');
  const known = describeAdminOperation(follower).query;
  const unknown = Object.keys(query).find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw new UsageFault(`--follow shows what comes: it takes no --${unknown}`);
}

/** The refusal stays what it was where no name can be suggested. */
async function suggestMeant(
  command: AdminCommand,
  { path, query, body }: AdminArguments,
  profile: Profile,
): Promise<void> {
  const names = { path, options: { ...query, ...body } };
  const meant = await suggestName(openAdminClient(profile), command, names).catch(() => undefined);
  if (meant !== undefined) reportProblem(`did you mean ${printable(meant)}?`);
}

function explain(cause: unknown, usage: string): number {
  if (cause instanceof UsageFault) {
    reportProblem(`${cause.message}\nusage: ${usage}`);
    return codes.usage;
  }
  if (cause instanceof AdminRefused) {
    const request = cause.requestId === '' ? '' : ` (request ${cause.requestId})`;
    reportProblem(`${cause.code === '' ? cause.status : cause.code}: ${cause.message}${request}`);
    return codes.refused;
  }
  // What `fetch` throws; its cause says more. On Bun it has the code of the system or of TLS instead, as no other TypeError has.
  const { code } = cause as { readonly code?: unknown };
  const isOfSystem = typeof code === 'string' && !code.startsWith('ERR_');
  if (cause instanceof TypeError && (isOfSystem || /fetch/i.test(cause.message))) {
    const { cause: reason } = cause;
    reportProblem(
      `the gateway cannot be reached: ${reason instanceof Error ? reason.message || String(reason) : cause.message}`,
    );
    return codes.unreachable;
  }
  throw cause;
}

/** Archives are bytes, and exports may be larger than the memory. */
async function copyToOutput(body: ReadableStream<Uint8Array>): Promise<number> {
  let bytes = 0;
  try {
    for await (const piece of body) {
      bytes += piece.length;
      if (!process.stdout.write(piece)) await once(process.stdout, 'drain');
    }
    return codes.done;
  } catch (cause) {
    reportProblem(
      `the reply broke off after ${bytes} bytes, so it is incomplete: ${(cause as Error).message}`,
    );
    return codes.refused;
  }
}

/** A trace is a waterfall, the status a page; requests, log lines and tasks are lines, every other reply is a table. */
function showAnswer({ operation }: AdminCommand, json: unknown): string {
  // The casts: replies of these operations.
  if (operation === 'GetTrace')
    return formatTraces((json as { readonly traces: readonly TraceDocument[] }).traces);
  if (operation === 'ListTasks') return formatTasks((json as { readonly tasks: readonly Task[] }).tasks);
  return formatPage(operation, json) ?? formatEntries(operation, json) ?? showReply(json);
}

/** A pipe whose reader is slow holds the next page back. */
async function printSlowly(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

async function execute(command: AdminCommand, input: AdminArguments, profile: Profile): Promise<number> {
  const { path, query, body, common } = input;
  const client = openAdminClient(profile);
  const asJson = common['--json'] !== undefined;
  const ifMatch = common['--if-match'];
  const idempotencyKey = common['--idempotency-key'];
  // The casts: arguments were read by the row of this operation, and the gateway checks them.
  const ask = {
    path: path as never,
    query: query as never,
    ...(Object.keys(body).length === 0 ? {} : { body: body as never }),
    ...(ifMatch === undefined ? {} : { ifMatch }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
  if (describeAdminOperation(command.operation).media !== undefined)
    return copyToOutput(await client.stream(command.operation, ask));
  if (common['--follow'] !== undefined)
    return followEntries({
      client,
      name: findFollower(command.operation) ?? command.operation,
      query,
      asJson,
      print: printSlowly,
      report: reportProblem,
    });
  if (common['--watch'] !== undefined && isRefreshed(command.operation))
    return showAnew({
      read: async () => {
        const { json, text } = await client.call(command.operation, ask);
        return asJson ? text : showAnswer(command, json);
      },
      print: printSlowly,
      isTerminal: process.stdout.isTTY && !asJson,
    });
  const live = openLiveLines(process.stderr);
  if (command.operation === 'ListTasks' && common['--watch'] !== undefined)
    await watchTasks(client, query as never, (lines) => live.show(lines));
  live.clear();
  const answer = await client.call(command.operation, ask);
  if (command.operation === 'ListTasks' || common['--watch'] === undefined) {
    print(asJson || answer.json === undefined ? answer.text : showAnswer(command, answer.json));
    return isBad((answer.json ?? {}) as State) ? codes.refused : codes.done;
  }
  const state = await watchUntilEnd({
    client,
    name: command.operation,
    path,
    report: (line) => live.show([line]),
  });
  live.clear();
  print(asJson ? JSON.stringify(state) : showReply(state));
  return hasFailed(state, body['mode']) ? codes.refused : codes.done;
}

// Replies of the operator API as tables.

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Fields with Unix seconds. Other numbers of such names, such as a count, are far smaller. */
const timeName = /^(?:at|since|\w+(?:At|From))$/;
const [secondsMin, secondsMax] = [1e9, 1e11];

/** A time as ISO 8601 where the value is one. */
const readable = (name: string, value: unknown): unknown =>
  typeof value === 'number' && timeName.test(name) && value >= secondsMin && value < secondsMax
    ? new Date(value * 1000).toISOString().replace('.000Z', 'Z')
    : value;

function cell(value: unknown, name = ''): string {
  const visible = readable(name, value);
  if (visible === undefined) return '';
  return printable(typeof visible === 'string' ? visible : JSON.stringify(visible, readable));
}

function table(rows: readonly Json[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => cell(row[name], name))),
  ];
  const widths = columns.map((_, index) =>
    lines.reduce((most, line) => Math.max(most, line[index]?.length ?? 0), 0),
  );
  return lines
    .map((line) =>
      line
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function showReply(json: unknown): string {
  if (!isObject(json)) return cell(json);
  const lists = Object.entries(json).filter(([, value]) => Array.isArray(value) && value.every(isObject));
  const rest = Object.entries(json).filter(([name]) => !lists.some(([list]) => list === name));
  const width = rest.reduce((most, [name]) => Math.max(most, name.length), 0);
  const lines = rest.map(([name, value]) => `${name.padEnd(width)}  ${cell(value, name)}`);
  // The cast: `every(isObject)` above.
  const tables = lists.map(([name, rows]) =>
    (rows as readonly Json[]).length === 0 ? `no ${name}` : table(rows as readonly Json[]),
  );
  return [...tables, ...lines].join('\n');
}

const barWidth = 32;
const ms = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(1));

/** The request first, then the deliveries that it caused. */
export const formatTraces = (traces: readonly TraceDocument[]): string =>
  `${traces.map(formatTrace).join('\n\n')}\n`;

function formatTrace(trace: TraceDocument): string {
  const { operation, bucket, key, status, code, durationMs, headMs, requestId, traceId, links } = trace;
  const about = bucket === '' ? '' : ` ${bucket}${key === '' ? '' : `/${key}`}`;
  const outcome = [status, code].filter((each) => each !== undefined).join(' ');
  const head = headMs === undefined ? '' : `, head of the reply after ${ms(headMs)} ms`;
  const lines = [
    `${operation}${about}  ${outcome === '' ? (trace.kept === 'running' ? 'running' : 'done') : outcome}`,
    `${ms(durationMs)} ms from ${trace.startedAt}${head}, in ${trace.process}`,
    `request ${requestId}, trace ${traceId}${trace.parent === undefined ? '' : `, below the caller's span ${trace.parent}`}`,
    ...links.map((link) => `caused by ${link}`),
    ...formatAttributes(trace),
    `${'start'.padStart(9)} ${'ms'.padStart(9)}`,
    ...spanLines(trace),
    ...(trace.leftOut === 0 ? [] : [`${trace.leftOut} further spans are not kept`]),
  ];
  return lines.map(printable).join('\n');
}

const visible = [
  'http.request.method',
  'url.path',
  'client.address',
  'aws.s3.copy_source',
  'messaging.destination.name',
];

const formatAttributes = ({ attributes }: TraceDocument): readonly string[] => {
  const texts = visible.flatMap((name) =>
    name in attributes ? [`${name}=${String(attributes[name])}`] : [],
  );
  return texts.length === 0 ? [] : [texts.join('  ')];
};

/** Each below its parent, in the order in which they began. */
function spanLines(trace: TraceDocument): readonly string[] {
  const children = Map.groupBy(trace.spans, ({ parent }) => parent);
  const lines: string[] = [];
  const walk = (parent: string, depth: number): void => {
    for (const span of children.get(parent) ?? []) {
      lines.push(spanLine(span, depth, trace.durationMs));
      walk(span.id, depth + 1);
    }
  };
  walk(trace.spanId, 0);
  return lines;
}

function spanLine(span: SpanDocument, depth: number, totalMs: number): string {
  const { name, about, startMs, durationMs, error } = span;
  const took = durationMs ?? totalMs - startMs;
  const column = (at: number): number =>
    totalMs === 0 ? 0 : Math.min(barWidth, Math.round((at / totalMs) * barWidth));
  const from = Math.min(column(startMs), barWidth - 1);
  const bar = '█'.repeat(Math.max(1, column(startMs + took) - from));
  const place = `${' '.repeat(from)}${bar}`.padEnd(barWidth);
  const state = durationMs === undefined ? '  runs' : error === undefined ? '' : `  failed: ${error}`;
  return `${ms(startMs).padStart(9)} ${ms(took).padStart(9)} |${place}| ${'  '.repeat(depth)}${name}${about === '' ? '' : ` ${about}`}${state}`;
}

// `sluice admin requests`, `logs` and `audit follow`: a line for each entry, and with `--follow` also the entries that come later.

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
const findFollower = (name: AdminOperationName): AdminOperationName | undefined => {
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
function formatEntries(name: AdminOperationName, json: unknown): string | undefined {
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

interface Follow {
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
async function followEntries({ client, name, query, asJson, print, report }: Follow): Promise<never> {
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
