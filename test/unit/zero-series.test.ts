/** The series that alerts watch exist before their first event. */
import { expect, test } from 'vitest';
import type { MetricRow } from '../../src/metrics/metric-row.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { measureRuntime } from '../../src/runtime/processes/node-telemetry.ts';
import { createMetricRegistry, zeroSets } from '../../src/telemetry/metric-registry.ts';

const names = { peer: 'far', provider: 'transit', target: 'hook', worker: 'notify' } as const;

test('every label set that the table of metrics names is exported at 0, once peers, providers, targets and workers are known', async () => {
  const metrics = createMetricRegistry({ version: '1', runtime: 'test' });
  measureRuntime(metrics);
  for (const label of ['peer', 'provider', 'target', 'worker'] as const) metrics.know(label, names[label]);
  const known = new Map(Object.entries(names).map(([label, value]) => [label, new Set([value])]));
  const text = await metrics.metrics();
  const expected = Object.entries<MetricRow>(metricTable).flatMap(([name, row]) =>
    zeroSets(row, known).map((values) => {
      const labels = row.labels.map((label) => `${label}="${values[label]}"`).join(',');
      return `${name}${row.kind === 'histogram' ? '_count' : ''}{${labels}} 0`;
    }),
  );
  expect(expected).toContain('svc_notify_dead_letters_total{target="hook"} 0');
  expect(expected).toContain('svc_backend_errors_total{call="data.read",why="damaged"} 0');
  expect(expected.filter((line) => !text.includes(`${line}\n`))).toEqual([]);
});

test('a name that is not known has no series, and one that is told again keeps what was counted', async () => {
  const metrics = createMetricRegistry({ version: '1', runtime: 'test' });
  measureRuntime(metrics);
  expect(await metrics.metrics()).not.toContain('svc_notify_dead_letters_total{');
  metrics.know('target', 'hook');
  metrics.count('svc_notify_dead_letters_total', { target: 'hook' });
  metrics.know('target', 'hook');
  expect(await metrics.metrics()).toContain('svc_notify_dead_letters_total{target="hook"} 1\n');
});

test('no gauge of the process is named like a counter', async () => {
  const metrics = createMetricRegistry({ version: '1', runtime: 'test' });
  measureRuntime(metrics);
  const gauges = [...(await metrics.metrics()).matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name);
  expect(gauges).toContain('nodejs_active_resources');
  expect(gauges.filter((name) => name?.endsWith('_total'))).toEqual([]);
});
