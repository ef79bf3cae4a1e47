/**
 * What ships for operators, against real programs: promtool checks the rules and the exposition, and a Prometheus that scrapes a loaded gateway
 * evaluates every query of every dashboard and alert.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Measurement, measurements } from '../../src/telemetry/metrics.ts';
import {
  noPrometheus,
  observability,
  type Prometheus,
  startPrometheus,
} from '../support/engines/prometheus.ts';
import { type LoadedGateway, startLoadedGateway } from '../support/loaded-gateway.ts';

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
}
const { groups } = parse(readFileSync(join(observability, 'rules.yaml'), 'utf8')) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap(({ rules }) => rules);

const dashboards = join(observability, 'dashboards');
const queries = readdirSync(dashboards).flatMap((file) => {
  const { panels } = JSON.parse(readFileSync(join(dashboards, file), 'utf8')) as {
    readonly panels: readonly {
      readonly title: string;
      readonly targets: readonly { readonly expr: string }[];
    }[];
  };
  return panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ file, title, expr })));
});
/** As Grafana fills them in. */
const filledIn = (expr: string): string =>
  expr.replaceAll('$__rate_interval', '10s').replaceAll('$job', '.+');

/** Metrics that this gateway has no reason to show, each with the reason. */
const without: Readonly<Record<string, string>> = {
  svc_audit_counted_total: 'no caller was refused that often',
  svc_backend_errors_total: 'no backend failed',
  svc_worker_panic_total: 'no worker panicked',
  svc_worker_failures_total: 'no worker failed',
  svc_worker_oldest_seconds: 'only queue-retention tells it, once an hour',
  svc_queue_rows: 'counted once an hour',
  svc_queue_oldest_seconds: 'counted once an hour',
  svc_queue_dropped_total: 'nothing was dropped',
  svc_lifecycle_actions_total: 'nothing is due',
  svc_access_log_kept_total: 'no access log is configured',
  svc_replication_failures_total: 'the peer takes everything',
  svc_inventory_runs_total: 'no inventory is configured',
  svc_scrub_oldest_unchecked_seconds: 'no rate of the scrub is set',
  svc_scrub_damaged: 'no rate of the scrub is set',
  svc_quota_reconcile_drift_bytes: 'nothing drifts',
};

describe.skipIf(noPrometheus !== undefined)(
  `observability${noPrometheus ? ` (${noPrometheus})` : ''}`,
  () => {
    let gateway: LoadedGateway;
    let prometheus: Prometheus;
    beforeAll(async () => {
      gateway = await startLoadedGateway();
      prometheus = await startPrometheus({
        target: new URL(gateway.server.url).host,
        token: gateway.metricsToken,
        caFile: gateway.caFile,
      });
      // Rates need two scrapes, with load between them.
      const isMeasured = async (): Promise<boolean> =>
        (await prometheus.query('count_over_time(svc_http_requests_total{code="200"}[1m]) > 4')).length > 0 &&
        (await prometheus.query('svc_notify_dead_letters_total > 0')).length > 0 &&
        (await prometheus.query('svc_replication_versions_total > 0')).length > 0;
      for (let n = 0; n < 60 && !(await isMeasured()); n += 1) {
        await gateway.load();
        await sleep(500);
      }
    });
    afterAll(async () => {
      await prometheus?.[Symbol.asyncDispose]();
      await gateway?.[Symbol.asyncDispose]();
    });

    test('promtool accepts the configuration and the rules, and the tests of the rules pass', () => {
      const run = (...args: readonly string[]) =>
        execFileSync('promtool', args, { cwd: observability, encoding: 'utf8' });
      // The token's file is a secret of the deployment.
      run('check', 'config', '--syntax-only', 'prometheus.yaml');
      run('check', 'rules', 'rules.yaml');
      run('test', 'rules', 'rules.test.yaml');
    });

    test('promtool accepts the exposition of a loaded node', async () => {
      const { text } = await gateway.client.expect({ path: '/metrics' });
      const { status, stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], {
        input: text,
        encoding: 'utf8',
      });
      // Names of the Node runtime's own metrics are prom-client's.
      const complaints = `${stdout}${stderr}`.split('\n').filter((line) => line.startsWith('svc_'));
      expect([complaints, status === 1]).toEqual([[], false]);
      for (const secret of gateway.secrets) expect(text).not.toContain(secret);
    });

    test('the exemplars of OpenMetrics reach Prometheus', async () => {
      const query = encodeURIComponent('svc_http_request_duration_seconds_bucket');
      const found = (await prometheus.get(
        `/api/v1/query_exemplars?query=${query}&start=${Date.now() / 1000 - 600}&end=${Date.now() / 1000 + 60}`,
      )) as readonly { readonly exemplars: readonly { readonly labels: object }[] }[];
      expect(found.flatMap(({ exemplars }) => exemplars)[0]?.labels).toHaveProperty('request_id');
    });

    test('every rule is evaluated without an error', async () => {
      for (const { expr } of rules) await prometheus.query(expr);
      const { groups: loaded } = (await prometheus.get('/api/v1/rules')) as {
        readonly groups: readonly { readonly rules: readonly { readonly lastError?: string }[] }[];
      };
      const evaluated = loaded.flatMap((group) => group.rules);
      expect(evaluated).toHaveLength(rules.length);
      expect(evaluated.flatMap(({ lastError }) => lastError ?? [])).toEqual([]);
    });

    test('a loaded, healthy gateway fires no alert but the one for its dead letters', async () => {
      const firing = await prometheus.query('ALERTS{alertstate="firing"}');
      expect(firing.map(({ metric }) => metric['alertname'])).toEqual(['SluiceDeadLetters']);
    });

    test('every query of every dashboard has data, except where the gateway has none', async () => {
      const empty: string[] = [];
      for (const { file, title, expr } of queries) {
        const found = await prometheus.query(filledIn(expr));
        const names = [...expr.matchAll(/svc_\w+/g)].map(([name]) =>
          name.replace(/_(?:bucket|count|sum)$/, ''),
        );
        if (found.length === 0 && !names.some((name) => name in without))
          empty.push(`${file} ${title}: ${expr}`);
      }
      expect(empty).toEqual([]);
      expect(queries.length).toBeGreaterThan(80);
    });

    test('every metric of the table is shown, except those that the gateway has no reason for', async () => {
      const { text } = await gateway.client.expect({ path: '/metrics' });
      const missing = Object.entries<Measurement>(measurements).filter(
        ([name, { kind }]) =>
          !new RegExp(`^${name}${kind === 'histogram' ? '_count' : ''}[ {]`, 'm').test(text),
      );
      expect(missing.map(([name]) => name).filter((name) => !(name in without))).toEqual([]);
      for (const name of Object.keys(without)) expect(measurements).toHaveProperty(name);
    });
  },
);
