/** `--watch`: polls what an operation has begun until it ends, with a line of progress. */

import { type AdminClient, AdminRefused } from '../../admin-client.ts';
import { formatBytes } from '../../base/text/byte-size.ts';
import { printable } from '../../base/text/printable.ts';
import type { AdminOperationName, AdminQuery, AdminReply } from '../../protocol/admin/operations.ts';
import type { Plain } from '../../protocol/formats/json.ts';
import { formatTask, type Task } from './task-line.ts';

/** The operation that shows how far another is. */
const watchedBy: Partial<Readonly<Record<AdminOperationName, AdminOperationName>>> = {
  DrainCluster: 'GetDrainProgress',
  ReshardBucket: 'GetReshardBucket',
  StartFsck: 'GetFsck',
  StartScrub: 'GetScrub',
  RewrapKeys: 'GetRewrapKeys',
  ForceEmptyBucket: 'GetForceEmptyBucket',
  RunBucketInventory: 'GetBucketInventoryRun',
  StartReplicationResync: 'GetReplicationResync',
  RunLifecycle: 'GetLifecycle',
};

type Path = Readonly<Record<string, string>>;
type TaskQuery = AdminQuery<'ListTasks'>;

/** The task that the operation of `watchedBy` shows. */
const taskQueries: Partial<Readonly<Record<AdminOperationName, (path: Path) => TaskQuery>>> = {
  GetDrainProgress: ({ id = '' }) => ({ kind: 'evacuation', cluster: id }),
  GetReshardBucket: ({ name = '' }) => ({ kind: 'reshard', bucket: name }),
  GetFsck: () => ({ kind: 'fsck' }),
  GetScrub: () => ({ kind: 'scrub' }),
  GetRewrapKeys: () => ({ kind: 'rewrap' }),
  GetForceEmptyBucket: ({ name = '' }) => ({ kind: 'force-empty', bucket: name }),
  GetBucketInventoryRun: ({ name = '' }) => ({ kind: 'inventory', bucket: name }),
  GetReplicationResync: ({ bucket = '' }) => ({ kind: 'resync', bucket }),
  GetLifecycle: ({ name = '' }) => ({ kind: 'lifecycle', bucket: name }),
};

/** Operations whose reply is a page, which is shown anew until the command is ended. */
const pages: Partial<Readonly<Record<AdminOperationName, (reply: never) => string>>> = {
  GetStatus: formatStatus,
};

export const isRefreshed = (name: AdminOperationName): boolean => name in pages;

/** The cast: the reply of this operation. */
export const formatPage = (name: AdminOperationName, reply: unknown): string | undefined =>
  pages[name]?.(reply as never);

export const canWatch = (name: AdminOperationName): boolean =>
  isRefreshed(name) || name === 'ListTasks' || name in watchedBy || Object.values(watchedBy).includes(name);

export type State = Readonly<Record<string, unknown>>;

/** A drain has no end state: it has ended when the cluster may be removed, or when it was stopped. */
const isEnded = (state: State): boolean =>
  'deregisterReady' in state
    ? state['deregisterReady'] === true || state['state'] !== 'evacuating'
    : !['running', 'waiting', 'indexing'].includes(String(state['state']));

/** A reply that says that a check has found something wrong, or that a task failed: scripts see it in the exit code. */
export const isBad = (state: State): boolean =>
  state['ok'] === false ||
  state['isIntact'] === false ||
  state['state'] === 'failed' ||
  // What a dry run has found.
  (Array.isArray(state['refusals']) && state['refusals'].length > 0);

const readCount = (state: State, name: string): number => (typeof state[name] === 'number' ? state[name] : 0);

/** The state in which what was followed ended is not what was asked for. A cluster that only takes no new writes keeps its bytes. */
export function hasFailed(state: State, mode: unknown): boolean {
  if ('deregisterReady' in state) return state['deregisterReady'] === false && mode !== 'readonly';
  const isFound = readCount(state, 'found') > readCount(state, 'fixed');
  return isBad(state) || isFound || readCount(state, 'damaged') > 0 || readCount(state, 'failed') > 0;
}

const barWidth = 20;

