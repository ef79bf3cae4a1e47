/** The background workers: who leads each, what it did last, and what it has left. */
import { workerNames } from '../../../config/values/workers.ts';
import { everyHeartbeat } from '../../../metadata/background/heartbeats.ts';
import type { HeartbeatProgress, HeartbeatRow } from '../../../metadata/records/background/heartbeats.ts';
import type { QueueBacklog } from '../../../ports/telemetry.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

/** Three heartbeats: after this time without one the process is taken for dead. */
const silentMs = 30_000;

/** The queue that a worker drains. */
const queueOf: Readonly<Record<string, string>> = {
  notify: 'notify',
  'access-log': 'access-log',
  replicator: 'replication',
};

export const ListWorkers: AdminHandler<'ListWorkers'> = async (ctx) => {
  const rows: HeartbeatRow[] = [];
  for await (const row of everyHeartbeat(ctx.metadata)) rows.push(row);
  const now = await ctx.metadata.now();
  const present = [...rows.filter(({ generation }) => generation === 0), ...leaders(rows)];
  const queues = present.find(({ worker }) => worker === 'queue-retention')?.progress?.queues ?? [];
  const seen = new Set(present.map(({ worker }) => worker));
  const unseen = workerNames
    .filter((name) => !seen.has(name))
    .map((worker) => ({ worker, state: 'never-ran' }));
  const workers = [...present.map((row) => workerJson(row, { now, queues })), ...unseen];
  return jsonReply({ workers: workers.sort((a, b) => (a.worker < b.worker ? -1 : 1)) });
};

/** Of a worker with a lease, the process with the latest one. */
function leaders(rows: readonly HeartbeatRow[]): readonly HeartbeatRow[] {
  const latest = new Map<string, HeartbeatRow>();
  for (const row of rows) {
    if (row.generation > (latest.get(row.worker)?.generation ?? 0)) latest.set(row.worker, row);
  }
  return [...latest.values()];
}

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** `failing` comes first, because a worker that fails again and again may be between two attempts. */
function stateOf(row: HeartbeatRow, now: number): string {
  if (row.failures > 0) return 'failing';
  if (row.endedAt !== undefined) return 'stopped';
  if (now - row.beatAt > silentMs) return 'silent';
  return row.lastUnit?.outcome === 'busy' ? 'busy' : 'idle';
}

function workerJson(
  row: HeartbeatRow,
  { now, queues }: { readonly now: number; readonly queues: readonly QueueBacklog[] },
) {
  const { worker, process, generation, since, beatAt, units, lastUnit, failures, lastError, progress } = row;
  return {
    worker,
    state: stateOf(row, now),
    process,
    ...(generation === 0 ? {} : { generation }),
    since: seconds(since),
    beatAt: seconds(beatAt),
    units,
    ...(lastUnit === undefined ? {} : { lastUnit: { ...lastUnit, endedAt: seconds(lastUnit.endedAt) } }),
    failures,
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: seconds(lastError.at) } }),
    ...(progress === undefined ? {} : { progress: progressJson(worker, progress, queues) }),
  };
}

function progressJson(
  worker: string,
  { of, done, perSecond, left, oldestSeconds }: HeartbeatProgress,
  queues: readonly QueueBacklog[],
) {
  const queue = queues.find((each) => each.queue === queueOf[worker]);
  const backlog = left ?? queue?.rows;
  const oldest = oldestSeconds ?? queue?.oldestSeconds;
  return {
    of,
    done,
    perSecond: Math.round(perSecond * 10) / 10,
    ...(backlog === undefined ? {} : { backlog }),
    ...(oldest === undefined ? {} : { oldestSeconds: Math.floor(oldest) }),
    ...(backlog === undefined || perSecond === 0 ? {} : { etaSeconds: Math.ceil(backlog / perSecond) }),
  };
}
