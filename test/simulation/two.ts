/** Two processes over one data directory: as two servers, or as one server with two processes. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { childrenOf } from './kill-rounds.ts';

export interface Two {
  /** Two clients, each with a connection to another process. */
  readonly a: LoadClient;
  readonly b: LoadClient;
  /** Eight clients, alternately on one process and on the other. */
  readonly clients: readonly LoadClient[];
  readonly servers: readonly TestServer[];
  readonly dataDir: string;
  close(): Promise<void>;
}

const clientCount = 8;
const connectionsMax = 100;

export const layouts = ['two servers', 'one server of two processes'] as const;

export async function two(layout: (typeof layouts)[number], env: Record<string, string> = {}): Promise<Two> {
  const own = mkdtempSync(join(tmpdir(), 'sluice-two-'));
  const dataDir = join(own, 'data');
  const settings = { SVC_BUCKET_SHARDS: '4', ...env };
  const isCluster = layout === 'one server of two processes';
  const servers = isCluster
    ? [await startServer({ dataDir, env: { ...settings, SVC_PROCESSES: '2' } })]
    : [await startServer({ dataDir, env: settings }), await startServer({ dataDir, env: settings })];
  const pids = isCluster
    ? childrenOf(servers[0]?.process.pid ?? 0)
    : servers.map(({ process }) => process.pid ?? 0);
  const clients: LoadClient[] = [];
  for (let i = 0; i < clientCount; i += 1) {
    const server = servers[i % servers.length] as TestServer;
    clients.push(await connectedTo(pids[i % 2] as number, server));
  }
  const [a, b] = clients as [LoadClient, LoadClient];
  return {
    a,
    b,
    clients,
    servers,
    dataDir,
    async close() {
      for (const client of clients) client.close();
      await Promise.all(servers.map((server) => server.stop()));
      rmSync(own, { recursive: true, force: true });
    },
  };
}

/** The primary deals connections out in turn, but skips a process that was slow. Opens connections until one goes to `pid`. */
export async function connectedTo(pid: number, { url, credentials }: TestServer): Promise<LoadClient> {
  for (let tries = 0; tries < connectionsMax; tries += 1) {
    const before = socketsOf(pid);
    const client = loadClient(url, credentials.root, 1);
    await client.send({});
    if (socketsOf(pid) > before) return client;
    client.close();
  }
  throw new Error('no connection went to that process');
}

function socketsOf(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

/** Sends each request through the next client. */
export function inTurn(clients: readonly LoadClient[]): LoadClient {
  let turn = 0;
  const next = (): LoadClient => clients[turn++ % clients.length] as LoadClient;
  return {
    send: (spec) => next().send(spec),
    expect: (spec, statuses) => next().expect(spec, statuses),
    close: () => {},
  };
}
