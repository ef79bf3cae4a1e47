/** A server of two processes is killed while clients write at its quotas, and started again on the same data. */
import { rm } from 'node:fs/promises';
import { openDice } from '../support/dice.ts';
import { elements, type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';

const buckets = ['one', 'two'];
const bucketMax = 60_000;
const accountMax = 90_000;
const clients = 12;

interface Options {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (line: string) => void;
}

/** The bytes of the bucket's objects, as its listing says. */
async function bytesIn(client: LoadClient, bucket: string): Promise<number> {
  let bytes = 0;
  let query: Record<string, string> = { 'list-type': '2' };
  for (;;) {
    const { text } = await client.expect({ path: pathOf(bucket), query });
    for (const size of elements(text, 'Size')) bytes += Number(size);
    const [token] = elements(text, 'NextContinuationToken');
    if (token === undefined) return bytes;
    query = { 'list-type': '2', 'continuation-token': token };
  }
}

async function setQuotas(client: LoadClient): Promise<void> {
  const account = testCredentials.root.owner;
  const put = (path: string, quota: object) =>
    client.expect({ method: 'PUT', path: `/admin/v1${path}/quota`, body: JSON.stringify(quota) });
  await put('/buckets/one', { maxBytes: bucketMax, maxObjects: 0, maxBytesPerObject: 0 });
  await put(`/iam/users/${account}`, { maxBuckets: 0, totalMaxBytes: accountMax });
}

/** @returns what was wrong */
export async function quotaKills({ kills, seed, say }: Options): Promise<readonly string[]> {
  const dice = openDice(seed);
  const wrong: string[] = [];
  const start = (dataDir?: string): Promise<TestServer> =>
    startServer({
      env: { SVC_PROCESSES: '2', SVC_FSYNC: 'never', SVC_INTENT_TTL: '1s' },
      ...(dataDir === undefined ? {} : { dataDir }),
    });
  let server = await start();
  let client = loadClient(server.url, testCredentials.root);
  for (const bucket of buckets) await client.expect({ method: 'PUT', path: pathOf(bucket) });
  await setQuotas(client);

  const load = async (isOver: () => boolean): Promise<void> => {
    while (!isOver()) {
      const path = pathOf(dice.pick(buckets), `k${dice.roll(200)}`);
      const request = dice.chance(4)
        ? { method: 'DELETE', path }
        : { method: 'PUT', path, body: Buffer.alloc(dice.roll(2_000)) };
      await client.send(request).catch(() => {});
    }
  };
  const check = async (): Promise<number> => {
    const [one = 0, two = 0] = await Promise.all(buckets.map((bucket) => bytesIn(client, bucket)));
    if (one > bucketMax) wrong.push(`seed ${seed}: ${one} bytes are in a bucket of ${bucketMax}`);
    if (one + two > accountMax)
      wrong.push(`seed ${seed}: ${one + two} bytes are in an account of ${accountMax}`);
    return one + two;
  };

  for (let kill = 0; kill < kills; kill += 1) {
    let isOver = false;
    const loading = Promise.all(Array.from({ length: clients }, () => load(() => isOver)));
    await new Promise((resolve) => setTimeout(resolve, 100 + dice.roll(700)));
    await server.kill9();
    isOver = true;
    await loading;
    client.close();
    server = await start(server.dataDir);
    client = loadClient(server.url, testCredentials.root);
    say?.(`kill ${kill + 1}: ${await check()} bytes`);
  }
  wrong.push(...(await fill(client, accountMax - (await check()))));
  client.close();
  await server.stop();
  await rm(server.dataDir, { recursive: true, force: true });
  return wrong;
}

/** What the killed processes held becomes free within a few seconds (two minutes on a busy machine), and not a byte more. */
async function fill(client: LoadClient, free: number): Promise<readonly string[]> {
  const until = performance.now() + 120_000;
  let status = free === 0 ? 200 : 0;
  while (status !== 200 && performance.now() < until)
    ({ status } = await client.send({
      method: 'PUT',
      path: pathOf('two', 'rest'),
      body: Buffer.alloc(free),
    }));
  if (status !== 200) return [`${free} bytes are free, and are refused with ${status}`];
  const more = await client.send({ method: 'PUT', path: pathOf('two', 'more'), body: 'x' });
  return more.status === 403 ? [] : [`a byte above the quota is answered ${more.status}`];
}
