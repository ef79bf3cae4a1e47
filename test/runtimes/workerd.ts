/** The workerd entry, bundled as wrangler does it, under miniflare. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { rolldown } from 'rolldown';
import { consoleFolder } from '../../console/build.ts';
import { testCredentials } from '../support/server.ts';
import type { Started } from './smoke.ts';

const root = join(import.meta.dirname, '../..');

async function bundle(): Promise<string> {
  const build = await rolldown({
    input: join(root, 'src/runtime/workerd.ts'),
    platform: 'neutral',
    resolve: { mainFields: ['module', 'main'], conditionNames: ['workerd', 'worker', 'browser', 'import'] },
    external: [/^node:/],
    logLevel: 'silent',
  });
  const { output } = await build.generate({ format: 'esm' });
  await build.close();
  if (output.length !== 1) throw new Error(`the bundle has ${output.length} files`);
  return output[0].code;
}

/** The lines of its log. */
export interface Workerd extends Started {
  log(): string;
}

/** @param withConsole the built console is bound as static assets */
export async function startWorkerd({ withConsole = false } = {}): Promise<Workerd> {
  const lines: string[] = [];
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'sluice.js', contents: await bundle() }],
    compatibilityDate: '2026-04-01',
    compatibilityFlags: ['nodejs_compat'],
    bindings: {
      SVC_CREDENTIALS: JSON.stringify(Object.values(testCredentials)),
      SVC_WORKERS: '',
      SVC_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    },
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
  return { url: url.origin, ...testCredentials.root, log, stop: () => worker.dispose() };
}
