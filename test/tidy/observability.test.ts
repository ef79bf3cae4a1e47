/** `deploy/observability` agrees with the table of metrics, the runbook and the compose files. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { dashboards, renderDashboard } from '../../docs/dashboards.ts';
import type { MetricRow } from '../../src/metrics/metric-row.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { sourceFiles } from './source-files.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const rulesText = read('deploy/observability/rules.yaml');

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}
const alerts = (
  parse(rulesText) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] }
).groups
  .flatMap(({ rules }) => rules)
  .filter(({ alert }) => alert !== undefined);

test('the dashboards are those that `npm run docs` makes of the table', () => {
  const stale = dashboards.filter(
    (each) => read(`deploy/observability/dashboards/${each.file}.json`) !== renderDashboard(each),
  );
  expect(stale.map(({ file }) => `${file}.json is stale: run npm run docs`)).toEqual([]);
});

test('every alert has a severity, a summary, a section of the runbook, and a test of promtool', () => {
  const sections = [...read('docs/runbook.md').matchAll(/^## (\w+)$/gm)].map(([, name]) => name);
  const tested = read('deploy/observability/rules.test.yaml');
  for (const { alert = '', labels, annotations } of alerts) {
    expect(['page', 'ticket'], alert).toContain(labels?.['severity']);
    expect(annotations?.['summary'], alert).toBeDefined();
    expect(annotations?.['runbook_url']).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
    expect(sections).toContain(alert);
    expect(tested).toContain(`alertname="${alert}"`);
  }
  const named = new Set(alerts.map(({ alert }) => alert));
  expect(sections.filter((name) => /^Sluice/.test(name ?? '') && !named.has(name))).toEqual([]);
});

test('the runbook has a row for each message of SlowDown', () => {
  const messages = sourceFiles()
    .filter((path) => !path.startsWith('src/runtime/testing/'))
    .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/fail\(\s*'SlowDown',\s*['`]([^'`$]+)/g)])
    .map(([, message = '']) => message.trim());
  expect(messages.length).toBeGreaterThan(8);
  const section = read('docs/runbook.md').split('## The limits behind SlowDown')[1]?.split('\n## ')[0] ?? '';
  expect(messages.filter((message) => !section.includes(message))).toEqual([]);
});

test('every metric of the table is counted somewhere', () => {
  const source = sourceFiles()
    .filter((path) => !path.startsWith('src/metrics/'))
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  expect(Object.keys(metricTable).filter((name) => !source.includes(`'${name}'`))).toEqual([]);
});

test('rules, dashboards, runbook and operations name only metrics that exist', () => {
  const rows: Readonly<Record<string, MetricRow>> = metricTable;
  const texts = [
    rulesText,
    read('docs/runbook.md'),
    ...readdirSync(join(root, 'docs/operations')).map((name) => read(join('docs/operations', name))),
    ...dashboards.map(renderDashboard),
  ];
  const named = texts.flatMap((text) => [...text.matchAll(/\bsvc_[a-z0-9_]+/g)].map(([name]) => name));
  const unknown = named.filter((name) => {
    const base = name.replace(/_(?:bucket|count|sum)$/, '');
    return !(name in rows) && rows[base]?.kind !== 'histogram';
  });
  expect(unknown).toEqual([]);
});

test('rules, their tests and dashboards select labels that their metrics have, by values that the gateway writes', () => {
  const rows: Readonly<Record<string, MetricRow>> = metricTable;
  const source = sourceFiles()
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  const added = new Set(['job', 'instance', 'le']);
  /** Values of these labels are names of others: buckets, peers, versions. */
  const free = new Set([
    'bucket',
    'name',
    'owner',
    'peer',
    'destination',
    'target',
    'cluster',
    'pool',
    'version',
    'code',
  ]);
  const tests = read('deploy/observability/rules.test.yaml');
  const texts = [rulesText, tests, ...dashboards.map(renderDashboard)].map((text) =>
    text.replaceAll('\\"', '"'),
  );
  const wrong = texts
    .flatMap((text) => [...text.matchAll(/\b(svc_[a-z0-9_]+?)(?:_bucket|_count|_sum)?\{([^}]*)\}/g)])
    .flatMap(([, name = '', inner = '']) =>
      [...inner.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)].flatMap(([, label = '', values = '']) => {
        if (added.has(label)) return [];
        const row = rows[name] ?? rows[`${name}_count`];
        if (row?.labels.includes(label) !== true) return [`${name} has no label ${label}`];
        return free.has(label)
          ? []
          : values
              .split('|')
              .filter((value) => /^[\w.-]+$/.test(value) && !new RegExp(`\\b${value}\\b`).test(source))
              .map((value) => `${name} has no ${label} "${value}"`);
      }),
    );
  expect(wrong).toEqual([]);
});

