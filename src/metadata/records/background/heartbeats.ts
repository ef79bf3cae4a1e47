/** The record of a background worker that runs in a process: what it did last, and what it has left. */
import { table } from '../../../ports/metadata-store.ts';
import type { QueueBacklog } from '../../../ports/telemetry.ts';

export interface HeartbeatRow {
  /** Always 0: one scan reads them all. */
  readonly slot: number;
  /** Empty in the row of the process itself, whose `beatAt` holds for all its workers that have not ended. */
  readonly worker: string;
  /** The host and process id. */
  readonly process: string;
  /** Of the worker's lease; 0 for a worker that runs in every process. */
  readonly generation: number;
  /** When the worker began in this process, by the clock of the process (ms), as all times here but `beatAt`. */
  readonly since: number;
  /** Store time (ms) of the last write of this row; a row that has little news is written less often than that of its process. */
  readonly beatAt: number;
  readonly endedAt?: number;
  /** Units of work that have ended. */
  readonly units: number;
  readonly lastUnit?: LastUnit;
  /** Failures in a row. */
  readonly failures: number;
  readonly lastError?: LastError;
  readonly progress?: HeartbeatProgress;
}
export interface LastUnit {
  readonly endedAt: number;
  readonly tookMs: number;
  readonly outcome: 'busy' | 'idle';
}
export interface LastError {
  readonly at: number;
  readonly message: string;
}
export interface HeartbeatProgress {
  /** What is counted, for example `objects`. */
  readonly of: string;
  readonly done: number;
  /** Over the last minute. */
  readonly perSecond: number;
  readonly left?: number;
  /** How long the oldest of them has waited. */
  readonly oldestSeconds?: number;
  /** Of `queue-retention`, which counts the rows of every queue. */
  readonly queues?: readonly QueueBacklog[];
}
export const heartbeats = table<HeartbeatRow>()({
  name: 'worker_heartbeats',
  kind: 'plain',
  partition: ['slot'],
  sort: ['worker', 'process'],
  columns: {
    slot: 'int',
    worker: 'text',
    process: 'text',
    generation: 'int',
    since: 'int',
    beatAt: 'int',
    endedAt: 'int',
    units: 'int',
    lastUnit: 'json',
    failures: 'int',
    lastError: 'json',
    progress: 'json',
  },
});
