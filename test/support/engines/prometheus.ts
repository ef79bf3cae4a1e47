/**
 * Prometheus, which scrapes a gateway with the rules of `deploy/observability`. If it is not installed, its suite is
 * skipped; on CI it must run.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { freePorts } from './ports.ts';
import { startProcess } from './process.ts';
import { missingEngine } from './wanted.ts';

export const observability = join(import.meta.dirname, '../../../deploy/observability');

export const noPrometheus: string | undefined = missingEngine(
  ['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0),
  'needs engines/prometheus/install.sh to have run',
);

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

export interface Prometheus extends AsyncDisposable {
  /** @throws with the text of the error that Prometheus answers */
  query(expr: string): Promise<readonly Series[]>;
  get(path: string): Promise<unknown>;
}

export interface ScrapeOptions {
  /** host:port */
  readonly target: string;
  readonly token: string;
  readonly caFile: string;
}

/** With the scrape configuration of `deploy/observability`, but once a second and for this target. */
export async function startPrometheus({ target, token, caFile }: ScrapeOptions): Promise<Prometheus> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'));
  const shipped = parse(readFileSync(join(observability, 'prometheus.yaml'), 'utf8'));
  const [job] = shipped.scrape_configs;
  const configuration = {
    ...shipped,
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(observability, 'rules.yaml')],
    scrape_configs: [
      {
        ...job,
        scheme: 'https',
        tls_config: { ca_file: caFile },
        authorization: { type: 'Bearer', credentials: token },
        static_configs: [{ targets: [target] }],
      },
    ],
  };
  const file = join(directory, 'prometheus.yaml');
  writeFileSync(file, stringify(configuration), { mode: 0o600 });
  const [port = 0] = await freePorts(1);
  const program = startProcess('prometheus', [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(directory, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--enable-feature=exemplar-storage',
    '--log.level=error',
  ]);
  const get = async (path: string): Promise<unknown> => {
    const reply = await fetch(`http://127.0.0.1:${port}${path}`);
    const { status, data, error } = (await reply.json()) as { status: string; data: unknown; error?: string };
    if (status !== 'success') throw new Error(error);
    return data;
  };
  let isGone = false;
  void program.ended.then(() => {
    isGone = true;
  });
  for (;;) {
    const isReady = await fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    if (isGone) throw new Error('Prometheus ended at its start');
    await sleep(50);
  }
  return {
    get,
    async query(expr) {
      const found = (await get(`/api/v1/query?query=${encodeURIComponent(expr)}`)) as {
        readonly result: Series[];
      };
      return found.result;
    },
    async [Symbol.asyncDispose]() {
      await program.kill9();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
