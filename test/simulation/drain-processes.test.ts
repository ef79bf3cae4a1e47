/**
 * Drains with several processes and two gateways under load. After the answer no process of the gateway that answered places a new write
 * on the cluster; the processes of the other gateway stop when their cached views have expired. Nothing is lost.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LoadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { childrenOf } from './kill-rounds.ts';
import { connectedTo } from './two.ts';

const processes = 3;
const rounds = 6;
/** How long a process caches the states of the clusters. */
const viewMs = 30_000;
/** Additional time for a busy machine. */
const slackMs = 20_000;

interface Gateway {
  readonly server: TestServer;
  readonly pids: readonly number[];
  /** One client for each process. */
  readonly clients: readonly LoadClient[];
}

const own = mkdtempSync(join(tmpdir(), 'sluice-drain-'));
const gateways: Gateway[] = [];

async function openOne(): Promise<Gateway> {
  const server = await startServer({
    dataDir: join(own, 'data'),
    env: {
      SVC_PROCESSES: String(processes),
      SVC_POOL_CLUSTERS: 'a,b',
      SVC_REBALANCE_INTERVAL: '1s',
      SVC_REBALANCE_RATE: '1GiB',
      SVC_GC_GRACE: '2s',
      SVC_GC_INTERVAL: '1s',
    },
  });
  const pids = childrenOf(server.process.pid ?? 0);
  const clients: LoadClient[] = [];
  for (const pid of pids) clients.push(await connectedTo(pid, server));
  return { server, pids, clients };
}

beforeAll(async () => {
  for (let i = 0; i < 2; i += 1) gateways.push(await openOne());
  const [client] = (gateways[0] as Gateway).clients;
  for (const bucket of ['pinned', 'free']) await client?.expect({ method: 'PUT', path: pathOf(bucket) });
  await operate(client as LoadClient, 'PUT', '/buckets/pinned/placement', {
    placement: { a: 1 },
    mode: 'strict',
  });
});
afterAll(async () => {
  for (const { clients, server } of gateways) {
    for (const client of clients) client.close();
    await server.stop();
  }
  rmSync(own, { recursive: true, force: true });
});

async function operate(client: LoadClient, method: string, path: string, body?: unknown) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const { text } = await client.expect({ method, path: `/admin/v1${path}`, ...sent });
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

let keys = 0;
/** The answer of each process to a new write that only cluster `a` could accept. */
const pinnedBy = ({ clients }: Gateway): Promise<readonly string[]> =>
  Promise.all(
    clients.map(async (client) => {
      keys += 1;
      const path = pathOf('pinned', `key-${keys}`);
      const { status, text } = await client.send({ method: 'PUT', path, body: 'content' });
      return status === 200 ? 'taken' : (/<Code>(\w+)</.exec(text)?.[1] ?? `${status}`);
    }),
  );
const all = (word: string): string[] => Array.from({ length: processes }, () => word);

/** Clients that write and read their own keys through every process, until they are stopped. */
function startLoad() {
  const stopping = new AbortController();
  const held = new Map<string, string>();
  const working = gateways.flatMap(({ clients }, g) =>
    clients.map(async (client, c) => {
      for (let step = 0; !stopping.signal.aborted; step += 1) {
        const key = `${g}-${c}-${step % 5}`;
        const body = createHash('sha256').update(`${key} ${step}`).digest('hex').repeat(32);
        await client.expect({ method: 'PUT', path: pathOf('free', key), body });
        held.set(key, body);
        expect((await client.expect({ path: pathOf('free', key) })).text, key).toBe(body);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }),
  );
  const ended = Promise.all(working);
  ended.catch(() => undefined);
  return {
    held,
    async stop(): Promise<void> {
      stopping.abort();
      await ended;
    },
  };
}

test('every process of a gateway obeys a drain and its end before they are answered, under load', async () => {
  const [asked] = gateways as [Gateway];
  const load = startLoad();
  for (let round = 0; round < rounds; round += 1) {
    // By now every process has cached a view.
    expect(await pinnedBy(asked), `before round ${round}`).toEqual(all('taken'));
    const client = asked.clients[round % processes] as LoadClient;
    await operate(client, 'POST', '/clusters/a/drain', { mode: 'readonly' });
    for (let look = 0; look < 3; look += 1)
      expect(await pinnedBy(asked), `drained, round ${round}`).toEqual(all('DrainRefused'));
    await operate(client, 'POST', '/clusters/a/undrain', {});
    expect(await pinnedBy(asked), `undrained, round ${round}`).toEqual(all('taken'));
  }
  await load.stop();
});

test('no paused process and no other gateway places objects on a cluster once its drain is answered', async () => {
  const [asked, other] = gateways as [Gateway, Gateway];
  for (const gateway of [asked, other])
    await expect
      .poll(() => pinnedBy(gateway), { timeout: viewMs + slackMs, interval: 500 })
      .toEqual(all('taken'));
  // A process that is stopped in the middle of a commit would block the others.
  const hung = await stopIdle(asked);
  const startedAt = performance.now();
  try {
    await operate(asked.clients[0] as LoadClient, 'POST', '/clusters/a/drain', { mode: 'evacuate' });
  } finally {
    process.kill(hung, 'SIGCONT');
  }
  const tookMs = performance.now() - startedAt;
  expect(tookMs).toBeGreaterThan(viewMs - 1_000);
  expect(tookMs).toBeLessThan(viewMs + slackMs);
  expect(await pinnedBy(asked), 'the gateway that was asked').toEqual(all('DrainRefused'));
  expect(await pinnedBy(other), 'the other one, after the age of its view').toEqual(all('DrainRefused'));
});

test('an evacuation under the load of two gateways ends with nothing on the cluster and nothing lost', async () => {
  const [{ clients }] = gateways as [Gateway];
  const client = clients[0] as LoadClient;
  for (let i = 1; i <= keys; i += 1)
    await client.expect({ method: 'DELETE', path: pathOf('pinned', `key-${i}`) });
  const load = startLoad();
  const left = async (): Promise<unknown> => {
    const { state, chunks, manifests } = await operate(client, 'GET', '/clusters/a/drain-progress');
    return { state, chunks, manifests };
  };
  const nothing = { state: 'evacuating', chunks: 0, manifests: 0 };
  await expect.poll(left, { timeout: 90_000, interval: 500 }).toEqual(nothing);
  await load.stop();
  expect(await left()).toEqual(nothing);
  expect(load.held.size).toBeGreaterThan(0);
  for (const [key, body] of load.held)
    for (const gateway of gateways)
      expect((await (gateway.clients[0] as LoadClient).expect({ path: pathOf('free', key) })).text).toBe(
        body,
      );
});

/** Stops a process between its commits: if another process cannot write meanwhile, it is resumed and stopped again. */
async function stopIdle({ pids, clients }: Gateway): Promise<number> {
  const pid = pids.at(-1) as number;
  for (let tries = 0; tries < 20; tries += 1) {
    process.kill(pid, 'SIGSTOP');
    const path = pathOf('free', 'probe');
    const written = (clients[0] as LoadClient).send({ method: 'PUT', path, body: 'x' });
    const isWritten = await Promise.race([
      written.then(() => true),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 3_000)),
    ]);
    if (isWritten) return pid;
    process.kill(pid, 'SIGCONT');
    await written;
  }
  throw new Error('the process was never idle');
}
