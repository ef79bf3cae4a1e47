/** Replication and resync are complete after the processes at both ends were killed. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { elements, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { replicateTo, replicatingSettings, startSite } from '../support/replicating-servers.ts';
import { startServer, testCredentials } from '../support/server.ts';

/** The lease of the killed process expires first, after 15 s. */
const patience = { timeout: 180_000, interval: 200 };

async function versionsOf(client: LoadClient): Promise<readonly string[]> {
  const found: string[] = [];
  let query: Record<string, string> = { versions: '' };
  for (;;) {
    const { text } = await client.expect({ path: pathOf('bucket'), query });
    const keys = elements(text, 'Key');
    const ids = elements(text, 'VersionId');
    found.push(...keys.map((key, n) => `${key} ${ids[n]}`));
    const [key] = elements(text, 'NextKeyMarker');
    const [id] = elements(text, 'NextVersionIdMarker');
    if (key === undefined || id === undefined) return found;
    query = { versions: '', 'key-marker': key, 'version-id-marker': id };
  }
}

test('after kill -9 of the source and of the destination both have the same versions, and none is pending', async () => {
  const options = { env: { SVC_FSYNC: 'never', SVC_PROCESSES: '1' } };
  const near = await startSite(options);
  const far = await startSite(options);
  const port = new URL(far.server.url).host;
  for (let n = 0; n < 400; n += 1)
    await near.client.expect({ method: 'PUT', path: pathOf('bucket', `before-${n % 300}`), body: `${n}` });
  await replicateTo(near.client, far.server);
  await near.client.expect(
    { method: 'POST', path: '/admin/v1/replication/resync/bucket', body: '{}' },
    [202],
  );
  for (let n = 0; n < 200; n += 1)
    await near.client.expect({ method: 'PUT', path: pathOf('bucket', `after-${n % 20}`), body: `${n}` });
  await expect
    .poll(async () => (await versionsOf(far.client)).length, { ...patience, interval: 5 })
    .toBeGreaterThan(50);
  await near.server.kill9();
  near.client.close();
  const again = await startServer({
    ...options,
    env: { ...replicatingSettings, ...options.env },
    dataDir: near.server.dataDir,
  });
  await expect
    .poll(async () => (await versionsOf(far.client)).length, { ...patience, interval: 5 })
    .toBeGreaterThan(150);
  await far.server.kill9();
  far.client.close();
  const farAgain = await startServer({
    env: { ...replicatingSettings, ...options.env, SVC_LISTEN: port },
    dataDir: far.server.dataDir,
  });
  const [source, destination] = [again, farAgain].map(({ url }) => loadClient(url, testCredentials.root)) as [
    LoadClient,
    LoadClient,
  ];
  try {
    const all = await versionsOf(source);
    expect(all.length).toBe(600);
    await expect.poll(async () => (await versionsOf(destination)).length, patience).toBe(600);
    expect(await versionsOf(destination)).toEqual(all);
    const status = async (key: string) =>
      (await source.expect({ method: 'HEAD', path: pathOf('bucket', key) })).headers[
        'x-amz-replication-status'
      ];
    for (const key of ['before-0', 'before-299', 'after-0', 'after-19'])
      await expect.poll(() => status(key), patience).toBe('COMPLETED');
    const { text } = await source.expect({ path: '/admin/v1/replication/failed' });
    expect(JSON.parse(text)).toEqual({ failed: [], isTruncated: false });
  } finally {
    source.close();
    destination.close();
    for (const server of [again, farAgain]) {
      await server.stop();
      await rm(server.dataDir, { recursive: true, force: true });
    }
  }
});
