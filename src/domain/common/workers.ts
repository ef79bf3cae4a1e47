/** Which background workers run in some process, by their heartbeats, and which of them operators have paused. */
import { fail } from '../../base/errors.ts';
import { type ControlledWorker, controlledWorkers } from '../../config/workers.ts';
import type { Context } from '../../context.ts';
import { everyHeartbeat, silentAfterMs } from '../../metadata/background/heartbeats.ts';
import {
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  type Task,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import type { HeartbeatRow, LastError } from '../../metadata/records/processes.ts';
import { undefinedIfDamaged } from '../../metadata/sound-rows.ts';
import type { MetadataDamaged } from '../../ports/metadata-store.ts';
import { type Recorder, recorded } from './recorder.ts';

/** The longest pause of a worker between two attempts that fail (`workers/supervisor.ts`), with a margin. */
const retryMs = 3 * 60_000;
/** A worker that was resumed runs again within this time. */
const resumedMs = 5_000;

export interface Workers {
  /** Of workers without a lease every row, of others that of the latest leader. */
  readonly rows: readonly HeartbeatRow[];
  readonly controls: WorkerControls;
  /** Store time (ms). */
  readonly now: number;
  isSilent(row: HeartbeatRow): boolean;
  /** Whether a process runs the worker, or tries it again after a failure. */
  isRunning(worker: string): boolean;
  lastError(worker: string): LastError | undefined;
}

export async function readWorkers({ metadata }: Pick<Context, 'metadata'>): Promise<Workers> {
  const found: HeartbeatRow[] = [];
  for await (const row of everyHeartbeat(metadata)) found.push(row);
  const controls = await readControls({ metadata });
  const now = await metadata.now();
  const silentMs = silentAfterMs(metadata);
  const rows = [...found.filter(({ generation }) => generation === 0), ...leaders(found)];
  const isSilent = ({ beatAt }: HeartbeatRow): boolean => now - beatAt > silentMs;
  return {
    rows,
    controls,
    now,
    isSilent,
    isRunning: (worker) =>
      rows.some((row) => {
        if (row.worker !== worker) return false;
        if (row.endedAt === undefined) return !isSilent(row);
        if (row.failures > 0 && now - row.beatAt < retryMs) return true;
        return now - (controls.get(worker)?.resumedAt ?? 0) < resumedMs;
      }),
    lastError: (worker) =>
      rows
        .filter((row) => row.worker === worker)
        .flatMap(({ lastError }) => lastError ?? [])
        .reduce<LastError | undefined>(
          (latest, each) => (latest === undefined || each.at > latest.at ? each : latest),
          undefined,
        ),
  };
}

/** Of a worker with a lease, the process with the latest one. */
function leaders(rows: readonly HeartbeatRow[]): readonly HeartbeatRow[] {
  const latest = new Map<string, HeartbeatRow>();
  for (const row of rows)
    if (row.generation > (latest.get(row.worker)?.generation ?? 0)) latest.set(row.worker, row);
  return [...latest.values()];
}

// What operators ask of the background workers: to pause, to resume, to run now. A row for each worker holds it, so that it survives
// restarts and reaches every process; the processes read the rows every two seconds, or after a commit where the store reports
// commits (`workers/controls.ts`).

interface WorkerPause {
  /** The ARN of the operator; `sluice` where the row was damaged. */
  readonly by: string;
  /** Store time (ms). */
  readonly at: number;
  readonly reason?: string;
}

export interface WorkerControl {
  readonly paused?: WorkerPause;
  /** Store time (ms) at which it was last resumed. */
  readonly resumedAt?: number;
  /** Store time (ms) of the last request to run now. A pass that began before it does not answer it. */
  readonly runAt?: number;
}
const controls: TaskKind<WorkerControl> = { kind: 'worker-controls' };

export type WorkerControls = ReadonlyMap<string, WorkerControl>;

const hourMs = 60 * 60_000;
/** A pause of this length is a warning in the health of the installation. */
const longMs = hourMs;

/** Attempts against operators who change the row concurrently. */
const attemptsMax = 8;

/** Reads the controls of all workers, and writes damaged ones again (`findControl`). */
export async function readControls({ metadata }: Pick<Context, 'metadata'>): Promise<WorkerControls> {
  const found = new Map<string, WorkerControl>();
  const damaged: MetadataDamaged[] = [];
  const onDamaged = (each: MetadataDamaged): void => void damaged.push(each);
  for await (const { name, state } of everyTask(metadata, controls, { onDamaged })) found.set(name, state);
  for (const worker of controlledWorkers) {
    // Look up only the workers that a damaged row names: beside a damaged row, a look-up of an absent row throws too. The first part
    // of a row's text is its kind, which may also be the name of a worker, so only later parts count.
    if (!damaged.some(({ row }) => row.split(/[^a-z-]+/).lastIndexOf(worker) > 0)) continue;
    const control = await findControl({ metadata }, worker).catch(undefinedIfDamaged);
    if (control !== undefined) found.set(worker, control.state);
  }
  return found;
}

/**
 * A damaged row is written again as a pause, because it may have been one: an operator may have paused `gc` or `force-empty` to keep
 * data. The worker rests until it is resumed.
 */
const findControl = (
  { metadata }: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
): Promise<Task<WorkerControl> | undefined> =>
  findSoundTask(metadata, controls, worker, async () => ({
    paused: { by: 'sluice', at: await metadata.now(), reason: 'the row of its pause was damaged' },
  }));

/** A sentence for each worker that has been paused for an hour or longer. */
export async function readLongPauses({ metadata }: Pick<Context, 'metadata'>): Promise<readonly string[]> {
  const controls = await readControls({ metadata });
  const now = await metadata.now();
  return [...controls].flatMap(([worker, { paused }]) => {
    if (paused === undefined || now - paused.at < longMs) return [];
    const hours = Math.floor((now - paused.at) / hourMs);
    const why = paused.reason === undefined ? '' : `: ${paused.reason}`;
    return [`the worker ${worker} has been paused for ${hours} h by ${paused.by}${why}`];
  });
}

const auditedState = ({ paused }: WorkerControl) => ({ state: paused === undefined ? 'active' : 'paused' });

type Change = (former: WorkerControl, now: number) => WorkerControl;

async function changeControl(
  { metadata }: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
  { change, record }: { readonly change: Change; readonly record: Recorder | undefined },
): Promise<WorkerControl> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    // Damaged controls become pauses there. A look-up that finds none must write none: it fails beside any damaged row.
    await readControls({ metadata });
    const found = await findTask(metadata, controls, worker);
    const former = found?.state ?? {};
    const state = change(former, await metadata.now());
    record?.change?.(auditedState(former), auditedState(state));
    const expect = found?.revision ?? 'absent';
    const then = await recorded(record);
    if (!(await putTask(metadata, controls, { name: worker, state, expect, then })).applied) continue;
    record?.applied();
    return state;
  }
  throw fail('OperationAborted');
}

