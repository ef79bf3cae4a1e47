/** `--watch`: polls what an operation has begun until it ends, with a line of progress. */
import type { AdminClient } from '../../../client/admin-client.ts';
import type { AdminOperationName } from '../../../protocol/operations/admin.ts';

/** The operation that shows how far another is. */
export const watchedBy: Partial<Readonly<Record<AdminOperationName, AdminOperationName>>> = {
  DrainCluster: 'GetDrainProgress',
  ReshardBucket: 'GetReshardBucket',
  StartFsck: 'GetFsck',
  StartScrub: 'GetScrub',
  RewrapKeys: 'GetRewrapKeys',
  ForceEmptyBucket: 'GetForceEmptyBucket',
  RunBucketInventory: 'GetBucketInventoryRun',
  StartReplicationResync: 'GetReplicationResync',
};

export const canWatch = (name: AdminOperationName): boolean =>
  name in watchedBy || Object.values(watchedBy).includes(name);

export type State = Readonly<Record<string, unknown>>;

/** A drain has no end state: it has ended when the cluster may be removed, or when it was stopped. */
const isEnded = (state: State): boolean =>
  'deregisterReady' in state
    ? state['deregisterReady'] === true || state['state'] !== 'evacuating'
    : state['state'] !== 'running';

/** A reply that says that a check has found something wrong, or that a task failed: scripts see it in the exit code. */
export const isBad = (state: State): boolean =>
  state['ok'] === false || state['isIntact'] === false || state['state'] === 'failed';

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

export interface Watch {
  readonly client: AdminClient;
  readonly name: AdminOperationName;
  readonly path: Readonly<Record<string, string>>;
  readonly report: (line: string) => void;
}

/** @returns the last state */
export async function watchUntilEnd({ client, name, path, report }: Watch): Promise<State> {
  const shows = watchedBy[name] ?? name;
  let reported = '';
  for (let waitMs: number = pollMs.first; ; waitMs = Math.min(waitMs * 1.5, pollMs.longest)) {
    // The casts: the operations of the table above have these parameters, and reply with objects.
    const { json } = await client.call(shows, { path: path as never });
    const state: State = (json as State | undefined) ?? {};
    if (isEnded(state)) return state;
    const line = progressLine(state);
    if (line !== reported) report(line);
    reported = line;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}
