/** `--watch`: polls what an operation has begun until it ends, with a line of progress. */
import { type AdminClient, AdminRefused } from '../../client/admin-client.ts';
import type { AdminOperationName, AdminQuery } from '../../protocol/admin/operations.ts';
import { formatStatus } from './status-page.ts';
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
const taskOf: Partial<Readonly<Record<AdminOperationName, (path: Path) => TaskQuery>>> = {
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

export const isShownAnew = (name: AdminOperationName): boolean => name in pages;

/** The cast: the reply of this operation. */
export const formatPage = (name: AdminOperationName, reply: unknown): string | undefined =>
  pages[name]?.(reply as never);

export const canWatch = (name: AdminOperationName): boolean =>
  isShownAnew(name) || name === 'ListTasks' || name in watchedBy || Object.values(watchedBy).includes(name);

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

const countOf = (state: State, name: string): number => (typeof state[name] === 'number' ? state[name] : 0);

/** The state in which what was followed ended is not what was asked for. A cluster that only takes no new writes keeps its bytes. */
export function hasFailed(state: State, mode: unknown): boolean {
  if ('deregisterReady' in state) return state['deregisterReady'] === false && mode !== 'readonly';
  const isFound = countOf(state, 'found') > countOf(state, 'fixed');
  return isBad(state) || isFound || countOf(state, 'damaged') > 0 || countOf(state, 'failed') > 0;
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
  const query = taskOf[shows]?.(path);
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

/** Shows a page every two seconds: in a terminal over the former one, in a pipe below it. @throws what the first reading throws, and refusals */
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
  let shown: readonly string[] = [];
  const isTerminal = out.isTTY === true;
  const clear = (): void => {
    // What a pipe has got stays there, so that it does not get the same line again.
    if (!isTerminal) return;
    if (shown.length > 0) out.write(clearLine + (upOne + clearLine).repeat(shown.length - 1));
    shown = [];
  };
  return {
    clear,
    show(lines) {
      if (isTerminal) {
        clear();
        // A line that wraps would not be removed as a whole.
        const width = Math.max(20, (out.columns ?? 80) - 1);
        out.write(lines.map((line) => line.slice(0, width)).join('\n'));
      } else for (const line of lines) if (!shown.includes(line)) out.write(`${line}\n`);
      shown = lines;
    },
  };
}
