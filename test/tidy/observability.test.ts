/** `deploy/observability` agrees with the table of metrics, the runbook and the compose files. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { dashboards, renderDashboard } from '../../docs/dashboards.ts';
import { type Measurement, measurements } from '../../src/telemetry/metrics.ts';
import { sourceFiles } from './source-files.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const rulesText = read('deploy/observability/rules.yaml');

interface Rule {
  readonly alert?: string;
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

test('rules, dashboards, runbook and operations name only metrics that exist', () => {
  const rows: Readonly<Record<string, Measurement>> = measurements;
  const texts = [
    rulesText,
    read('docs/runbook.md'),
    read('docs/operations.md'),
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
  const rows: Readonly<Record<string, Measurement>> = measurements;
  const source = sourceFiles()
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  const added = new Set(['job', 'instance', 'le']);
  /** Values of these labels are names of others: buckets, peers, versions. */
  const free = new Set([
    'bucket',
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

test('what the compose file of the observability mounts is there, and its images are pinned', () => {
  const { services, secrets } = parse(read('deploy/observability/compose.yaml')) as {
    readonly services: Readonly<
      Record<string, { readonly image?: string; readonly volumes?: readonly string[] }>
    >;
    readonly secrets: object;
  };
  expect(Object.keys(secrets)).toEqual(['metrics_token']);
  for (const { image, volumes = [] } of Object.values(services)) {
    if (image !== undefined) expect(image).toMatch(/^[a-z/]+:v?\d+\.\d+\.\d+$/);
    for (const [from = ''] of volumes.map((volume) => volume.split(':')))
      if (from.startsWith('.')) expect(existsSync(join(root, 'deploy', from)), from).toBe(true);
  }
});
