/** `sluice fsck` over real clusters: it reports mismatches and rebuilds a lost index from the pool. */
import { execFile } from 'node:child_process';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { noCeph } from '../support/engines/ceph.ts';
import { cephPair } from '../support/engines/ceph-pair.ts';
import { Killable } from '../support/killable.ts';
import { elements, pathOf, uploadInParts } from '../support/load-client.ts';
import { bytesOf } from '../support/load-model.ts';

const cli = join(import.meta.dirname, '../../src/runtime/cli.ts');
const MiB = 1024 * 1024;

interface Run {
  readonly code: number;
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  readonly summary: Readonly<Record<string, number>>;
}

function fsck({ dataDir, settings }: Killable, ...flags: readonly string[]): Promise<Run> {
  const args = [cli, 'fsck', '--data-dir', dataDir, '--json', ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env: { ...process.env, ...settings } }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      const lines = stdout.split('\n').filter((line) => line !== '');
      if (lines.length === 0) throw new Error(`fsck said nothing: ${stderr}`);
      const told = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
      resolve({ code, lines: told, summary: told.at(-1)?.['summary'] as Run['summary'] });
    });
  });
}

describe.skipIf(noCeph !== undefined)(`fsck on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  const clusters = cephPair();

  /** Objects of every shape, on both clusters. */
  async function fill(gateway: Killable): Promise<Map<string, Buffer>> {
    const { client, bucket } = gateway;
    const held = new Map<string, Buffer>();
    for (const [i, size] of [1, 4096, 70_000, 4 * MiB, 9 * MiB, 300_000, 17, 5_000_000].entries()) {
      held.set(`key ${i}`, bytesOf({ seed: i, size }));
      await gateway.put(`key ${i}`, held.get(`key ${i}`) ?? Buffer.of());
    }
    const parts = [bytesOf({ seed: 101, size: 5 * MiB }), bytesOf({ seed: 102, size: 1000 })];
    held.set('parts', await uploadInParts(client, { bucket, key: 'parts' }, parts));
    return held;
  }

  test('an index that is lost whole is made again from the pools, but for what is encrypted', async () => {
    await using gateway = await Killable.begin(clusters, 'lost');
    const held = await fill(gateway);
    await gateway.put('sealed', Buffer.from('sealed'), { 'x-amz-server-side-encryption': 'AES256' });
    expect([await gateway.chunks('a'), await gateway.chunks('b')]).not.toContain(0);
    await gateway.expectSound();
    await gateway.kill();
    await rm(join(gateway.dataDir, 'metadata'), { recursive: true });

    const told = await fsck(gateway, '--fix');
    expect(told.code).toBe(1);
    const [{ bucketId, left } = {}] = told.lines;
    expect(left).toMatch(/--rebuild/);
    const rebuilt = await fsck(gateway, '--rebuild', `--bucket=${bucketId}:${gateway.bucket}:root-account`);
    expect(rebuilt.summary).toEqual({ rebuilt: held.size + 1, left: 1 });
    expect(rebuilt.lines.filter(({ kind }) => kind === 'left')).toEqual([
      expect.objectContaining({ key: 'sealed' }),
    ]);

    await gateway.start();
    await gateway.expectHeld(held);
    const listed = await gateway.client.expect({ path: pathOf(gateway.bucket), query: { 'list-type': '2' } });
    expect(elements(listed.text, 'Key')).toEqual([...held.keys()].sort());
    await gateway.kill();
    await fsck(gateway, '--fix');
    await gateway.start();
    await gateway.expectSound();
    await gateway.expectHeld(held);
  });

  test('fsck --rebuild restores objects that a backup of the index lacks, and fsck reports a missing chunk with its object', async () => {
    await using gateway = await Killable.begin(clusters, 'backup');
    const [metadata, backup] = ['metadata', 'backup'].map((name) => join(gateway.dataDir, name)) as [
      string,
      string,
    ];
    const held = await fill(gateway);
    await gateway.kill();
    await cp(metadata, backup, { recursive: true });
    await gateway.start();
    held.set('since', bytesOf({ seed: 200, size: 6_000_000 }));
    await gateway.put('since', held.get('since') ?? Buffer.of());
    await gateway.kill();
    await rm(metadata, { recursive: true });
    await cp(backup, metadata, { recursive: true });

    const told = await fsck(gateway);
    expect([told.code, told.summary['found']]).toEqual([1, 1]);
    expect(told.lines[0]).toMatchObject({ kind: 'unowned', key: 'since' });
    expect((await fsck(gateway, '--rebuild')).summary).toEqual({ rebuilt: 1, left: 0 });
    await gateway.start();
    await gateway.expectHeld(held);
    await gateway.expectSound();
    await gateway.kill();

    const lost = await removeSecondChunk();
    const missing = await fsck(gateway);
    expect([missing.code, missing.summary['found']]).toEqual([1, 1]);
    expect(missing.lines[0]).toMatchObject({ kind: 'missing', extent: lost });
    const key = String(missing.lines[0]?.['key']);
    await gateway.start();
    const read = await gateway.get(key).catch(() => undefined);
    expect(read?.status, 'the bytes before it may have been sent').not.toBe(200);
    held.delete(key);
    await gateway.expectHeld(held);
  });

  test('fsck reports an extent that lost its beginning, middle or end with its object, and removes all of it where it has no owner', async () => {
    await using gateway = await Killable.begin(clusters, 'torn');
    const [metadata, backup] = [join(gateway.dataDir, 'metadata'), join(gateway.dataDir, 'backup')];
    const held = await fill(gateway);
    await gateway.kill();
    await cp(metadata, backup, { recursive: true });
    await gateway.start();
    const before = await gateway.chunks();
    /** The chunks that each object loses. */
    const torn = {
      beginning: { chunks: 18, lost: Array.from({ length: 16 }, (_, i) => i) },
      middle: { chunks: 3, lost: [1] },
      end: { chunks: 3, lost: [2] },
    };
    for (const [key, { chunks, lost }] of Object.entries(torn)) {
      const known = new Set((await namesIn('torn')).map(({ name }) => name));
      await gateway.put(key, bytesOf({ seed: chunks, size: (chunks - 1) * 4 * MiB + 5 }));
      const added = (await namesIn('torn')).filter(({ name }) => !known.has(name));
      expect(added).toHaveLength(chunks);
      const gone = added.filter(({ name }) => lost.some((index) => name.endsWith(`.${index}`)));
      await gone[0]?.cluster.rados('-p', 'chunks', '-N', 'torn', 'rm', ...gone.map(({ name }) => name));
    }
    await gateway.kill();
    const keysOf = ({ lines }: Run, kind: string) =>
      lines.filter((line) => line['kind'] === kind).map(({ key }) => String(key));
    const owned = await fsck(gateway);
    expect([owned.code, owned.summary['found']]).toEqual([1, 3]);
    expect(keysOf(owned, 'missing')).toEqual(Object.keys(torn).sort());

    await rm(metadata, { recursive: true });
    await cp(backup, metadata, { recursive: true });
    const unowned = await fsck(gateway, '--fix');
    expect([unowned.code, unowned.summary['found'], unowned.summary['fixed']]).toEqual([0, 3, 3]);
    expect(keysOf(unowned, 'unowned').sort()).toEqual(Object.keys(torn).sort());
    await gateway.start();
    await gateway.expectSound();
    expect(await gateway.chunks()).toBe(before);
    await gateway.expectHeld(held);
  });

  async function namesIn(namespace: string) {
    const listed = await Promise.all(
      clusters.map(async (cluster) => {
        const names = (await cluster.rados('-p', 'chunks', '-N', namespace, 'ls')).split('\n');
        return names.filter((name) => name !== '').map((name) => ({ cluster, name }));
      }),
    );
    return listed.flat();
  }

  /** @returns the extent */
  async function removeSecondChunk(): Promise<string> {
    for (const cluster of clusters) {
      const names = (await cluster.rados('-p', 'chunks', '-N', 'backup', 'ls')).split('\n');
      const name = names.find((each) => each.endsWith('.1'));
      if (name === undefined) continue;
      await cluster.rados('-p', 'chunks', '-N', 'backup', 'rm', name);
      return name.slice(0, -2);
    }
    throw new Error('no extent of two chunks');
  }
});
