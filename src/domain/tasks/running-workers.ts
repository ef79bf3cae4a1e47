/** Which background workers run in some process, by their heartbeats, and which of them operators have paused. */
import type { Context } from '../../context.ts';
import { everyHeartbeat, silentAfterMs } from '../../metadata/background/heartbeats.ts';
import type { HeartbeatRow, LastError } from '../../metadata/records/background/heartbeats.ts';
import { readControls, type WorkerControls } from './worker-controls.ts';

/** The longest pause of a worker between two attempts that fail (`workers/supervision/supervisor.ts`), with a margin. */
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
