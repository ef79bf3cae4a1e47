/** The lives of background workers, in metrics. */
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Metrics } from '../metrics.ts';

type Told =
  | 'workerPanicked'
  | 'workerLeads'
  | 'workerUnitEnded'
  | 'workerFailed'
  | 'workerPaused'
  | 'workerProgressed'
  | 'workerEnded';

export const workerTelemetry = (metrics: Metrics): Pick<Telemetry, Told> => ({
  workerPanicked: (worker, shard) => metrics.add('svc_worker_panic_total', [worker, shard]),
  workerLeads: (worker, leads) => {
    metrics.know('worker', worker);
    metrics.set('svc_worker_leader', [worker], leads ? 1 : 0);
  },
  workerUnitEnded: (worker, at) => {
    metrics.add('svc_worker_units_total', [worker]);
    metrics.set('svc_worker_last_unit_timestamp_seconds', [worker], at / 1000);
  },
  workerPaused: (worker, isPaused) => metrics.set('svc_worker_paused', [worker], isPaused ? 1 : 0),
  workerFailed: (worker) => metrics.add('svc_worker_failures_total', [worker]),
  workerProgressed: (worker, { of, done, left, oldestSeconds }) => {
    metrics.add('svc_worker_done_total', [worker, of], done);
    if (left !== undefined) metrics.set('svc_worker_backlog', [worker], left);
    if (oldestSeconds !== undefined) metrics.set('svc_worker_oldest_seconds', [worker], oldestSeconds);
  },
  // Another process shows the values of the worker now.
  workerEnded: (worker) => {
    metrics.remove('svc_worker_backlog', [worker]);
    metrics.remove('svc_worker_oldest_seconds', [worker]);
    metrics.remove('svc_worker_last_unit_timestamp_seconds', [worker]);
  },
});
