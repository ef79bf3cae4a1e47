/**
 * The console on real engines: on embedded metadata and files, on Cassandra and Ceph, and two gateways over one
 * Cassandra behind a proxy.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inParallel } from '../../src/base/concurrency.ts';
import { type Engine, noCassandra, replicatedOver, startCassandra } from '../support/engines/cassandra.ts';
import { type CephCluster, noCeph, startCeph } from '../support/engines/ceph.ts';
import { type StartOptions, startServer, type TestServer, testCredentials } from '../support/server.ts';
import { addressOf, builtPages } from './addresses.ts';
import { send } from './seeds.ts';
import { browse, fillLogin, noChromium, openConsole } from './world.ts';

const mib = 1_048_576;
const schemaMs = 240_000;
const pools = ['chunks', 'cold'];
/** Most of the time of a page is spent in waiting for its engine. */
const pagesAtOnce = 4;

interface Seen {
  /** What the Storage page calls the backends. */
  readonly metadata: string;
  readonly data: string;
}

/** What an operator does on the first day, by the pages alone. */
async function useConsole(options: StartOptions, { metadata, data }: Seen): Promise<void> {
  await using world = await openConsole(options);
  const { server } = world;
  await using tab = await world.open('/', { as: undefined });
  const { page } = tab;
  await fillLogin(tab, testCredentials.root);
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();

  await tab.go('/storage');
  await page.getByText(new RegExp(`^Backend: ${metadata}`)).waitFor();
  await page.getByText(new RegExp(`^Backend: ${data}`)).waitFor();
  await page.getByRole('region', { name: 'Metadata' }).locator('[data-row]').first().waitFor();
  await page.getByRole('region', { name: 'Data pools' }).locator('[data-row]').nth(1).waitFor();

  await tab.go('/buckets?create=1');
  const form = page.getByRole('region', { name: 'Create bucket' });
  await form.getByLabel('Name').fill('photos');
  await form.getByRole('button', { name: 'Create bucket' }).click();
  await form.waitFor({ state: 'detached' });

  await tab.go('/buckets/photos/objects');
  const files = { 'small.txt': Buffer.from('meow'), 'large.bin': randomBytes(17 * mib) };
  for (const [name, buffer] of Object.entries(files)) {
    await page
      .locator('.tools-line input[type=file]:not([webkitdirectory])')
      .setInputFiles({ name, mimeType: 'text/plain', buffer });
    await page.getByRole('link', { name, exact: true }).waitFor();
    const reply = await send(server, 'GET', `/photos/${name}`);
    expect(Buffer.compare(Buffer.from(await reply.arrayBuffer()), buffer)).toBe(0);
  }
  await page.getByRole('link', { name: 'small.txt', exact: true }).click();
  await page.getByRole('region', { name: 'small.txt' }).getByText('Place of the bytes').waitFor();

  await tab.go('/buckets/photos/usage?quota=1');
  const quota = page.getByRole('region', { name: 'Set quota' });
  await quota.getByLabel('Size').fill('64MiB');
  await quota.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/^17 MiB of 64 MiB/).waitFor();

  await tab.go('/clusters?cluster=b');
  await page.getByRole('button', { name: 'Stop writes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop writes' }).click();
  await page.getByRole('button', { name: 'Take writes again' }).waitFor();

  const { headers } = await send(server, 'HEAD', '/photos/small.txt');
  await inParallel(pagesAtOnce, builtPages, async (name) => {
    const address = addressOf(name, 'typical').replace(/none$/, headers.get('x-amz-request-id') ?? '');
    await using opened = await world.open(address, { beside: tab });
    expect([name, await opened.page.getByRole('alert').allTextContents()]).toEqual([name, []]);
    expect([name, await opened.page.getByRole('heading', { level: 1 }).count()]).toEqual([name, 1]);
  });
}

interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** Requests go to these in turn. */
  to: readonly string[];
}