export function progressLine(state: State): string {
  const number = (name: string): number | undefined =>
    typeof state[name] === 'number' ? (state[name] as number) : undefined;
  const done = number('shardsDone') ?? number('slotsSeen') ?? number('read');
  const total = number('shardsTotal') ?? number('slots') ?? number('versions');
  const bar =
    done === undefined || total === undefined || total === 0
      ? ''
      : `[${'#'.repeat(Math.floor((barWidth * Math.min(done, total)) / total)).padEnd(barWidth, '.')}] `;
  const counts = Object.entries(state)
    .filter(([name, value]) => typeof value === 'number' && !name.endsWith('At'))
    .map(([name, value]) => `${name} ${String(value)}`);
  const [reason] = Array.isArray(state['reasons']) ? state['reasons'] : [];
  const waits = typeof reason === 'string' ? `  (${reason})` : '';
  const at = state['at'] === undefined ? '' : ` ${String(state['at'])}`;
  return `${bar}${String(state['state'] ?? '')}${at}  ${counts.join('  ')}${waits}`.slice(0, 200);
}

const pollMs = { first: 200, longest: 2_000 } as const;

interface Watch {
  readonly client: AdminClient;
  readonly name: AdminOperationName;
  readonly path: Readonly<Record<string, string>>;
  readonly report: (line: string) => void;
}

/** @returns the last state */
export async function watchUntilEnd({ client, name, path, report }: Watch): Promise<State> {
  const shows = watchedBy[name] ?? name;
  const query = taskQueries[shows]?.(path);
  let reported = '';
  for (let waitMs: number = pollMs.first; ; waitMs = Math.min(waitMs * 1.5, pollMs.longest)) {
    // The casts: the operations of the table above have these parameters, and reply with objects.
    const { json } = await client.call(shows, { path: path as never });
    const state: State = (json as State | undefined) ?? {};
    if (isEnded(state)) return state;
    const task = query === undefined ? undefined : await findTask(client, query);
    const line = task === undefined ? progressLine(state) : formatTask(task);
    if (line !== reported) report(line);
    reported = line;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

/** Undefined where policies do not allow the caller to list tasks, or the task has not begun. */
async function findTask(client: AdminClient, query: TaskQuery): Promise<Task | undefined> {
  try {
    const { json } = await client.call('ListTasks', { query: { ...query, state: 'active', limit: 1 } });
    return json?.tasks[0];
  } catch (cause) {
    if (cause instanceof AdminRefused) return undefined;
    throw cause;
  }
}

/** Follows every task that the query covers until none is left that runs or waits. @param report gets a line for each of them */
export async function watchTasks(
  client: AdminClient,
  query: TaskQuery,
  report: (lines: readonly string[]) => void,
): Promise<void> {
  for (;;) {
    const { json } = await client.call('ListTasks', { query: { ...query, state: 'active' } });
    const tasks = json?.tasks ?? [];
    report(tasks.map(formatTask));
    if (tasks.length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, pollMs.longest));
  }
}

const anewMs = 2_000;
const home = '\u001b[H\u001b[J';

/**
 * Shows a page every two seconds: in a terminal over the former one, in a pipe below it.
 * @throws what the first reading
 * throws, and refusals
 */
export async function showAnew({
  read,
  print,
  isTerminal,
}: {
  readonly read: () => Promise<string>;
  readonly print: (text: string) => Promise<void>;
  readonly isTerminal: boolean;
}): Promise<never> {
  for (let isFirst = true; ; isFirst = false) {
    const page = await read().catch((cause: unknown) => {
      if (isFirst || cause instanceof AdminRefused) throw cause;
      return 'the gateway cannot be reached; trying again';
    });
    await print(isTerminal ? `${home}${page}\n` : `${page}\n`);
    await new Promise((resolve) => setTimeout(resolve, anewMs));
  }
}

/** Lines that change while work goes on: rewritten in place on a terminal, and one below the other in a pipe. */
interface LiveLines {
  /** Replaces the lines before. In a pipe, only lines that are new. */
  show(lines: readonly string[]): void;
  /** Removes them from a terminal. */
  clear(): void;
}

const clearLine = '\r\u001b[K';
const upOne = '\u001b[1A';

export function openLiveLines(
  out: Pick<NodeJS.WriteStream, 'write'> & { readonly isTTY?: boolean; readonly columns?: number },
): LiveLines {
  let visible: readonly string[] = [];
  const isTerminal = out.isTTY === true;
  const clear = (): void => {
    // What a pipe has got stays there, so that it does not get the same line again.
    if (!isTerminal) return;
    if (visible.length > 0) out.write(clearLine + (upOne + clearLine).repeat(visible.length - 1));
    visible = [];
  };
  return {
    clear,
    show(lines) {
      if (isTerminal) {
        clear();
        // A line that wraps would not be removed as a whole.
        const width = Math.max(20, (out.columns ?? 80) - 1);
        out.write(lines.map((line) => line.slice(0, width)).join('\n'));
      } else for (const line of lines) if (!visible.includes(line)) out.write(`${line}\n`);
      visible = lines;
    },
  };
}

// `sluice admin status`: the reply of GetStatus as a page of a terminal.

type Status = Plain<AdminReply<'GetStatus'>>;

const pageWidth = 100;
const indent = '  ';
const gap = '  ';

/** The end of a longer text is cut. */
const cut = (text: string, width: number): string =>
  text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;

const line = (text: string): string => cut(`${indent}${printable(text)}`, pageWidth);

interface Column {
  readonly head: string;
  readonly isNumber?: boolean;
  /** The longest cell; the last column takes what is left of the page. */
  readonly max?: number;
}

function table(columns: readonly Column[], rows: readonly (readonly string[])[]): readonly string[] {
  const cells = [columns.map(({ head }) => head), ...rows.map((row) => row.map((cell) => printable(cell)))];
  const widths = columns.map(({ max = pageWidth }, index) =>
    Math.min(max, Math.max(...cells.map((row) => row[index]?.length ?? 0))),
  );
  return cells.map((row) => {
    const padded = columns.map(({ isNumber = false }, index) => {
      const width = widths[index] ?? 0;
      const text = cut(row[index] ?? '', width);
      return isNumber ? text.padStart(width) : text.padEnd(width);
    });
    return cut(`${indent}${padded.join(gap)}`.trimEnd(), pageWidth);
  });
}

export const formatSize = (bytes: number | undefined): string =>
  bytes === undefined ? '-' : formatBytes(bytes);

/** The two largest units, such as `3d 4h`. */
export function formatSeconds(seconds: number | undefined): string {
  if (seconds === undefined) return '-';
  const [days, hours, minutes] = [86_400, 3_600, 60].map((unit) => Math.floor(seconds / unit)) as [
    number,
    number,
    number,
  ];
  if (days > 0) return `${days}d ${hours % 24}h`;
  if (hours > 0) return `${hours}h ${minutes % 60}m`;
  return minutes > 0 ? `${minutes}m ${Math.floor(seconds % 60)}s` : `${Math.floor(seconds)}s`;
}

const number = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 1 : 0 });
const plural = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;

