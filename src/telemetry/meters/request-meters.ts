/** The meters of requests, found once for each operation and status: then a request costs a few additions. */
import type { Meter, Metrics, TallyMeter } from '../metrics.ts';

export interface RequestMeters {
  readonly total: Meter;
  readonly operation: Meter;
  readonly duration: TallyMeter;
}

/** Operations and statuses come from tables, so their number is bounded. */
export function requestMeters(metrics: Metrics): (operation: string, status: number) => RequestMeters {
  const known = new Map<string, Map<number, RequestMeters>>();
  return (operation, status) => {
    let byStatus = known.get(operation);
    if (byStatus === undefined) {
      byStatus = new Map();
      known.set(operation, byStatus);
    }
    let found = byStatus.get(status);
    if (found === undefined) {
      const code = String(status);
      found = {
        total: metrics.meter('svc_http_requests_total', [code]),
        operation: metrics.meter('svc_http_operations_total', [operation, code]),
        duration: metrics.tally('svc_http_request_duration_seconds', [operation]),
      };
      byStatus.set(status, found);
    }
    return found;
  };
}
