/** The Worker of docs/workers.md, copied from the page: it is bundled and serves with the bindings of the page. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { expect, test } from 'vitest';
import { durableBindings } from '../runtimes/workerd.ts';
import { bundleWorker } from './bundle.ts';
import { clientOf } from './gateways.ts';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/workers.md'), 'utf8');
const [, script = ''] = /```ts\n(.*?)```/s.exec(page) ?? [];
const [, toml = ''] = /```toml\n(.*?)```/s.exec(page) ?? [];
const fieldOf = (name: string): string => new RegExp(`\\b${name} = "(.*?)"`).exec(toml)?.[1] ?? '';

test('the Worker of docs/workers.md is the one that the compiler of this project has checked', () => {
  const checked = readFileSync(join(import.meta.dirname, 'worker-of-the-page.ts'), 'utf8');
  expect(script).toBe(checked.replaceAll(`'../../src/runtime/cloudflare.ts'`, `'sluice/cloudflare'`));
});

test('the Worker of docs/workers.md serves objects with the bindings of its wrangler.toml', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'documented-worker-'));
  const entry = join(folder, 'index.ts');
  const library = join(root, 'src/runtime/cloudflare.ts');
  writeFileSync(entry, script.replaceAll(`'sluice/cloudflare'`, `'${library}'`));
  const [, object = ''] = /durable_objects\.bindings = \[\{ name = "(.*?)"/.exec(toml) ?? [];
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'index.js', contents: await bundleWorker(entry) }],
    compatibilityDate: fieldOf('compatibility_date'),
    compatibilityFlags: JSON.parse(/compatibility_flags = (\[.*?\])/.exec(toml)?.[1] ?? '[]'),
    bindings: durableBindings.bindings,
    r2Buckets: [fieldOf('binding')],
    durableObjects: { [object]: { className: fieldOf('class_name'), useSQLite: true } },
    handleStructuredLogs: () => {},
  });
  try {
    const send = await clientOf(worker);
    expect((await send('PUT', '/photos')).status).toBe(200);
    expect((await send('PUT', '/photos/cat', { body: 'meow' })).status).toBe(200);
    expect((await send('GET', '/photos/cat')).text).toBe('meow');
  } finally {
    await worker.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
});