function gatewayLines({ gateways }: Status): readonly string[] {
  if (gateways.length === 0) return [line('none has written a heartbeat')];
  const columns = [
    { head: 'HOST', max: 16 },
    { head: 'ADDRESS', max: 30 },
    { head: 'VERSION', max: 9 },
    { head: 'RUNTIME', max: 12 },
    { head: 'UP', isNumber: true },
    { head: 'PROCS', isNumber: true },
    { head: 'REQ/S', isNumber: true },
  ];
  const rows = table(
    columns,
    gateways.map((each) => [
      each.host,
      each.address,
      each.version,
      each.runtime,
      each.state === 'up' ? formatSeconds(each.uptimeSeconds) : each.state,
      `${each.processesUp}/${each.processes}`,
      number(each.requests.perSecond),
    ]),
  );
  const leads = gateways.map(({ leads: names }) =>
    names.length === 0 ? [] : wrap(`leads ${names.join(' ')}`, pageWidth - 2 * indent.length),
  );
  // The head of the table is its first line.
  return rows.flatMap((row, index) => [row, ...(leads[index - 1] ?? []).map((text) => line(indent + text))]);
}

/** Breaks at blanks. */
function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

function capacityLines({ pools, metadata }: Status): readonly string[] {
  const columns = [
    { head: 'OF', max: 10 },
    { head: 'BACKEND', max: 16 },
    { head: 'PLACE', max: 36 },
    { head: 'STATE', max: 12 },
    { head: 'USED', isNumber: true },
    { head: 'FREE', isNumber: true },
  ];
  const rows = table(columns, [
    ...pools.map(({ backend, cluster, pool, state, usedBytes, freeBytes }) => [
      'data',
      backend,
      pool === backend ? cluster : `${cluster}/${pool}`,
      state,
      formatSize(usedBytes),
      formatSize(freeBytes),
    ]),
    ...metadata.map(({ backend, name, state, usedBytes, freeBytes }) => [
      'metadata',
      backend,
      name,
      state,
      formatSize(usedBytes),
      formatSize(freeBytes),
    ]),
  ]);
  // Nodes that are not asked for their size have the same reason, as a rule.
  const reasons = new Set(metadata.flatMap(({ sizeUnknown }) => sizeUnknown ?? []));
  const why = [...reasons].flatMap((reason) =>
    wrap(`size not known: ${reason}`, pageWidth - 2 * indent.length),
  );
  return [...rows, ...why.map((text) => line(indent + text))];
}

