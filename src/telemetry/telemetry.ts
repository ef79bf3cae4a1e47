/** Logs and metrics behind the one port that the service speaks to. */
import type { Telemetry } from '../ports/telemetry.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import { deliveryTelemetry } from './parts/deliveries.ts';
import { engineTelemetry } from './parts/engines.ts';
import { requestTelemetry } from './parts/requests.ts';
import { storageTelemetry } from './parts/storage.ts';
import { workerTelemetry } from './parts/workers.ts';

interface TelemetryParts {
  readonly log: Log;
  readonly metrics: Metrics;
  /** How many buckets have labels of their own, as SVC_BUCKETSTATS_TOPN. */
  readonly busiestMax?: number;
}

export const createTelemetry = ({ log, metrics, busiestMax = 100 }: TelemetryParts): Telemetry => ({
  log,
  ...requestTelemetry(metrics, busiestMax),
  ...engineTelemetry(metrics),
  ...storageTelemetry(metrics),
  ...workerTelemetry(metrics),
  ...deliveryTelemetry(metrics),
});