interface Asked {
  readonly by: string;
  readonly reason?: string | undefined;
  readonly record: Recorder | undefined;
}

/** A worker that is paused already keeps its pause: who paused it first, when and why. */
export const pauseWorker = (
  ctx: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
  { by, reason, record }: Asked,
): Promise<WorkerControl> =>
  changeControl(ctx, worker, {
    record,
    change: (former, at) => ({
      ...former,
      paused: former.paused ?? { by, at, ...(reason === undefined ? {} : { reason }) },
    }),
  });

/** Does nothing to a worker that is not paused. */
export const resumeWorker = (
  ctx: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
  record: Recorder | undefined,
): Promise<WorkerControl> =>
  changeControl(ctx, worker, {
    record,
    change: ({ paused, ...former }, now) => (paused === undefined ? former : { ...former, resumedAt: now }),
  });

/** @throws InvalidRequest while the worker is paused */
export const runWorker = (
  ctx: Pick<Context, 'metadata'>,
  worker: ControlledWorker,
  record: Recorder | undefined,
): Promise<WorkerControl> =>
  changeControl(ctx, worker, {
    record,
    change(former, runAt) {
      if (former.paused !== undefined)
        throw fail('InvalidRequest', `The worker ${worker} is paused: resume it, and it runs at once.`);
      return { ...former, runAt };
    },
  });