/** Sends a request to the next gateway, and to another where that one does not answer, as proxies do. */
async function openProxy(): Promise<Proxy> {
  let turn = 0;
  const server = createServer((asked, reply) => {
    const body: Buffer[] = [];
    asked.on('data', (piece: Buffer) => body.push(piece));
    asked.on('end', () => {
      const forward = (left: number): void => {
        turn += 1;
        const to = new URL(asked.url ?? '/', proxy.to[turn % proxy.to.length]);
        const { method, headers } = asked;
        const sent = request(to, { method, headers }, (answer) => {
          reply.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(reply);
        });
        sent.on('error', () => (left > 0 ? forward(left - 1) : reply.writeHead(502).end()));
        sent.end(Buffer.concat(body));
      };
      forward(proxy.to.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: Proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    to: [],
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

describe.skipIf(noChromium !== undefined)('the console on engines', () => {
  let starting: Promise<readonly [Engine, CephCluster | undefined]> | undefined;
  // The engines start while the embedded ones are used.
  beforeAll(() => {
    if (noCassandra !== undefined) return;
    starting = Promise.all([startCassandra(), noCeph === undefined ? startCeph(pools) : undefined]);
    starting.catch(() => {});
  });

  test('on embedded metadata and files: the first day of an operator, and every page', async () => {
    const env = { SVC_POOL_CLUSTERS: 'a,b' };
    await useConsole({ env }, { metadata: 'embedded', data: 'file' });
  });

  describe.skipIf(noCassandra !== undefined)(`on Cassandra ${noCassandra ?? ''}`, () => {
    let cassandra: Engine;
    let ceph: CephCluster | undefined;
    let directory = '';
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'sluice-engines-'));
      if (starting === undefined) throw new Error('no engine was started');
      [cassandra, ceph] = await starting;
    });
    afterAll(async () => {
      await Promise.all([cassandra?.[Symbol.asyncDispose](), ceph?.[Symbol.asyncDispose]()]);
      await rm(directory, { recursive: true, force: true });
    });

    const settings = () => ({
      SVC_META_BACKEND: 'wide-column',
      SVC_WIDECOL_HOSTS: cassandra.hosts.join(','),
      SVC_WIDECOL_REPLICATION: replicatedOver(cassandra.hosts),
      SVC_WIDECOL_KEYSPACE: `console_${randomBytes(4).toString('hex')}`,
    });

    test.skipIf(noCeph !== undefined)(
      `on Cassandra and Ceph: the first day of an operator, and every page ${noCeph ?? ''}`,
      async () => {
        const clusters = pools.map((pool, at) => ({ id: 'ab'[at], conf: ceph?.conf, pool }));
        const env = {
          ...settings(),
          SVC_DATA_BACKEND: 'cluster-pool',
          SVC_POOL_CLUSTERS: JSON.stringify(clusters),
        };
        await useConsole({ env, startMs: schemaMs }, { metadata: 'wide-column', data: 'cluster-pool' });
      },
    );

    test('a log-in at one of two gateways works at the other, and the death of one ends nothing', async () => {
      const env = settings();
      const dataDir = join(directory, 'data');
      const start = (): Promise<TestServer> => startServer({ dataDir, env, startMs: schemaMs });
      const [one, other] = [await start(), await start()];
      await using proxy = await openProxy();
      await using browsing = await browse(proxy.url);
      try {
        proxy.to = [one.url];
        await using tab = await browsing.open('/buckets?create=1', { as: undefined });
        const { page } = tab;
        await fillLogin(tab, testCredentials.root);
        await page.getByRole('region', { name: 'Create bucket' }).getByLabel('Name').fill('shared');

        // The form was opened at one; the cookie, its CSRF token and the temporary credentials are taken by the other.
        proxy.to = [other.url];
        const form = page.getByRole('region', { name: 'Create bucket' });
        await form.getByRole('button', { name: 'Create bucket' }).click();
        await form.waitFor({ state: 'detached' });

        proxy.to = [one.url, other.url];
        await tab.go('/buckets/shared/objects');
        const choose = (name: string) =>
          page
            .locator('.tools-line input[type=file]:not([webkitdirectory])')
            .setInputFiles({ name, mimeType: 'text/plain', buffer: randomBytes(17 * mib) });
        await choose('both.bin');
        await page.getByRole('link', { name: 'both.bin', exact: true }).waitFor();

        await one.kill9();
        await choose('after.bin');
        await page.getByRole('link', { name: 'after.bin', exact: true }).waitFor();
        await tab.go('/buckets/shared/usage?quota=1');
        const quota = page.getByRole('region', { name: 'Set quota' });
        await quota.getByLabel('Size').fill('64MiB');
        await quota.getByRole('button', { name: 'Save' }).click();
        await page.getByText(/of 64 MiB/).waitFor();
        const cookies = await tab.context.cookies();

        await page.getByRole('button', { name: 'Account' }).click();
        await page.getByRole('button', { name: 'Log out' }).click();
        await page.getByRole('heading', { name: 'Log in' }).waitFor();
        const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
        const stale = await fetch(`${proxy.url}/admin/v1/clusters`, { headers: { cookie } });
        expect(stale.status).toBe(403);
      } finally {
        await one.kill9();
        await other.stop();
      }
    });
  });
});
