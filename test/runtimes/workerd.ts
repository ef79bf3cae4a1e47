/** The workerd entry, bundled as wrangler does it, under miniflare. */
import { join } from 'node:path';
import { Miniflare, type WorkerOptions } from 'miniflare';
import { consoleFolder } from '../../console/build.ts';
import { testCredentials } from '../support/server.ts';
import { bundleWorker } from '../workers/bundle.ts';
import type { Started } from './smoke.ts';

export const workerdEntry = join(import.meta.dirname, '../../src/runtime/workerd.ts');

/** The bindings of wrangler.toml, and an alarm that is due at once. */
export const durableBindings = {
  r2Buckets: ['BUCKET'],
  durableObjects: { SLUICE: { className: 'SluiceMetadata', useSQLite: true } },
  bindings: {
    SVC_CREDENTIALS: JSON.stringify(Object.values(testCredentials)),
    SLUICE_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    SLUICE_WORKERS_EVERY: '1',
    SVC_GC_GRACE: '0s',
  },
} as const satisfies Partial<WorkerOptions>;

export const workerdFlags = {
  compatibilityDate: '2026-04-01',
  compatibilityFlags: ['nodejs_compat'],
};

/** The lines of its log. */
export interface Workerd extends Started {
  /** workerd closes connections that were idle. */
  readonly connectsAnew: true;
  log(): string;
}

export interface WorkerdOptions {
  /** The built console is bound as static assets. */
  readonly withConsole?: boolean;
  /** With the bindings of wrangler.toml. */
  readonly isDurable?: boolean;
  /** Further `SVC_*` variables of a durable one. */
  readonly settings?: Readonly<Record<string, string>>;
}

export async function startWorkerd({
  withConsole = false,
  isDurable = false,
  settings = {},
}: WorkerdOptions = {}): Promise<Workerd> {
  const lines: string[] = [];
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'sluice.js', contents: await bundleWorker(workerdEntry) }],
    ...workerdFlags,
    bindings: {
      SVC_CREDENTIALS: JSON.stringify(Object.values(testCredentials)),
      SVC_WORKERS: '',
      SVC_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    },
    ...(isDurable ? { ...durableBindings, bindings: { ...durableBindings.bindings, ...settings } } : {}),
    ...(withConsole
      ? {
          assets: {
            directory: consoleFolder,
            binding: 'ASSETS',
            assetConfig: { html_handling: 'none' },
            routerConfig: { invoke_user_worker_ahead_of_assets: true, has_user_worker: true },
          },
        }
      : {}),
    handleStructuredLogs: ({ message }: { readonly message: string }) => void lines.push(message),
  });
  const url = await worker.ready;
  const log = (): string => lines.join('\n');
  return { url: url.origin, ...testCredentials.root, connectsAnew: true, log, stop: () => worker.dispose() };
}
