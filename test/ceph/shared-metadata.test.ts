/** The setups of `deploy/`: `sluice serve`, a process per core, objects in Ceph and metadata in TiKV or Cassandra. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { missing, type StoreKind, sharedStore } from '../simulation/shared-store.ts';
import { noCeph } from '../support/engines/ceph.ts';
import { cephPair } from '../support/engines/ceph-pair.ts';
import { Killable, patience } from '../support/killable.ts';
import { elements, pathOf, uploadInParts } from '../support/load-client.ts';
import { bytesOf } from '../support/load-model.ts';

const caseMs = 300_000;
const MiB = 1024 * 1024;
const versioned = 'versioned';

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  const clusters = cephPair();

  for (const kind of ['ordered-kv', 'wide-column'] as const) {
    test
      .skipIf(missing[kind] !== undefined)
      .concurrent(
        `with metadata in ${kind}, a gateway killed in the middle of an evacuation: nothing is lost, and nothing is left in the end ${missing[kind] ?? ''}`,
        () => live(kind),
        caseMs,
      );
  }

  async function live(kind: StoreKind): Promise<void> {
    await using store = await sharedStore(kind);
    await using gateway = await Killable.begin(clusters, kind, {
      ...store.env,
      SVC_PROCESSES: 'auto',
      SVC_INTENT_TTL: '6s',
      SVC_GC_INTERVAL: '500ms',
      SVC_REBALANCE_INTERVAL: '500ms',
      // Send slowly, so that the process is killed in the middle.
      SVC_REBALANCE_RATE: '2MiB',
    });
    const held = await fill(gateway);
    const history = await writeHistory(gateway);
    expect([await gateway.chunks('a'), await gateway.chunks('b')]).not.toContain(0);

    await gateway.admin('POST', '/clusters/a/drain', { mode: 'evacuate' });
    const before = await gateway.chunks('b');
    await vi.waitFor(async () => expect(await gateway.chunks('b')).toBeGreaterThan(before), patience);
    await gateway.kill();
    expect(await gateway.chunks('a'), 'it was killed in the middle').toBeGreaterThan(0);
    await gateway.start({ SVC_REBALANCE_RATE: '1GiB' });
    held.set('meanwhile', bytesOf({ seed: 99, size: 5_000_000 }));
    await gateway.put('meanwhile', held.get('meanwhile') ?? Buffer.of());
    await gateway.expectHeld(held);
    await vi.waitFor(async () => expect(await gateway.chunks('a')).toBe(0), patience);

    await gateway.expectHeld(held);
    expect(await keysIn(gateway)).toEqual([...held.keys()].sort());
    expect(await versionsIn(gateway)).toEqual(history);
    await gateway.expectSound();

    await emptied(gateway, held.keys());
    await vi.waitFor(async () => expect(await gateway.chunks()).toBe(0), patience);
    expect([await keysIn(gateway), await versionsIn(gateway)]).toEqual([[], []]);
    await gateway.expectSound();
  }

  test('the health check of the compose file succeeds on a healthy cluster', async () => {
    const compose = readFileSync(join(import.meta.dirname, '../../deploy/engines/ceph.yaml'), 'utf8');
    const [, command = ''] = parse(compose).services.ceph.healthcheck.test as readonly string[];
    const asked = command.replaceAll('/ceph/', `${dirname(clusters[0]?.conf ?? '')}/`);
    expect(asked).not.toBe(command);
    const { stdout } = await promisify(execFile)('sh', ['-c', asked], { timeout: 60_000 });
    expect(stdout).toContain('active+clean');
  });
});

/** Writes objects of several sizes and one of parts; overwrites and deletes some of them. */
async function fill(gateway: Killable): Promise<Map<string, Buffer>> {
  const { client, bucket } = gateway;
  const held = new Map<string, Buffer>();
  for (let i = 0; i < 24; i += 1) {
    const size = [0, 17, 4096, 300_000, 4 * MiB, 9 * MiB][i % 6] ?? 0;
    held.set(`key/${i}`, bytesOf({ seed: i, size }));
    if (i % 8 === 0) await gateway.put(`key/${i}`, Buffer.from('before'));
    await gateway.put(`key/${i}`, held.get(`key/${i}`) ?? Buffer.of());
  }
  for (const key of ['key/1', 'key/5', 'key/11']) {
    await client.expect({ method: 'DELETE', path: pathOf(bucket, key) });
    held.delete(key);
  }
  const parts = [bytesOf({ seed: 101, size: 5 * MiB }), bytesOf({ seed: 102, size: 1000 })];
  held.set('parts', await uploadInParts(client, { bucket, key: 'parts' }, parts));
  return held;
}

/** A bucket with versions and markers. @returns its versions */
async function writeHistory(gateway: Killable): Promise<readonly string[]> {
  const { client } = gateway;
  await client.expect({ method: 'PUT', path: pathOf(versioned) });
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await client.expect({ method: 'PUT', path: pathOf(versioned), query: { versioning: '' }, body });
  for (let i = 0; i < 12; i += 1) {
    const path = pathOf(versioned, `key/${i % 4}`);
    await client.expect(
      i % 4 === 3 && i < 8
        ? { method: 'DELETE', path }
        : { method: 'PUT', path, body: bytesOf({ seed: i, size: 70_000 }) },
    );
  }
  const versions = await versionsIn(gateway);
  expect(versions).toHaveLength(12);
  return versions;
}

async function keysIn({ client, bucket }: Killable): Promise<readonly string[]> {
  return elements((await client.expect({ path: pathOf(bucket), query: { 'list-type': '2' } })).text, 'Key');
}

async function versionsIn({ client }: Killable): Promise<readonly string[]> {
  const { text } = await client.expect({ path: pathOf(versioned), query: { versions: '' } });
  return elements(text, 'VersionId');
}

async function emptied(gateway: Killable, keys: Iterable<string>): Promise<void> {
  const { client, bucket } = gateway;
  for (const key of keys) await client.expect({ method: 'DELETE', path: pathOf(bucket, key) });
  await gateway.admin('POST', `/buckets/${versioned}/force-empty`);
}
