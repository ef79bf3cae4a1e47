/** `fsck --deep`, and fsck over damaged metadata: what it reports, and what it leaves unchanged. */
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FsckFinding, runFsck } from '../../src/domain/fsck/fsck.ts';
import { rebuildIndex } from '../../src/domain/fsck/rebuild.ts';
import { compareAll } from '../../src/workers/fsck.ts';
import { scrubAll } from '../../src/workers/scrub.ts';
import { bytesIn } from '../contract/file-fixture.ts';
import { operatorOf } from '../support/clusters.ts';
import { filesUnder } from '../support/flip-bits.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';

let directory = '';
const openWorld = (): Promise<GatewayWorld> => openGateway({ settings: { SVC_DATA_DIR: directory } });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Flips a bit of every `text` in files whose path contains `part`. */
async function flip(part: string, text: string): Promise<void> {
  let flips = 0;
  for (const path of filesUnder(directory).filter((each) => each.includes(part))) {
    const bytes = await readFile(path);
    for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
      bytes[at] = (bytes[at] as number) ^ 2;
      flips += 1;
    }
    await writeFile(path, bytes);
  }
  expect(flips).toBeGreaterThan(0);
}

async function compare(world: GatewayWorld, { deep = false, fix = false } = {}) {
  const findings: FsckFinding[] = [];
  const mode = { fix, drop: fix, deep };
  const summary = await runFsck(world.context, (finding) => void findings.push(finding), { mode });
  return { findings, summary };
}

const large = `${'a'.repeat(100_000)}the middle${'b'.repeat(200_000)}`;

async function fill(): Promise<void> {
  await using world = await openWorld();
  await world.client.put('/bucket');
  for (const key of ['first', 'second', 'third'])
    await world.client.put(`/bucket/${key}`, {
      body: `${key} ${large}`,
      headers: { 'x-amz-meta-mark': `m-${key}` },
    });
}

describe('fsck --deep', () => {
  it('names an object that is damaged in its middle, which fsck alone does not read', async () => {
    await fill();
    await flip('chunks', 'the middle');
    await using world = await openWorld();
    expect((await compare(world)).findings).toEqual([]);
    const { findings } = await compare(world, { deep: true });
    expect(findings.map(({ kind, bucket, key }) => ({ kind, bucket, key }))).toEqual(
      ['first', 'second', 'third'].map((key) => ({ kind: 'damaged', bucket: 'bucket', key })),
    );
  });

  it('finds nothing in a sound directory', async () => {
    await fill();
    await using world = await openWorld();
    const { summary } = await compare(world, { deep: true });
    expect([summary.versions, summary.found]).toEqual([3, 0]);
  });
});

describe('POST /admin/v1/fsck', () => {
  it('with deep names an object that is damaged in its middle, and without it does not', async () => {
    await fill();
    await flip('chunks', 'the middle');
    await using world = await openWorld();
    const admin = operatorOf(world);
    for (const deep of [false, true]) {
      expect(await admin.must('POST', '/fsck', deep ? { deep } : {})).toMatchObject({
        state: 'running',
        deep,
      });
      const unit = compareAll(world.context);
      for (let turn = 0; turn < 20; turn += 1) await unit(new AbortController().signal);
      const damaged = deep ? 3 : 0;
      expect(await admin.must('GET', '/fsck')).toMatchObject({ state: 'done', deep, findings: { damaged } });
    }
    expect(
      (await world.as({ credential: operator }).post('/admin/v1/fsck', { body: '{"deep":1}' })).status,
    ).toBe(400);
  });
});

describe('the scrub worker', () => {
  it('names an object that is damaged in its middle', async () => {
    await fill();
    await flip('chunks', 'the middle');
    await using world = await openWorld();
    const unit = scrubAll(world.context);
    // Objects of the millisecond in which a pass begins belong to the next pass.
    await world.context.clock.sleep(2);
    for (let turn = 0; turn < 3; turn += 1) await unit(new AbortController().signal);
    const found = await operatorOf(world).must('GET', '/scrub');
    const damaged = ['first', 'second', 'third'].map((key) => ({ kind: 'damaged', bucket: 'bucket', key }));
    expect(found).toMatchObject({ state: 'done', damaged: 3, damagedList: damaged });
  });
});

describe('fsck over damaged metadata', () => {
  it('names the row by bucket and key, and checks the others', async () => {
    await fill();
    await flip('data.mdb', 'm-second');
    await using world = await openWorld();
    const { findings, summary } = await compare(world);
    expect(findings).toContainEqual(
      expect.objectContaining({ kind: 'metadata', table: 'objects', bucket: 'bucket', key: 'second' }),
    );
    expect(summary.versions).toBe(2);
  });

  it('--fix queues no bytes for deletion while metadata is damaged', async () => {
    await fill();
    await flip('data.mdb', 'second\0');
    await using world = await openWorld();
    const before = await world.stored();
    const { findings, summary } = await compare(world, { fix: true });
    expect(summary.fixed).toBe(0);
    expect(findings.map(({ kind }) => kind)).toContain('metadata');
    await world.gc();
    expect(await world.stored()).toEqual(before);
  });

  it('--rebuild changes nothing where one of its buckets cannot be restored', async () => {
    await fill();
    await using world = await openWorld();
    const id = (digit: string): string => digit.repeat(32);
    const buckets = [
      { id: id('1'), name: 'another', owner: 'alice-account' },
      { id: id('2'), name: 'bucket', owner: 'alice-account' },
    ];
    await expect(rebuildIndex(world.context, { buckets, report: () => {} })).rejects.toThrow(
      'there is another bucket bucket',
    );
    expect((await world.client.head('/another')).status).toBe(404);
  });
});

describe('small objects that gc removed, after an older metadata was restored', () => {
  for (const [flag, mode] of [
    ['--fix', { fix: true, drop: false }],
    ['--drop-missing', { fix: false, drop: true }],
  ] as const)
    it(`are found, and ${flag} keeps their bytes through every packing`, async () => {
      const keys = Array.from({ length: 8 }, (_, n) => `key-${n}`);
      const { client, gc, ...world } = await openWorld();
      await client.put('/bucket');
      for (const key of keys) await client.put(`/bucket/${key}`, { body: `content of ${key}` });
      await cp(join(directory, 'metadata'), `${directory}-backup`, { recursive: true });
      // Delete fewer than half of the segment's chunks, so that it is not packed yet.
      const deleted = keys.slice(0, 3);
      for (const key of deleted) await client.delete(`/bucket/${key}`);
      await gc();
      await world[Symbol.asyncDispose]();
      await rm(join(directory, 'metadata'), { recursive: true });
      await rename(`${directory}-backup`, join(directory, 'metadata'));

      await using restored = await openWorld();
      const named = deleted.map((key) => ['removed', key]);
      expect((await compare(restored)).findings.map(({ kind, key }) => [kind, key])).toEqual(named);
      const findings: FsckFinding[] = [];
      await runFsck(restored.context, (finding) => void findings.push(finding), { mode });
      expect(findings.filter(({ fixed }) => fixed === 'its bytes are kept')).toHaveLength(named.length);
      expect((await compare(restored)).findings).toEqual([]);
      // Now more than half are deleted.
      for (const key of keys.slice(3)) await restored.client.delete(`/bucket/${key}`);
      const before = await bytesIn(`${directory}/chunks`);
      await restored.gc();
      expect(await bytesIn(`${directory}/chunks`)).toBeLessThan(before);
      for (const key of deleted)
        expect((await restored.client.get(`/bucket/${key}`)).text).toBe(`content of ${key}`);
    });
});
