/** Storage health of real clusters: their own warnings, and each pool. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { chunkBytes } from '../../src/ports/object-bytes.ts';
import { contentOf } from '../contract/chunk-store.ts';
import { type Operator, operatorOf } from '../support/clusters.ts';
import { type CephCluster, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';

const patience = { timeout: 180_000, interval: 250 };
const caseMs = 300_000;

interface Report {
  readonly clusters: readonly { readonly cluster: string; readonly status: string }[];
  readonly pools: readonly {
    readonly pool: string;
    readonly namespace: string;
    readonly state: string;
    readonly BytesUsed: number;
    readonly ChunkCount: number;
    readonly BytesFree?: number;
  }[];
  readonly warnings: readonly string[];
}

describe.skipIf(noCeph !== undefined)(`health of Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let world: GatewayWorld;
  let admin: Operator;
  beforeAll(async () => {
    ceph = await startCeph(['chunks', 'cold']);
    world = await openGateway({
      settings: {
        ...settingsOf(ceph),
        SVC_STORAGE_CLASSES: 'standard-ia=cold,archive=cold/ice',
      },
    });
    admin = operatorOf(world);
    await world.client.put('/bucket');
    const body = contentOf('body', 3 * chunkBytes);
    expect((await world.client.put('/bucket/key', { body })).status).toBe(200);
  });
  afterAll(async () => {
    await world?.close();
    await ceph?.[Symbol.asyncDispose]();
  });

  const report = async () => (await admin.must('GET', '/storage/data')) as unknown as Report;
  const expectStatus = (status: string): Promise<void> =>
    vi.waitFor(async () => {
      const { clusters, warnings } = await report();
      expect(clusters).toEqual([{ cluster: 'a', status }]);
      expect(warnings).toEqual(status === 'HEALTH_OK' ? [] : [`${status} (cluster a)`]);
      const source = status === 'HEALTH_OK' ? '' : 'cluster-pool';
      expect(await admin.must('GET', '/storage/health')).toEqual({ ok: source === '', warnings, source });
    }, patience);

  /** Waits until Ceph reports this number of health checks; returns their messages. */
  const problems = (count: number): Promise<string[]> =>
    vi.waitFor(async () => {
      const { checks } = JSON.parse(await ceph.ceph('health', '--format', 'json')) as {
        readonly checks: Readonly<Record<string, { readonly summary: { readonly message: string } }>>;
      };
      const messages = Object.values(checks).map(({ summary }) => summary.message);
      expect(messages).toHaveLength(count);
      return messages.sort();
    }, patience);
  const warn = (list: readonly string[]): string => `HEALTH_WARN: ${list.slice(0, 5).join('; ')}`;
  /** Overrides the settings of the configuration file. */
  const set = (name: string, value: string) => ceph.ceph('tell', 'mon.a', 'config', 'set', name, value);
  const setWarnings = async (on: boolean): Promise<void> => {
    await ceph.ceph('osd', on ? 'set' : 'unset', 'noout');
    await ceph.ceph('osd', 'set-nearfull-ratio', on ? '0.0001' : '0.85');
    await set('mon_warn_on_pool_no_redundancy', String(on));
    await set('mon_data_avail_warn', on ? '100' : '2');
    await set('auth_allow_insecure_global_id_reclaim', String(on));
  };

  test('a healthy cluster has no warning; an unhealthy one reports its problems, five at most, in order, without muted ones', {
    timeout: caseMs,
  }, async () => {
    await expectStatus('HEALTH_OK');
    await ceph.ceph('osd', 'set', 'noout');
    await expectStatus('HEALTH_WARN: noout flag(s) set');
    await ceph.ceph('health', 'mute', 'OSDMAP_FLAGS');
    await expectStatus('HEALTH_OK');
    await ceph.ceph('health', 'unmute', 'OSDMAP_FLAGS');

    await setWarnings(true);
    const all = await problems(6);
    expect(all).toEqual(expect.arrayContaining(['1 nearfull osd(s)', 'noout flag(s) set']));
    await expectStatus(warn(all));
    await ceph.ceph('health', 'mute', 'OSD_NEARFULL');
    await expectStatus(warn(all.filter((message) => message !== '1 nearfull osd(s)')));
    await ceph.ceph('health', 'unmute', 'OSD_NEARFULL');
    await setWarnings(false);
    await expectStatus('HEALTH_OK');
  });

  test('a deleted pool is reported as an error for each of its namespaces, beside the other pools', {
    timeout: caseMs,
  }, async () => {
    const sound = { pool: 'chunks', namespace: '', state: 'ok', ChunkCount: 3, BytesUsed: 3 * chunkBytes };
    const pools = async () =>
      (await report()).pools.map(({ pool, namespace, state }) => [pool, namespace, state]);
    await vi.waitFor(async () => expect((await report()).pools[0]).toMatchObject(sound), patience);
    const { pools: shown } = JSON.parse(await ceph.ceph('df', '--format', 'json')) as {
      readonly pools: readonly { readonly name: string; readonly stats: { readonly max_avail: number } }[];
    };
    const free = shown.find(({ name }) => name === 'chunks')?.stats.max_avail ?? 0;
    // Of the same size; the cluster itself writes meanwhile.
    const [{ BytesFree = 0 } = {}] = (await report()).pools;
    expect(BytesFree).toBeGreaterThan(0);
    expect(Math.abs(BytesFree / free - 1)).toBeLessThan(0.2);
    expect(await pools()).toEqual([
      ['chunks', '', 'ok'],
      ['cold', '', 'ok'],
      ['cold', 'ice', 'ok'],
    ]);
    await ceph.ceph('osd', 'pool', 'delete', 'cold', 'cold', '--yes-i-really-really-mean-it');
    await vi.waitFor(async () => {
      expect(await pools()).toEqual([
        ['chunks', '', 'ok'],
        ['cold', '', 'error'],
        ['cold', 'ice', 'error'],
      ]);
    }, patience);
    const {
      pools: [first],
      warnings,
    } = await report();
    expect(first).toMatchObject(sound);
    expect(warnings).toEqual([expect.stringMatching(/^pool stats failed for cold: .+ \(cluster a\)$/)]);
    await ceph.ceph('osd', 'pool', 'create', 'cold', '8');
    await ceph.ceph('osd', 'pool', 'application', 'enable', 'cold', 'sluice');
    await expectStatus('HEALTH_OK');
    expect((await pools()).map(([, , state]) => state)).toEqual(['ok', 'ok', 'ok']);
  });
});
