/**
 * Writes the dashboards of `deploy/observability/dashboards` from the table of metrics: a dashboard for each group of
 * measurements, with a panel for each, and an overview. A tidy test wants them up to date.
 */
import { writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import type { MetricRow } from '../src/metrics/metric-row.ts';
import { metricGroups } from '../src/metrics/metrics.ts';

interface Query {
  readonly expr: string;
  readonly legend: string;
}

export interface Panel {
  readonly title: string;
  readonly description: string;
  readonly unit: string;
  readonly queries: readonly Query[];
}

export interface Dashboard {
  readonly file: string;
  readonly title: string;
  readonly panels: readonly Panel[];
}

const at = '{job=~"$job"}';
const rate = (name: string, matchers = ''): string =>
  `rate(${name}{job=~"$job"${matchers}}[$__rate_interval])`;
const by = (labels: readonly string[]): string => (labels.length === 0 ? '' : ` by (${labels.join(', ')})`);
const legend = (labels: readonly string[], more = ''): string =>
  [...labels.map((label) => `{{${label}}}`), more].filter((text) => text !== '').join(' ') || 'all';

const isTime = (name: string): boolean => /_(?:timestamp|start_time)_seconds$/.test(name);

const unitOf = (name: string, kind: MetricRow['kind']): string => {
  if (isTime(name)) return 'dateTimeFromNow';
  if (/_ratio$/.test(name)) return 'percentunit';
  if (/_seconds$/.test(name)) return 's';
  if (/_bytes$/.test(name)) return 'bytes';
  if (/_bytes_total$/.test(name)) return 'Bps';
  return kind === 'counter' ? 'cps' : 'short';
};

function queriesFor(name: string, { kind, labels, across = 'sum' }: MetricRow): readonly Query[] {
  switch (kind) {
    case 'counter':
      return [{ expr: `sum${by(labels)} (${rate(name)})`, legend: legend(labels) }];
    case 'gauge': {
      // Grafana reads times in milliseconds.
      const scale = isTime(name) ? ' * 1000' : '';
      const over = across === 'first' ? 'max' : across;
      return [{ expr: `${over}${by(labels)} (${name}${at})${scale}`, legend: legend(labels) }];
    }
    case 'histogram':
      return [0.5, 0.99].map((quantile) => ({
        expr: `histogram_quantile(${quantile}, sum${by(['le', ...labels])} (${rate(`${name}_bucket`)}))`,
        legend: legend(labels, `p${quantile * 100}`),
      }));
  }
}

const panelFor = ([name, row]: readonly [string, MetricRow]): Panel => ({
  title: name,
  description: `${row.doc} ${row.act}`,
  unit: unitOf(name, row.kind),
  queries: queriesFor(name, row),
});

const panel = (title: string, unit: string, queries: Readonly<Record<string, string>>): Panel => ({
  title,
  description: '',
  unit,
  queries: Object.entries(queries).map(([text, expr]) => ({ expr, legend: text })),
});

const overview: readonly Panel[] = [
  panel('Requests by status', 'reqps', {
    '{{code}}': `sum by (code) (${rate('svc_http_requests_total')})`,
  }),
  panel('Share of failed requests', 'percentunit', {
    'failed (5xx)': `(sum(${rate('svc_http_requests_total', ',code=~"5..",code!="501"')}) or vector(0)) / sum(${rate('svc_http_requests_total')})`,
  }),
  panel('Time to the head of the reply', 's', {
    p50: `histogram_quantile(0.5, sum by (le) (${rate('svc_http_request_duration_seconds_bucket')}))`,
    p99: `histogram_quantile(0.99, sum by (le) (${rate('svc_http_request_duration_seconds_bucket')}))`,
  }),
  panel('Bytes', 'Bps', {
    received: `sum(${rate('svc_http_received_bytes_total')})`,
    sent: `sum(${rate('svc_http_sent_bytes_total')})`,
  }),
  panel('Busiest buckets', 'reqps', {
    '{{bucket}} of {{account}}': `topk(10, sum by (bucket, account) (${rate('svc_bucket_requests_total')}))`,
  }),
  panel('Slowest operations (p99)', 's', {
    '{{operation}}': `topk(10, histogram_quantile(0.99, sum by (le, operation) (${rate('svc_http_request_duration_seconds_bucket')})))`,
  }),
  panel('Free share of disks', 'percentunit', {
    '{{instance}} {{component}}': `svc_disk_free_bytes${at} / svc_disk_size_bytes${at}`,
  }),
  panel('Memory against its limit', 'percentunit', {
    '{{instance}}': `sum by (instance) (svc_memory_bytes{job=~"$job",kind="anonymous"}) / sum by (instance) (svc_memory_limit_bytes${at})`,
  }),
  panel('CPU', 'cores', { '{{instance}}': `sum by (instance) (${rate('process_cpu_seconds_total')})` }),
  panel('Longest delay of the event loop', 's', {
    '{{instance}}': `max by (instance) (svc_event_loop_lag_seconds${at})`,
  }),
  panel('Failed calls to backends', 'cps', {
    '{{call}} {{why}}': `sum by (call, why) (${rate('svc_backend_errors_total')})`,
  }),
  panel('Workers: leaders', 'short', { '{{worker}}': `max by (worker) (svc_worker_leader${at})` }),
  panel('Queues: age of the oldest task', 's', {
    '{{queue}}': `max by (queue) (svc_queue_oldest_seconds${at})`,
  }),
  panel('Garbage that waits', 'short', { '{{cluster}}': `max by (cluster) (svc_gc_backlog${at})` }),
  panel('Hit rate of caches', 'percentunit', {
    '{{cache}}': `sum by (cache) (${rate('svc_cache_hits_total')}) / (sum by (cache) (${rate('svc_cache_hits_total')}) + sum by (cache) (${rate('svc_cache_misses_total')}))`,
  }),
  panel('Certificates expire', 'dateTimeFromNow', {
    '{{setting}}': `min by (setting) (svc_certificate_not_after_timestamp_seconds${at}) * 1000`,
  }),
];

const titles: Readonly<Record<keyof typeof metricGroups, readonly [file: string, title: string]>> = {
  requests: ['requests', 'Requests'],
  storage: ['storage', 'Storage'],
  workers: ['workers', 'Workers'],
  deliveries: ['replication', 'Replication and notifications'],
  engines: ['engines', 'Engines and processes'],
  processes: ['runtime', 'Process and runtime'],
};

export const dashboards: readonly Dashboard[] = [
  { file: 'overview', title: 'Overview', panels: overview },
  ...(Object.keys(titles) as (keyof typeof titles)[]).map((group) => ({
    file: titles[group][0],
    title: titles[group][1],
    panels: Object.entries<MetricRow>(metricGroups[group]).map(panelFor),
  })),
];

// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana fills it in.
const datasource = { type: 'prometheus', uid: '${datasource}' } as const;

function renderPanel({ title, description, unit, queries }: Panel, index: number) {
  return {
    id: index + 1,
    type: 'timeseries',
    title,
    description,
    datasource,
    gridPos: { h: 8, w: 12, x: 12 * (index % 2), y: 8 * Math.floor(index / 2) },
    // A drift may be negative.
    fieldConfig: { defaults: title.includes('_drift_') ? { unit } : { unit, min: 0 }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: queries.map(({ expr, legend: legendFormat }, at) => ({
      refId: String.fromCharCode(65 + at),
      datasource,
      expr,
      legendFormat,
      exemplar: expr.includes('_bucket'),
    })),
  };
}

/** The JSON model that Grafana imports. */
export function renderDashboard({ file, title, panels }: Dashboard): string {
  const model = {
    uid: `sluice-${file}`,
    title: `Sluice: ${title}`,
    tags: ['sluice'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        {
          name: 'job',
          type: 'query',
          datasource,
          query: { query: 'label_values(svc_build_info, job)', refId: 'job' },
          includeAll: true,
          multi: true,
          allValue: '.+',
          current: { text: 'All', value: '$__all' },
        },
      ],
    },
    links: [{ type: 'dashboards', tags: ['sluice'], title: 'Sluice', asDropdown: true, keepTime: true }],
    panels: panels.map(renderPanel),
  };
  return `${JSON.stringify(model, null, 1)}\n`;
}

const directory = new URL('../deploy/observability/dashboards/', import.meta.url);

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  for (const each of dashboards)
    await writeFile(new URL(`${each.file}.json`, directory), renderDashboard(each));
