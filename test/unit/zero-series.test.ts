/** The series that alerts watch exist before their first event. */
import { expect, test } from 'vitest';
import { zeroSets } from '../../src/telemetry/measurement.ts';
import { type Measurement, measurements } from '../../src/telemetry/metrics.ts';
import { promMetrics } from '../../src/telemetry/prom-client.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';

const names = { peer: 'far', provider: 'transit', target: 'hook', worker: 'notify' } as const;

test('every label set that the table of metrics names is exported at 0, once peers, providers, targets and workers are known', async () => {
  const metrics = promMetrics({ version: '1', runtime: 'test', process: false });
  const telemetry = createTelemetry({ log: () => {}, metrics });
  telemetry.peersKnown([names.peer]);
  telemetry.keyCircuit(names.provider, 'closed');
  telemetry.workerLeads(names.worker, false);
  metrics.know('target', names.target);
  const known = new Map(Object.entries(names).map(([label, value]) => [label, new Set([value])]));
  const text = await metrics.text();
  const expected = Object.entries<Measurement>(measurements).flatMap(([name, row]) =>
    zeroSets(row, known).map((values) => {
      const labels = row.labels.map((label, index) => `${label}="${values[index]}"`).join(',');
      return `${name}${row.kind === 'histogram' ? '_count' : ''}{${labels}} 0`;
    }),
  );
  expect(expected).toContain('svc_notify_dead_letters_total{target="hook"} 0');
  expect(expected).toContain('svc_backend_errors_total{call="data.read",why="damaged"} 0');
  expect(expected.filter((line) => !text.includes(`${line}\n`))).toEqual([]);
});

test('a name that is not known has no series, and one that is told again keeps what was counted', async () => {
  const metrics = promMetrics({ version: '1', runtime: 'test', process: false });
  expect(await metrics.text()).not.toContain('svc_notify_dead_letters_total{');
  metrics.know('target', 'hook');
  metrics.add('svc_notify_dead_letters_total', ['hook']);
  metrics.know('target', 'hook');
  expect(await metrics.text()).toContain('svc_notify_dead_letters_total{target="hook"} 1\n');
});

test('no gauge of the process is named like a counter', async () => {
  const metrics = promMetrics({ version: '1', runtime: 'test' });
  const gauges = [...(await metrics.text()).matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name);
  expect(gauges).toContain('nodejs_active_resources');
  expect(gauges.filter((name) => name?.endsWith('_total'))).toEqual([]);
});
