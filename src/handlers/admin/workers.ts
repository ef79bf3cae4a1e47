/** Background workers and long tasks. */
import { recordedArn } from '../../auth/principal.ts';
import { fail } from '../../base/errors.ts';
import { type ControlledWorker, controlledWorkers } from '../../config/workers.ts';
import type { Context } from '../../context.ts';
import {
  pauseWorker,
  readWorkers,
  resumeWorker,
  runWorker,
  type WorkerControl,
  type Workers,
} from '../../domain/common/workers.ts';
import { countAllLeft } from '../../domain/inventory/runs.ts';
import { countAllBacklogs } from '../../domain/lifecycle/backlog.ts';
import { type FollowedTask, listTasks } from '../../domain/storage/tasks.ts';
import type { HeartbeatProgress, HeartbeatRow, QueueBacklog } from '../../metadata/records/processes.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { tasksPageDefault } from '../../protocol/admin/workers.ts';
import { type AdminHandler, jsonReply, seconds } from './call.ts';

// The background workers: who leads each, what it did last, and what it has left.

/** The queue that a worker drains. */
const queuesByWorker: Readonly<Record<string, string>> = {
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
  const found = await readWorkers(ctx);
  const { rows, controls } = found;
  const queues = rows.find(({ worker }) => worker === 'queue-retention')?.progress?.queues ?? [];
  const seen = new Set(rows.map(({ worker }) => worker));
  const unseen = controlledWorkers
    .filter((name) => !seen.has(name))
    .map((worker) => {
      const asked = controlJson(controls.get(worker));
      return {
        worker,
        state: asked.paused === undefined ? ('never-ran' as const) : ('paused' as const),
        ...asked,
      };
    });
  const known = await Promise.all(
    rows.map(async (row) => workerJson(row, { found, left: await findLeft(ctx, row, queues) })),
  );
  const workers = [...known, ...unseen];
  return jsonReply({ workers: workers.sort((a, b) => (a.worker < b.worker ? -1 : 1)) });
};

export const RunWorker: AdminHandler<'RunWorker'> = async (ctx, { params, record }) => {
  const worker = workerIn(params);
  return controlReply(ctx, worker, { control: await runWorker(ctx, worker, record), status: 202 });
};

export const PauseWorker: AdminHandler<'PauseWorker'> = async (ctx, { params, body, identity, record }) => {
  const worker = workerIn(params);
  const asked = { by: recordedArn(identity), reason: body.reason, record };
  return controlReply(ctx, worker, { control: await pauseWorker(ctx, worker, asked), status: 200 });
};

export const ResumeWorker: AdminHandler<'ResumeWorker'> = async (ctx, { params, record }) => {
  const worker = workerIn(params);
  return controlReply(ctx, worker, { control: await resumeWorker(ctx, worker, record), status: 200 });
};

/** @throws NotFound */
function workerIn(params: ReadonlyMap<string, string>): ControlledWorker {
  const named = params.get('name') ?? '';
  const worker = controlledWorkers.find((name) => name === named);
  if (worker !== undefined) return worker;
  throw fail('NotFound', `There is no worker ${named}. There are: ${controlledWorkers.join(', ')}.`);
}

async function controlReply(
  ctx: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
  { control, status }: { readonly control: WorkerControl; readonly status: number },
) {
  const { isRunning } = await readWorkers(ctx);
  return jsonReply({ worker, isRunning: isRunning(worker), ...controlJson(control) }, status);
}

const controlJson = ({ paused, runAt }: WorkerControl = {}) => ({
  ...(paused === undefined ? {} : { paused: { ...paused, at: seconds(paused.at) } }),
  ...(runAt === undefined ? {} : { runAt: seconds(runAt) }),
});

/** `failing` comes before the others, because a worker that fails again and again may be between two attempts. */
function workerState(
  row: HeartbeatRow,
  { controls, isSilent }: Workers,
): 'pausing' | 'paused' | 'failing' | 'stopped' | 'silent' | 'busy' | 'idle' {
  const isGone = row.endedAt !== undefined || isSilent(row);
  if (controls.get(row.worker)?.paused !== undefined) return isGone ? 'paused' : 'pausing';
  if (row.failures > 0) return 'failing';
  if (isGone) return row.endedAt === undefined ? 'silent' : 'stopped';
  return row.lastUnit?.outcome === 'busy' ? 'busy' : 'idle';
}

function workerJson(
  row: HeartbeatRow,
  { found, left }: { readonly found: Workers; readonly left: Left | undefined },
) {
  const { worker, process, generation, since, beatAt, units, lastUnit, failures, lastError, progress } = row;
  return {
    worker,
    state: workerState(row, found),
    process,
    ...(generation === 0 ? {} : { generation }),
    since: seconds(since),
    beatAt: seconds(beatAt),
    units,
    ...(lastUnit === undefined ? {} : { lastUnit: { ...lastUnit, endedAt: seconds(lastUnit.endedAt) } }),
    failures,
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: seconds(lastError.at) } }),
    ...(progress === undefined ? {} : { progress: progressJson(progress, left) }),
    ...controlJson(found.controls.get(worker)),
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
  const queue = queues.find((each) => each.queue === queuesByWorker[worker]);
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

// The long tasks of the installation: how far each is, and why it does not go on.

export const ListTasks: AdminHandler<'ListTasks'> = async (ctx, { query }) => {
  const { limit = tasksPageDefault, after, ...filter } = query;
  const { tasks, next } = await listTasks(ctx, filter, { after, limit });
  return jsonReply({ tasks: tasks.map(taskJson), ...(next === undefined ? {} : { next }) });
};

function taskJson({
  counts,
  left,
  perSecond,
  startedAt,
  updatedAt,
  finishedAt,
  lastError,
  ...visible
}: FollowedTask) {
  const { isCut = false, ...amount } = left ?? { count: 0 };
  return {
    ...visible,
    of: counts,
    ...(left === undefined ? {} : { left: amount }),
    ...(isCut ? { isLeftCut: true } : {}),
    ...(perSecond === undefined ? {} : { perSecond: rounded(perSecond) }),
    startedAt: seconds(startedAt),
    updatedAt: seconds(updatedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: seconds(lastError.at) } }),
  };
}

const rounded = ({ count, bytes }: TaskAmount): TaskAmount => ({
  count: Math.round(count * 10) / 10,
  ...(bytes === undefined ? {} : { bytes: Math.round(bytes) }),
});
