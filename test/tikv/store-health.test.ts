/**
 * Storage health of a gateway whose metadata is on a real PD: every state of a store that PD names, a store without leaders, and a
 * PD that does not answer.
 *
 * PD lists further stores here that a test registers by `PutStore`, as TiKV does at its start. PD derives the state from the last
 * heartbeat that it has of them, so no test waits for a heartbeat to get old. Stubs remain for three answers
 * (test/unit/storage-health.test.ts): an error of HTTP, because this PD has its store in its own process and answers with one only
 * before that store is registered; an answer that is not JSON, because PD never gives one; stores that all lead nothing, because the
 * one region always has a leader. PD does not list a store in the state `Tombstone`.
 */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Channel } from '../../src/backends/tikv/channel.ts';
import { noOwnTikv, type OwnEngine, startOwnTikv } from '../support/engines/tikv.ts';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';

const patience = { timeout: 180_000, interval: 200 };
const callMs = 60_000;

type Field = string | bigint | Buffer;

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7fn; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(left)]);
}

/** A message of Protocol Buffers: pairs of field number and value. */
const message = (...fields: readonly (readonly [number, Field])[]): Buffer =>
  Buffer.concat(
    fields.flatMap(([field, value]) => {
      if (typeof value === 'bigint') return [varint(BigInt(field << 3)), varint(value)];
      const bytes = Buffer.from(value);
      return [varint(BigInt((field << 3) | 2)), varint(BigInt(bytes.length)), bytes];
    }),
  );

interface RegisteredStore {
  readonly id: bigint;
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly version: string;
  /** The age of its last heartbeat; one in the future stays young, however long the test takes. */
  readonly heartbeatAgeMs: number;
}

/** The gRPC call by which TiKV tells PD of itself. */
async function registerStore(endpoint: string, store: RegisteredStore): Promise<void> {
  const cluster = await (await fetch(`http://${endpoint}/pd/api/v1/cluster`)).text();
  // JSON numbers cannot hold an id of 64 bits.
  const clusterId = /"id": ?(\d+)/.exec(cluster)?.[1] ?? '0';
  const labels = Object.entries(store.labels).map(
    ([key, value]) => [4, message([1, key], [2, value])] as const,
  );
  const described = message(
    [1, store.id],
    [2, store.address],
    ...labels,
    [5, store.version],
    [11, BigInt(Date.now() - store.heartbeatAgeMs) * 1_000_000n],
  );
  const channel = new Channel(endpoint, undefined);
  const raw = { encode: (value: object) => value as Buffer, decode: (bytes: Uint8Array) => bytes };
  const request = message([1, message([1, BigInt(clusterId)])], [2, described]);
  try {
    await channel.call({ path: '/pdpb.PD/PutStore', ask: raw, answer: raw }, request, callMs);
  } finally {
    channel.close();
  }
}

const hourMs = 3_600_000;

