/** A node that is killed while it delivers access logs and writes inventories completes both after its restart. */
import { rm } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { elements, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';

/** As many data files, of one row each, that the inventory takes longer than the kill. */
const objects = 100;

/** The lease of the killed process expires first, after 15 s. */
const patience = { timeout: 180_000, interval: 200 };

const statement = (service: string, bucket: string) => ({
  Effect: 'Allow',
  Principal: { Service: service },
  Action: 's3:PutObject',
  Resource: `arn:aws:s3:::${bucket}/*`,
});
const policyOf = (service: string, bucket: string): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: [statement(service, bucket)] });

async function configure(client: LoadClient): Promise<void> {
  const put = (bucket: string, query?: Record<string, string>, body?: string) =>
    client.expect({
      method: 'PUT',
      path: pathOf(bucket),
      ...(query === undefined ? {} : { query }),
      ...(body === undefined ? {} : { body }),
    });
  for (const bucket of ['bucket', 'logs', 'lists']) await put(bucket);
  await put('logs', { policy: '' }, policyOf('logging.s3.amazonaws.com', 'logs'));
  await put('lists', { policy: '' }, policyOf('s3.amazonaws.com', 'lists'));
  for (let n = 0; n < objects; n += 1)
    await client.expect({ method: 'PUT', path: pathOf('bucket', `object-${n}`), body: 'x' });
  await put(
    'bucket',
    { logging: '' },
    '<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>',
  );
  await put(
    'bucket',
    { inventory: '', id: 'all' },
    '<InventoryConfiguration><Id>all</Id><IsEnabled>false</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>Current</IncludedObjectVersions></InventoryConfiguration>',
  );
}

async function keysIn(client: LoadClient, bucket: string): Promise<string[]> {
  const { text } = await client.expect({ path: pathOf(bucket), query: { 'list-type': '2' } });
  return elements(text, 'Key');
}

/** The names of the objects that the delivered lines are about, with repetitions. */
async function deliveredNames(client: LoadClient): Promise<string[]> {
  const names: string[] = [];
  for (const key of await keysIn(client, 'logs')) {
    const { text } = await client.expect({ path: pathOf('logs', key) });
    names.push(...[...text.matchAll(/ (name-[\w-]+) /g)].map(([, name = '']) => name));
  }
  return names;
}

test('after kill -9 every line that was answered a while before is delivered once, and the inventory is complete', async () => {
  const env = {
    SVC_FSYNC: 'never',
    SVC_PROCESSES: '2',
    SVC_ACCESSLOG_INTERVAL: '1s',
    SVC_INVENTORY_FILE_ROWS: '1',
    SVC_LOG_LEVEL: 'WARN',
  };
  const first = await startServer({ env });
  const { dataDir } = first;
  const ask = (client: LoadClient, name: string) => client.expect({ path: pathOf('bucket', name) }, [404]);
  let client = loadClient(first.url, testCredentials.root);
  await configure(client);
  for (let n = 0; n < 30; n += 1) await ask(client, `name-early-${n}`);
  await expect.poll(() => deliveredNames(client), patience).toHaveLength(30);
  await client.expect({ method: 'POST', path: '/admin/v1/buckets/bucket/inventory/all/run' }, [202]);
  // A busy moment: the inventory has some of its files, and lines are queued and delivered.
  let asked = 0;
  const isUnderWay = async (): Promise<boolean> => {
    await ask(client, `name-late-${asked++}`);
    return (await keysIn(client, 'lists')).some((key) => key.endsWith('.csv.gz'));
  };
  await expect.poll(isUnderWay, { ...patience, interval: 5 }).toBe(true);
  await first.kill9();
  client.close();

  // A gateway without workers shows what the killed one has left: some of the data files, and no manifest.
  const observer = await startServer({ env: { ...env, SVC_WORKERS: '' }, dataDir });
  client = loadClient(observer.url, testCredentials.root);
  const left = await keysIn(client, 'lists');
  client.close();
  await observer.stop();
  expect(left.filter((key) => !key.endsWith('.csv.gz'))).toEqual([]);
  expect(left.length).toBeGreaterThan(0);
  expect(left.length).toBeLessThan(objects);

  const second = await startServer({ env, dataDir });
  client = loadClient(second.url, testCredentials.root);
  try {
    await ask(client, 'name-last');
    await expect.poll(() => deliveredNames(client), patience).toContain('name-last');
    const names = await deliveredNames(client);
    expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
    expect(names.filter((name) => name.startsWith('name-early-'))).toHaveLength(30);
    const manifestKey = async () =>
      (await keysIn(client, 'lists')).find((key) => key.endsWith('manifest.json'));
    await expect.poll(manifestKey, patience).toBeDefined();
    const { text } = await client.expect({ path: pathOf('lists', (await manifestKey()) ?? '') });
    const { files } = JSON.parse(text) as { readonly files: readonly { readonly key: string }[] };
    // The successor went on with the run: it names the files of the killed process.
    const named = files.map(({ key }) => key);
    expect(named).toHaveLength(objects);
    expect(left.filter((key) => !named.includes(key))).toEqual([]);
    const lines: string[] = [];
    for (const { key } of files)
      lines.push(gunzipSync((await client.expect({ path: pathOf('lists', key) })).body).toString());
    expect(lines.toSorted()).toEqual(
      Array.from({ length: objects }, (_, n) => `"bucket","object-${n}"\n`).toSorted(),
    );
  } finally {
    client.close();
    await second.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});
