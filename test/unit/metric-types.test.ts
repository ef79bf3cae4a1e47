/** The compiler checks the calls of metrics against their table. */
import { expect, test } from 'vitest';
import { noLabels, silentTelemetry as telemetry } from '../../src/ports/telemetry.ts';

test('a call of a metric compiles with the name, the kind and the labels of its row only', () => {
  telemetry.count('svc_notify_failures_total', { target: 'hook', why: 'refused' }, 2);
  telemetry.set('svc_scrub_damaged', noLabels, undefined);
  telemetry.observe('svc_replication_lag_seconds', { peer: 'far' }, 1);
  telemetry.know('peer', 'far');
  // @ts-expect-error no row has this name
  telemetry.count('svc_nothing_total', {});
  // @ts-expect-error a label is missing
  telemetry.count('svc_notify_failures_total', { target: 'hook' });
  // @ts-expect-error the row has no such label
  telemetry.count('svc_access_log_lines_total', { bucket: 'b' }, 2);
  // @ts-expect-error a label has a value
  telemetry.count('svc_notify_failures_total', { target: 'hook', why: undefined });
  // @ts-expect-error a counter is not set
  telemetry.set('svc_access_log_lines_total', noLabels, 2);
  // @ts-expect-error a counter is not observed
  telemetry.observe('svc_access_log_lines_total', noLabels, 2);
  // @ts-expect-error a gauge is not counted
  telemetry.count('svc_scrub_damaged', noLabels);
  // @ts-expect-error no row is exported at 0 for its buckets
  telemetry.know('bucket', 'b');
  expect(Object.keys(telemetry)).toHaveLength(8);
});
