/**
 * What ships for operators, against real programs: promtool checks the rules and the exposition, and a Prometheus that
 * scrapes a loaded gateway evaluates every query of every dashboard and alert.
 */
import { execFile, execFileSync, type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { metricTable } from '../../src/metrics/metrics.ts';
import { patchFile } from '../support/damage-metadata.ts';
import {
  noPrometheus,
  observability,
  type Prometheus,
  startPrometheus,
} from '../support/engines/prometheus.ts';
import { filesUnder } from '../support/flip-bits.ts';
import { pathOf } from '../support/load-client.ts';
import { type LoadedGateway, startLoadedGateway } from '../support/loaded-gateway.ts';
import { status } from '../support/webhook-sink.ts';

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

/**
 * What the loaded gateway shows. The others need what it does not have: a failure, a drop, a drift, something due, a
 * target that refuses the lines of a log, an inventory, a collector of traces, an hour of time.
 */
const loaded: ReadonlySet<string> = new Set([
  'svc_http_requests_total',
  'svc_http_operations_total',
  'svc_http_refusals_total',
  'svc_http_request_duration_seconds',
  'svc_http_requests_in_flight',
  'svc_http_received_bytes_total',
  'svc_http_sent_bytes_total',
  'svc_bucket_requests_total',
  'svc_bucket_received_bytes_total',
  'svc_bucket_sent_bytes_total',
  'svc_kms_decrypt_total',
  'svc_signing_keys',
  'svc_signing_key_oldest_seconds',
  'svc_disk_free_bytes',
  'svc_disk_size_bytes',
  'svc_disk_refuses_writes',
  'svc_cluster_up',
  'svc_cluster_used_bytes',
  'svc_gc_backlog',
  'svc_scrub_bytes_total',
  'svc_scrub_chunks_total',
  'svc_storage_class_bytes',
  'svc_storage_class_objects',
  'svc_worker_leader',
  'svc_worker_units_total',
  'svc_worker_done_total',
  'svc_worker_last_unit_timestamp_seconds',
  'svc_worker_backlog',
  'svc_lifecycle_passes',
  'svc_lifecycle_oldest_pass_seconds',
  'svc_access_log_objects_total',
  'svc_access_log_lines_total',
  'svc_inventory_rows_total',
  'svc_replication_versions_total',
  'svc_replication_bytes_total',
  'svc_replication_lag_seconds',
  'svc_notify_delivered_total',
  'svc_notify_failures_total',
  'svc_notify_dead_letters_total',
  'svc_backend_duration_seconds',
  'svc_cache_entries',
  'svc_cache_bytes',
  'svc_cache_hits_total',
  'svc_cache_misses_total',
  'svc_event_loop_lag_seconds',
  'svc_memory_bytes',
  'svc_memory_limit_bytes',
  'svc_body_memory_bytes',
  'svc_certificate_not_after_timestamp_seconds',
  'svc_build_info',
]);

let gateway: LoadedGateway;
beforeAll(async () => {
  gateway = await startLoadedGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

describe.skipIf(noPrometheus !== undefined)(
  `observability${noPrometheus ? ` (${noPrometheus})` : ''}`,
  () => {
    let prometheus: Prometheus;
    beforeAll(async () => {
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
    afterAll(() => prometheus?.[Symbol.asyncDispose]());

    test('promtool accepts the configuration and the rules, and the tests of the rules pass', async () => {
      // Not execFileSync: it takes seconds, in which the clients of this process would not see that the server closes idle connections.
      const run = (...args: readonly string[]) =>
        promisify(execFile)('promtool', args, { cwd: observability });
      // The token's file is a secret of the deployment.
      await run('check', 'config', '--syntax-only', 'prometheus.yaml');
      await run('check', 'rules', 'rules.yaml');
      await run('test', 'rules', 'rules.test.yaml');
    });

    test('promtool accepts the exposition of a loaded node', async () => {
      const { text } = await gateway.client.expect({ path: '/metrics' });
      const { status, stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], {
        input: text,
        encoding: 'utf8',
      });
      // Names of the Node runtime's own metrics are those that dashboards expect.
      const problems = `${stdout}${stderr}`.split('\n').filter((line) => line.startsWith('svc_'));
      expect([problems, status === 1]).toEqual([[], false]);
      for (const secret of gateway.secrets) expect(text).not.toContain(secret);
    });

    test('the exemplars of OpenMetrics reach Prometheus', async () => {
      const query = encodeURIComponent('svc_http_request_duration_seconds_bucket');
      const found = (await prometheus.get(
        `/api/v1/query_exemplars?query=${query}&start=${Date.now() / 1000 - 600}&end=${Date.now() / 1000 + 60}`,
      )) as readonly { readonly exemplars: readonly { readonly labels: object }[] }[];
      expect(found.flatMap(({ exemplars }) => exemplars)[0]?.labels).toMatchObject({
        request_id: expect.stringMatching(/^[0-9A-F]{16}$/),
        trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      });
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

    test('every worker that SluiceWorkerStuck watches ends units, so that the alert can fire for it and does not without cause', async () => {
      const { expr = '' } = rules.find(({ alert }) => alert === 'SluiceWorkerStuck') ?? {};
      const [, watched = ''] = /worker=~"([^"]+)"/.exec(expr) ?? [];
      // An idle worker says for up to eight minutes what it said before; the alert waits for an hour.
      const ended = async () =>
        (await prometheus.query('time() - svc_worker_last_unit_timestamp_seconds < 900')).map(
          ({ metric }) => metric['worker'],
        );
      await expect.poll(ended).toEqual(expect.arrayContaining(watched.split('|')));
    });

    test('every query of every dashboard is evaluated, and has data where the gateway has', async () => {
      const empty: string[] = [];
      for (const { file, title, expr } of queries) {
        const found = await prometheus.query(filledIn(expr));
        const names = [...expr.matchAll(/svc_\w+/g)].map(([name]) => name.replace(/_bucket$/, ''));
        if (found.length === 0 && names.every((name) => loaded.has(name)))
          empty.push(`${file} ${title}: ${expr}`);
      }
      expect(empty).toEqual([]);
      expect(queries.length).toBeGreaterThan(80);
      // What the variable `job` of every dashboard asks for.
      expect(await prometheus.get('/api/v1/label/job/values?match[]=svc_build_info')).toEqual(['sluice']);
    });

    test('a loaded node shows the metrics of the table, and no others beside those of its runtime', async () => {
      const { text } = await gateway.client.expect({ path: '/metrics' });
      const shown = new Set(
        [...text.matchAll(/^(svc_\w+?)(?:_bucket|_sum|_count)?[ {]/gm)].map(([, name = '']) => name),
      );
      expect([...loaded].filter((name) => !shown.has(name))).toEqual([]);
      expect([...shown].filter((name) => !(name in metricTable))).toEqual([]);
    });
  },
);

/** The commands of each question of docs/operations/questions.md; the first are functions that the others use. */
function readQuestions(): {
  readonly functions: string;
  readonly questions: readonly (readonly [title: string, commands: string])[];
} {
  const page = readFileSync(join(import.meta.dirname, '../../docs/operations/questions.md'), 'utf8');
  const [intro = '', ...parts] = page.split('\n## ');
  const commandsOf = (text: string): string =>
    [...text.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, commands]) => commands).join('');
  return {
    functions: commandsOf(intro),
    questions: parts.map((part) => [part.split('\n')[0] ?? '', commandsOf(part)]),
  };
}

/** What the commands of a question print about the loaded gateway. */
const answers: Readonly<Record<string, readonly RegExp[]>> = {
  '1. Why was this slow?': [
    /"spans":\[\{"name":"identify"/,
    /"name":"metadata\.get"/,
    /"operation":"GetObject"/,
  ],
  '2. Who deleted this object?': [
    /"action":"DeleteObject","resource":"bucket:photos","key":"a\/3".*"accessKey":"SLUICETESTROOT000001".*"source":"127\.0\.0\.1"/,
    /"action":"DeleteObjects","resource":"bucket:photos".*"accessKey":"SLUICETESTROOT000001"/,
    /<DeleteMarker><Key>a\/3<.*<LastModified>20/,
  ],
  '3. Is replication behind?': [/"destinations":\[/, /svc_replication_lag_seconds_count\{peer="far"\} [1-9]/],
  '4. What fills the disk?': [
    /svc_disk_free_bytes\{component="metadata"\} [1-9]/,
    /svc_disk_size_bytes\{component="metadata"\} [1-9]/,
    /svc_storage_class_bytes\{bucket="photos"/,
    /svc_gc_backlog/,
  ],
  '5. Why was this refused?': [/"status":404,"code":"NoSuchKey"/, /"allowed":false,"reason":"other-account"/],
  '6. Is a worker stuck?': [
    /"worker":"gc","state":"(?:idle|busy)"/,
    /svc_worker_last_unit_timestamp_seconds\{worker="gc"\} [1-9]/,
    /svc_worker_last_unit_timestamp_seconds\{worker="notify"\} [1-9]/,
  ],
  '7. Is anything lost or damaged?': [/"ok":true/, /"damaged":0/, /"traces":\[/],
  '8. Is this node overloaded?': [
    /svc_event_loop_lag_seconds \d/,
    /svc_http_requests_in_flight 1/,
    /svc_memory_limit_bytes [1-9]/,
  ],
  '9. Which tenant makes the load?': [
    /^svc_bucket_requests_total\{bucket="photos",account="root-account"\} [1-9]/,
    /svc_bucket_sent_bytes_total\{bucket="photos"/,
    /"rows":\[/,
  ],
  '10. When do certificates and keys expire?': [
    /setting="SVC_TLS_CERT_FILE"\} 2126-10-28/,
    /svc_signing_keys\{state="valid"\} 1/,
    /"max_age_days":90/,
  ],
  '11. Is the queue to a target growing?': [
    /"id":"hook".*"queued":\d+/,
    /svc_notify_dead_letters_total\{target="closed"\} [1-9]/,
  ],
  '12. Can I remove this cluster?': [
    /"state":"live"/,
    /"bucket":"photos","manifests":[1-9]/,
    /"deregisterReady":false/,
  ],
};

describe('docs/operations/questions.md', () => {
  const { functions, questions } = readQuestions();

  test('has twelve questions', () => {
    expect(questions.map(([title]) => title)).toEqual(Object.keys(answers));
  });

  const askAbout = async (title: string, answers: readonly RegExp[]): Promise<SpawnSyncReturns<string>> => {
    const commands = questions.find(([each]) => each === title)?.[1] ?? 'exit 1';
    const { accessKey, secretKey } = gateway.server.credentials.root;
    const env = {
      PATH: process.env['PATH'],
      KEY: accessKey,
      SECRET: secretKey,
      ENDPOINT: gateway.server.url,
      CURL_CA_BUNDLE: gateway.caFile,
      REQUEST_ID: gateway.refusedId,
    };
    const script = `set -u -o pipefail\n${functions}${commands}`;
    const ask = () => spawnSync('bash', ['-c', script], { encoding: 'utf8', env });
    // Samples of buckets, and deliveries, come a moment after the load.
    let answer = ask();
    const until = Date.now() + 60_000;
    while (Date.now() < until && !answers.every((each) => each.test(answer.stdout))) {
      await sleep(250);
      answer = ask();
    }
    for (const each of answers) expect(answer.stdout).toMatch(each);
    return answer;
  };

  test.each(questions)('answers "%s"', async (title) => {
    const answer = await askAbout(title, answers[title] ?? []);
    expect(answer.status).toBe(0);
    expect(answer.stdout).not.toMatch(
      /SignatureDoesNotMatch|MalformedJSON|"code":"(?:AccessDenied|NotFound)"/,
    );
  });

  const put = (key: string, body: string | Uint8Array) =>
    gateway.client.expect({ method: 'PUT', path: pathOf('photos', key), body });

  test('shows a target that takes no events, and what waits for it', async () => {
    const { hook } = gateway;
    hook.answer = status(503);
    await put('waits', 'x');
    await askAbout('11. Is the queue to a target growing?', [
      // One object waits; the target itself rests only when it refuses several of them.
      /"id":"hook".*?"refused":\{"objects":[1-9]\d*,"reasons":\[\{"error":"[^"]*503.*?"queued":[1-9]/,
      /svc_notify_failures_total\{target="hook",why="failed"\} [1-9]/,
    ]);
    hook.answer = status(200);
  });

  test('shows a peer that is away, and the versions that wait for it', async () => {
    await gateway.peer.kill9();
    await put('waits-too', 'x');
    await askAbout('3. Is replication behind?', [
      /"destination":"far\/bucket","state":"failing".*"message":"[^"]*check says which step fails".*"waiting":[1-9]/,
    ]);
  });

  test('shows damage that a read has found, and which object it is', async () => {
    const text = `damaged-${randomBytes(8).toString('hex')}`.repeat(100);
    await put('damaged', text);
    const chunks = join(gateway.server.dataDir, 'chunks');
    const file = filesUnder(chunks).find((each) => readFileSync(each).includes(text)) ?? '';
    await patchFile(file, (bytes) => {
      bytes[bytes.indexOf(text) + 9] = 0;
    });
    expect((await gateway.client.send({ path: pathOf('photos', 'damaged') })).status).toBe(500);
    await askAbout('7. Is anything lost or damaged?', [
      /svc_backend_errors_total\{call="data\.read",why="damaged"\} [1-9]/,
      /"operation":"GetObject","bucket":"photos","key":"damaged","status":500/,
    ]);
  });

  test('counts damage that a read finds behind its first bytes, where its reply is cut off', async () => {
    const count = async (): Promise<number> =>
      Number(
        /svc_backend_errors_total\{call="data\.read",why="damaged"\} (\d+)/.exec(
          (await gateway.client.expect({ path: '/metrics' })).text,
        )?.[1],
      );
    const before = await count();
    const text = `${'x'.repeat(1_000_000)}its-end`;
    await put('damaged-later', text);
    const file =
      filesUnder(join(gateway.server.dataDir, 'chunks')).find((each) =>
        readFileSync(each).includes('its-end'),
      ) ?? '';
    await patchFile(file, (bytes) => {
      bytes[bytes.indexOf('its-end')] = 0;
    });
    await expect(gateway.client.send({ path: pathOf('photos', 'damaged-later') })).rejects.toThrow();
    await expect.poll(count, { timeout: 60_000 }).toBe(before + 1);
  });
});

test('the support bundle of a node has every process and no secret', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bundle-'));
  try {
    const { body } = await gateway.client.expect({ path: '/admin/v1/support-bundle' });
    expect(body.length).toBeLessThan(16 * 1024 * 1024);
    execFileSync('tar', ['-x', '-C', directory], { input: body });
    const files = join(directory, 'sluice-support');
    const read = (name: string): string => readFileSync(join(files, name), 'utf8');
    for (const name of readdirSync(files)) {
      expect(read(name), name).not.toMatch(/^\{"missing"/);
      for (const secret of gateway.secrets) expect(read(name), name).not.toContain(secret);
    }
    const about = JSON.parse(read('about.json')) as {
      readonly version: string;
      readonly processes: readonly { readonly process: { readonly pid: number } }[];
    };
    expect(about.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(new Set(about.processes.map(({ process }) => process.pid)).size).toBe(2);
    expect(read('metrics.txt')).toContain('svc_http_operations_total{operation="PutObject",code="200"}');
    expect(read('traces.json')).toContain(gateway.refusedId);
    expect(read('notify-targets.json')).toContain('"deadLetters"');
  } finally {
    rmSync(directory, { recursive: true });
  }
});