interface RuleTest {
  readonly input_series: readonly { readonly series: string; readonly values: string }[];
  readonly promql_expr_test: readonly { readonly expr: string; readonly exp_samples: readonly unknown[] }[];
}
const ruleTests = (parse(read('deploy/observability/rules.test.yaml')) as { tests: readonly RuleTest[] })
  .tests;

/** The counters whose changes an expression asks for, with its recorded rules resolved: `svc_x_total{why=~"a|b"}`. */
function changesIn(expr: string): readonly { readonly name: string; readonly selector: string }[] {
  const recorded = (parse(rulesText) as { groups: readonly { rules: readonly Rule[] }[] }).groups.flatMap(
    ({ rules }) => rules.filter(({ record }) => record !== undefined && expr.includes(record)),
  );
  const whole = [expr, ...recorded.map((rule) => rule.expr)].join(' ');
  return [
    ...whole.matchAll(/(?:rate|increase)\((svc_[a-z0-9_]+?)(?:_bucket|_count)?(?:\{([^}]*)\})?\[/g),
  ].map(([, name = '', selector = '']) => ({ name, selector }));
}
const counting = alerts.flatMap(({ alert = '', expr = '' }) => {
  const changes = changesIn(expr);
  return changes.length === 0 ? [] : [{ alert, changes }];
});

test('a series of a counter that an alert watches exists before its first event: each label has values from the start', () => {
  expect(counting.length).toBeGreaterThan(10);
  const rows: Readonly<Record<string, MetricRow>> = metricTable;
  const missing = counting.flatMap(({ alert, changes }) =>
    changes.flatMap(({ name, selector }) => {
      const { labels = [], from0 = {} } = rows[name] ?? {};
      const without = labels.filter((label) => from0[label] === undefined);
      const selected = [...selector.matchAll(/(\w+)(?:=~|=)"([\w|-]+)"/g)].flatMap(
        ([, label = '', values = '']) =>
          values.split('|').filter((value) => from0[label] !== undefined && !from0[label].includes(value)),
      );
      return [...without, ...selected.filter((value) => !/^[\d.]+$/.test(value))].map(
        (what) => `${alert}: ${name} is not exported at 0 for ${what}`,
      );
    }),
  );
  expect(missing).toEqual([]);
});

test('an alert about a counter has a test of promtool in which it fires for the first events after a start', () => {
  const untested = counting.filter(({ alert, changes }) => {
    const names = changes.map(({ name }) => name);
    return !ruleTests.some(
      ({ input_series, promql_expr_test }) =>
        promql_expr_test.some(
          ({ expr, exp_samples }) => expr.includes(`alertname="${alert}"`) && exp_samples.length > 0,
        ) &&
        input_series.some(
          ({ series, values }) =>
            names.some((name) => series.startsWith(name)) && /^0x\d+ [1-9]\d*(?:x|\+)/.test(values),
        ),
    );
  });
  expect(untested.map(({ alert }) => alert)).toEqual([]);
});

interface Service {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly secrets?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: object;
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets: object;
}
const compose = parse(read('deploy/observability/compose.yaml')) as Compose;
const mountsOf = (name: string): ReadonlyMap<string, string> =>
  new Map(
    (compose.services[name]?.volumes ?? []).map((volume) => {
      const [from = '', to = ''] = volume.split(':');
      return [to, from];
    }),
  );

test('a dashboard shows the fullest disk of several nodes, a start as a time, and a drift that is negative', () => {
  const panels = dashboards.flatMap(
    ({ file }) => JSON.parse(read(`deploy/observability/dashboards/${file}.json`)).panels,
  );
  const shown = (title: string) => {
    const { fieldConfig, targets } = panels.find((panel) => panel.title === title);
    return [targets[0].expr, fieldConfig.defaults];
  };
  expect(shown('svc_disk_free_bytes')).toEqual([
    'min by (component) (svc_disk_free_bytes{job=~"$job"})',
    { unit: 'bytes', min: 0 },
  ]);
  expect(shown('process_start_time_seconds')).toEqual([
    'min (process_start_time_seconds{job=~"$job"}) * 1000',
    { unit: 'dateTimeFromNow', min: 0 },
  ]);
  expect(shown('svc_quota_reconcile_drift_bytes')[1]).toEqual({ unit: 'bytes' });
});

test('what the compose file of the observability mounts is there, and its images are pinned', () => {
  expect(Object.keys(compose.secrets)).toEqual(['metrics_token']);
  for (const [name, { image }] of Object.entries(compose.services)) {
    if (image !== undefined) expect(image).toMatch(/^[a-z/]+:v?\d+\.\d+\.\d+$/);
    for (const from of mountsOf(name).values())
      if (from.startsWith('.')) expect(existsSync(join(root, 'deploy', from)), from).toBe(true);
  }
});

test('Prometheus in the compose file finds its rules, its token and the gateway of every deployment', () => {
  const { rule_files, scrape_configs } = parse(read('deploy/observability/prometheus.yaml'));
  const mounts = mountsOf('prometheus');
  const { command = [], secrets = [] } = compose.services['prometheus'] as Service;
  const file = command.find((each) => each.startsWith('--config.file='))?.split('=')[1] ?? '';
  expect(mounts.get(file)).toBe('./observability/prometheus.yaml');
  for (const each of rule_files) expect(mounts.get(join(file, '..', each))).toBe(`./observability/${each}`);
  const [{ job_name, authorization, static_configs }] = scrape_configs;
  expect(job_name).toBe('sluice');
  expect(secrets.map((each) => `/run/secrets/${each}`)).toEqual([authorization.credentials_file]);
  for (const each of ['tikv', 'cassandra', 'ceph-tikv', 'ceph-cassandra']) {
    const { services } = parse(read(`deploy/${each}.yaml`)) as Compose;
    const [host = '', port] = static_configs[0].targets[0].split(':');
    expect([each, services[host]?.environment?.['SVC_LISTEN']]).toEqual([each, `0.0.0.0:${port}`]);
    const known = [...Object.keys(services), ...Object.keys(compose.services)];
    for (const { depends_on = {} } of Object.values(compose.services))
      expect(Object.keys(depends_on).filter((name) => !known.includes(name))).toEqual([]);
  }
});

test('Grafana in the compose file is provisioned with that Prometheus and these dashboards', () => {
  const mounts = mountsOf('grafana');
  const mounted = (kind: string): unknown => {
    const [to, from] =
      [...mounts].find(([each]) => each.startsWith(`/etc/grafana/provisioning/${kind}/`)) ?? [];
    expect(to).toMatch(/\.yaml$/);
    return parse(read(join('deploy', from ?? '')));
  };
  const { datasources } = mounted('datasources') as { datasources: readonly Record<string, unknown>[] };
  expect(datasources).toEqual([
    expect.objectContaining({ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }),
  ]);
  const { providers } = mounted('dashboards') as {
    providers: readonly { readonly options: { readonly path: string } }[];
  };
  expect(providers.map(({ options }) => mounts.get(options.path))).toEqual(['./observability/dashboards']);
  const uids = new Set<string>();
  for (const { file } of dashboards) {
    const { uid, title, panels, templating } = JSON.parse(
      read(`deploy/observability/dashboards/${file}.json`),
    );
    expect([typeof title, panels.length > 0]).toEqual(['string', true]);
    expect(uid.length).toBeLessThanOrEqual(40);
    uids.add(uid);
    const [variable] = templating.list;
    expect(variable).toMatchObject({ type: 'datasource', query: 'prometheus' });
    const ids = panels.map(({ id }: { readonly id: number }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { datasource, targets, gridPos } of panels) {
      expect(datasource).toEqual({ type: 'prometheus', uid: `\${${variable.name}}` });
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (const target of targets) expect(target.datasource).toEqual(datasource);
    }
  }
  expect(uids.size).toBe(dashboards.length);
});