describe.skipIf(noOwnTikv !== undefined)(
  `storage health on PD${noOwnTikv === undefined ? '' : `: ${noOwnTikv}`}`,
  () => {
    let engine: OwnEngine;
    let endpoint: string;
    let server: TestServer;
    let client: LoadClient;
    beforeAll(async () => {
      engine = await startOwnTikv();
      [endpoint = ''] = engine.endpoints;
      const env = { SVC_META_BACKEND: 'ordered-kv', SVC_KV_PD_ENDPOINTS: endpoint, SVC_WORKERS: '' };
      server = await startServer({ env });
      client = loadClient(server.url, server.credentials.root, 1);
    });
    afterAll(async () => {
      client?.close();
      await server?.kill9();
      await engine?.[Symbol.asyncDispose]();
    });

    const ask = async (report: 'meta' | 'health') =>
      JSON.parse((await client.expect({ path: `/admin/v1/storage/${report}` })).text);
    const states = async (): Promise<readonly string[]> =>
      (await ask('meta')).nodes.map(({ state }: { readonly state: string }) => state);

    test('names the state of every store as PD says it, and a live store without leaders', async () => {
      // The store sends its first heartbeat some seconds after its start.
      await vi.waitFor(
        async () => expect(await ask('health')).toEqual({ ok: true, warnings: [], source: '' }),
        patience,
      );
      const { nodes: first, warnings } = await ask('meta');
      expect(warnings).toEqual([]);
      expect(first).toEqual([
        expect.objectContaining({ dataCenter: 'default', rack: 'default', state: 'UP' }),
      ]);
      const labels = { zone: 'z2', rack: 'r2' };
      const registered = [
        { id: 1002n, address: '127.0.0.1:1002', labels, heartbeatAgeMs: -hourMs },
        // After 20 s, and before 30 min, PD's defaults.
        { id: 1003n, address: '127.0.0.1:1003', labels: {}, heartbeatAgeMs: 300_000 },
        { id: 1004n, address: '127.0.0.1:1004', labels: {}, heartbeatAgeMs: hourMs },
      ];
      const version = '5.0.0';
      for (const store of registered) await registerStore(endpoint, { version, ...store });

      // Again where this process was paused and PD missed heartbeats of the store that runs.
      await vi.waitFor(async () => {
        const { nodes } = await ask('meta');
        expect(nodes).toHaveLength(4);
        for (const node of [
          first[0],
          { name: '127.0.0.1:1002', dataCenter: 'z2', rack: 'r2', releaseVersion: version, state: 'UP' },
          { name: '127.0.0.1:1003', dataCenter: 'default', rack: 'default', state: 'DISCONNECTED' },
          { name: '127.0.0.1:1004', dataCenter: 'default', rack: 'default', state: 'DOWN' },
        ])
          expect(nodes).toContainEqual(expect.objectContaining(node));
        const { ok, warnings: said, source } = await ask('health');
        expect([ok, source]).toEqual([false, 'ordered-kv']);
        expect(said.toSorted()).toEqual([
          'node 127.0.0.1:1003 is DISCONNECTED',
          'node 127.0.0.1:1004 is DOWN',
          'raft leader imbalance: store 1002 has 0 leaders',
        ]);
      }, patience);
    });

    test('names a store that the operator of PD takes offline', async () => {
      const { stores } = (await (await fetch(`http://${endpoint}/pd/api/v1/stores`)).json()) as {
        readonly stores: readonly {
          readonly store: { id: number; address: string };
          status: { region_count?: number };
        }[];
      };
      // The one with the region: PD soon buries an offline store without regions, and lists it no more.
      const own = stores.find(({ status }) => (status.region_count ?? 0) > 0)?.store;
      const set = async (state: string): Promise<void> => {
        const url = `http://${endpoint}/pd/api/v1/store/${own?.id}/state?state=${state}`;
        expect((await fetch(url, { method: 'POST' })).status).toBe(200);
      };
      await set('Offline');
      expect((await ask('health')).warnings).toContain(`node ${own?.address} is OFFLINE`);
      await set('Up');
      expect((await ask('health')).warnings).not.toContain(`node ${own?.address} is OFFLINE`);
    });

    test('names a PD that does not answer within two seconds, and is well again when it answers', async () => {
      engine.signal('SIGSTOP');
      try {
        const said = [`pd endpoints unreachable: ${endpoint} (no answer within 2 s)`];
        // The kernel stops the threads of PD some time after the signal, so the first requests may be answered.
        await vi.waitFor(
          async () => expect(await ask('meta')).toMatchObject({ nodes: [], warnings: said }),
          patience,
        );
        expect(await ask('health')).toEqual({ ok: false, warnings: said, source: 'ordered-kv' });
      } finally {
        engine.signal('SIGCONT');
      }
      await vi.waitFor(async () => expect(await states()).toContain('UP'), patience);
    });

    test('names a PD that nothing listens for any more', async () => {
      await engine.kill9();
      const { nodes, warnings } = await ask('meta');
      expect(nodes).toEqual([]);
      expect(warnings).toEqual([`pd endpoints unreachable: ${endpoint} (connect ECONNREFUSED ${endpoint})`]);
    });
  },
);