function workLines(status: Status): readonly string[] {
  const { work, tasks } = status;
  if (work.length + tasks.length === 0) return [line('nothing is left')];
  return [
    ...(work.length === 0 ? [] : workerLines(status)),
    ...(tasks.length === 0 ? [] : taskLines(status)),
  ];
}

function taskLines({ tasks }: Status): readonly string[] {
  const columns = [
    { head: 'TASK', max: 12 },
    { head: 'OF', max: 28 },
    { head: 'STATE', max: 8 },
    { head: 'DONE', isNumber: true, max: 11 },
    { head: 'LEFT', isNumber: true, max: 11 },
    { head: 'RATE', isNumber: true, max: 8 },
    { head: 'ETA', isNumber: true, max: 8 },
  ];
  return table(
    columns,
    tasks.map(({ kind, name, state, done, left, isLeftCut = false, perSecond, etaSeconds }) => [
      kind,
      name,
      state,
      number(done.count),
      left === undefined ? '-' : `${isLeftCut ? '>' : ''}${number(left.count)}`,
      perSecond === undefined ? '-' : `${number(perSecond.count)}/s`,
      formatSeconds(etaSeconds),
    ]),
  );
}

function workerLines({ work }: Status): readonly string[] {
  const columns = [
    { head: 'WORKER', max: 20 },
    { head: 'STATE', max: 10 },
    { head: 'LEFT', isNumber: true },
    { head: 'OF', max: 12 },
    { head: 'RATE', isNumber: true },
    { head: 'OLDEST', isNumber: true },
    { head: 'ETA', isNumber: true },
  ];
  return table(
    columns,
    work.map(({ worker, state, left, isLeftCut = false, of = '', perSecond, oldestSeconds, etaSeconds }) => [
      worker,
      state,
      left === undefined ? '-' : `${isLeftCut ? '>' : ''}${number(left)}`,
      of,
      perSecond === undefined ? '-' : `${number(perSecond)}/s`,
      formatSeconds(oldestSeconds),
      formatSeconds(etaSeconds),
    ]),
  );
}

function requestLines({ requests }: Status): readonly string[] {
  const { requests: count, perSecond, refused, failed, p50Ms, p99Ms, processes } = requests;
  const durations =
    p50Ms === undefined || p99Ms === undefined ? '' : `, p50 ${number(p50Ms)} ms, p99 ${number(p99Ms)} ms`;
  return [
    line(
      `${plural(count, 'request')} (${number(perSecond)}/s) to ${number(processes)} ${processes === 1 ? 'process' : 'processes'}: ` +
        `${number(refused)} refused, ${number(failed)} failed${durations}`,
    ),
  ];
}

const errorLines = ({ errors }: Status): readonly string[] =>
  errors.length === 0
    ? [line('none is kept')]
    : errors.map(({ time, level, message, fields }) => {
        const { cause } = fields;
        // An error in a log has its message.
        const why = (cause as { readonly message?: unknown } | undefined)?.message ?? fields['code'];
        return line(
          `${time.slice(0, 19)}Z ${level.padEnd(5)} ${message}${why === undefined ? '' : `: ${String(why)}`}`,
        );
      });

/** At most 100 columns wide. */
export function formatStatus(status: Status): string {
  const { ok, time, gateways, warnings, missing, requests } = status;
  const count = warnings.length + missing.length;
  const heads = [
    ok ? 'healthy' : plural(count, 'problem'),
    plural(gateways.length, 'gateway'),
    `${time.slice(0, 19)}Z`,
  ];
  const sections: readonly (readonly [string, readonly string[]])[] = [
    ['GATEWAYS', gatewayLines(status)],
    ['CAPACITY', capacityLines(status)],
    [
      'HEALTH',
      ok
        ? [line('no warnings')]
        : [...warnings, ...missing.map((part) => `not known: ${part}`)].flatMap((text) =>
            wrap(printable(text), pageWidth - 2 * indent.length).map((each, index) =>
              line(index === 0 ? each : indent + each),
            ),
          ),
    ],
    ['WORK', workLines(status)],
    [`REQUESTS OF THE LAST ${requests.seconds} S`, requestLines(status)],
    ['LAST WARNINGS AND ERRORS OF THIS NODE', errorLines(status)],
  ];
  return [heads.join(', '), ...sections.flatMap(([head, lines]) => ['', head, ...lines])].join('\n');
}
