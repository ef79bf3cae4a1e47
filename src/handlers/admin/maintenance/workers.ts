/** The background workers: who leads each, what it did last, and what it has left. */
import { workerNames } from '../../../config/values/workers.ts';
import type { Context } from '../../../context.ts';
import { countAllLeft } from '../../../domain/deliveries/inventory/rows-left.ts';
import { countAllBacklogs } from '../../../domain/lifecycle/backlog.ts';
import { everyHeartbeat, heartbeatMs } from '../../../metadata/background/heartbeats.ts';
import type { HeartbeatProgress, HeartbeatRow } from '../../../metadata/records/background/heartbeats.ts';
import type { QueueBacklog } from '../../../ports/telemetry.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

/** After so many heartbeats that did not come the process is taken for dead. */
const missedMax = 3;

/** The queue that a worker drains. */
const queueOf: Readonly<Record<string, string>> = {
  notify: 'notify',
  'access-log': 'access-log',
  replicator: 'replication',
};

/** What a worker has left. */
interface Left {
  readonly left: number;
  /** There is more. */
  readonly isCut?: boolean;
  readonly oldestSeconds?: number;
}

const countMs = 1_000;
/** Counted when an operator asks, because the workers themselves read only what is due. */
const counts: Readonly<Record<string, (ctx: Context) => Promise<Left>>> = {
  lifecycle: (ctx) => countAllBacklogs(ctx, ctx.clock.elapsed() + countMs),
  inventory: async ({ metadata }) => ({ left: await countAllLeft(metadata) }),
};

export const ListWorkers: AdminHandler<'ListWorkers'> = async (ctx) => {
  const rows: HeartbeatRow[] = [];
  for await (const row of everyHeartbeat(ctx.metadata)) rows.push(row);
  const now = await ctx.metadata.now();
  const everyMs = heartbeatMs[ctx.metadata.isDistant ? 'distant' : 'local'];
  const present = [...rows.filter(({ generation }) => generation === 0), ...leaders(rows)];
  const queues = present.find(({ worker }) => worker === 'queue-retention')?.progress?.queues ?? [];
  const seen = new Set(present.map(({ worker }) => worker));
  const unseen = workerNames
    .filter((name) => !seen.has(name))
    .map((worker) => ({ worker, state: 'never-ran' as const }));
  const known = await Promise.all(
    present.map(async (row) => workerJson(row, { now, everyMs, left: await findLeft(ctx, row, queues) })),
  );
  const workers = [...known, ...unseen];
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

/** `failing` comes first, because a worker that fails again and again may be between two attempts. */
function stateOf(
  row: HeartbeatRow,
  { now, everyMs }: { readonly now: number; readonly everyMs: number },
): 'failing' | 'stopped' | 'silent' | 'busy' | 'idle' {
  if (row.failures > 0) return 'failing';
  if (row.endedAt !== undefined) return 'stopped';
  if (now - row.beatAt > missedMax * everyMs) return 'silent';
  return row.lastUnit?.outcome === 'busy' ? 'busy' : 'idle';
}

function workerJson(
  row: HeartbeatRow,
  { now, everyMs, left }: { readonly now: number; readonly everyMs: number; readonly left: Left | undefined },
) {
  const { worker, process, generation, since, beatAt, units, lastUnit, failures, lastError, progress } = row;
  return {
    worker,
    state: stateOf(row, { now, everyMs }),
    process,
    ...(generation === 0 ? {} : { generation }),
    since: seconds(since),
    beatAt: seconds(beatAt),
    units,
    ...(lastUnit === undefined ? {} : { lastUnit: { ...lastUnit, endedAt: seconds(lastUnit.endedAt) } }),
    failures,
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: seconds(lastError.at) } }),
    ...(progress === undefined ? {} : { progress: progressJson(progress, left) }),
  };
}

async function findLeft(
  ctx: Context,
  { worker, progress }: HeartbeatRow,
  queues: readonly QueueBacklog[],
): Promise<Left | undefined> {
  const count = counts[worker];
  if (count !== undefined) return count(ctx);
  const { left, oldestSeconds } = progress ?? {};
  if (left !== undefined) return { left, ...(oldestSeconds === undefined ? {} : { oldestSeconds }) };
  const queue = queues.find((each) => each.queue === queueOf[worker]);
  return queue && { left: queue.rows, oldestSeconds: queue.oldestSeconds };
}

const progressJson = ({ of, done, perSecond }: HeartbeatProgress, found: Left | undefined) => ({
  of,
  done,
  perSecond: Math.round(perSecond * 10) / 10,
  ...(found === undefined ? {} : leftJson(found, perSecond)),
});

const leftJson = ({ left, isCut = false, oldestSeconds }: Left, perSecond: number) => ({
  backlog: left,
  ...(isCut ? { isBacklogCut: true } : {}),
  ...(oldestSeconds === undefined ? {} : { oldestSeconds: Math.floor(oldestSeconds) }),
  ...(perSecond === 0 ? {} : { etaSeconds: Math.ceil(left / perSecond) }),
});
