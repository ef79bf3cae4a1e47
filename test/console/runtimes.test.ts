/** The console on every runtime, inside an application under a path, and on workerd with its files as static assets. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { directory, openGateway } from '../../src/mod.ts';
import { toNodeHandler } from '../../src/runtime/node.ts';
import { install, runtimes } from '../runtimes/installed.ts';
import { startWorkerd } from '../runtimes/workerd.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { browse, fillLogin, noChromium } from './world.ts';

interface Served {
  /** With the path below which the gateway is mounted. */
  readonly url: string;
  stop(): Promise<unknown>;
}

async function embedded(): Promise<Served> {
  const data = await mkdtemp(join(tmpdir(), 'sluice-embedded-'));
  const gateway = await openGateway({
    credentials: Object.values(testCredentials),
    storage: directory(data),
    basePath: '/s3',
  });
  const handle = toNodeHandler(gateway);
  const server = createServer((request, reply) =>
    request.url?.startsWith('/s3') === true ? handle(request, reply) : reply.end('the application'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/s3`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await gateway.close();
      await rm(data, { recursive: true, force: true });
    },
  };
}

const places: Readonly<Record<string, () => Promise<Served>>> = {
  'Node 22': () => startServer({ runtime: runtimes['Node 22'] }),
  Bun: () => startServer({ runtime: runtimes.Bun }),
  Deno: () => startServer({ runtime: runtimes.Deno }),
  'an application, under /s3': embedded,
  'workerd, as static assets': () => startWorkerd({ withConsole: true }),
};

describe.skipIf(noChromium !== undefined)('the console', () => {
  beforeAll(install);

  test.each(Object.keys(places))('on %s: a log-in, the first page, a bucket and an object', async (name) => {
    const served = (await places[name]?.()) as Served;
    await using browsing = await browse(served.url);
    try {
      await using tab = await browsing.open('/storage', { as: undefined });
      const { page } = tab;
      await fillLogin(tab, testCredentials.root);
      await page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
      await tab.go('/');
      await page.getByText('Storage is healthy.').waitFor();
      await tab.go('/buckets?create=1');
      const form = page.getByRole('region', { name: 'Create bucket' });
      await form.getByLabel('Name').fill('assets');
      await form.getByRole('button', { name: 'Create bucket' }).click();
      await form.waitFor({ state: 'detached' });
      await tab.go('/buckets/assets/objects');
      const file = { name: 'cat.txt', mimeType: 'text/plain', buffer: Buffer.from('meow') };
      await page.locator('.tools-line input[type=file]:not([webkitdirectory])').setInputFiles(file);
      await page.getByRole('link', { name: 'cat.txt' }).waitFor();
      expect(new URL(page.url()).pathname).toBe(
        `${new URL(`${served.url}/console/`).pathname}buckets/assets/objects`,
      );
    } finally {
      await served.stop();
    }
  });
});
