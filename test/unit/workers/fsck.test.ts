import { expect, test } from 'vitest';
import { type FsckFinding, runFsck } from '../../../src/domain/fsck/fsck.ts';
import { usageChanges } from '../../../src/metadata/buckets/usage.ts';
import { type BucketRow, objects } from '../../../src/metadata/tables.ts';
import { type DomainWorld, domainWorld, intentTtlMs } from '../../support/domain-world.ts';

async function fsck(world: DomainWorld) {
  const findings: FsckFinding[] = [];
  const summary = await runFsck(world, (finding) => void findings.push(finding));
  expect(summary.found).toBe(findings.length);
  return { summary, findings };
}

/** A world with objects and uploads of every kind. */
async function lived(): Promise<DomainWorld> {
  const world = await domainWorld();
  const client = world.process();
  await client.put('plain', 'plain');
  await client.put('empty', '');
  await client.put('overwritten', 'one');
  await client.put('overwritten', 'two');
  await client.put('gone', 'gone');
  await client.remove('gone');
  await world.setVersioning('Enabled');
  await client.put('plain', 'newer');
  await client.remove('plain');
  await client.put('big', 'x'.repeat(100_000));
  const open = await client.createUpload('open');
  await client.putPart('open', open, { part: 1, text: 'one' });
  const done = await client.createUpload('done');
  const { etag } = await client.putPart('done', done, { part: 1, text: 'one' });
  await client.putPart('done', done, { part: 2, text: 'not listed' });
  await client.complete('done', done, [{ number: 1, etag }]);
  const aborted = await client.createUpload('aborted');
  await client.putPart('aborted', aborted, { part: 1, text: 'one' });
  await client.abort('aborted', aborted);
  return world;
}

async function extentOf(world: DomainWorld, key: string) {
  const bucket: BucketRow = await world.bucket();
  const [found] = await world.metadata
    .scan({ table: objects, in: { bucketId: bucket.id } }, { from: { space: 0, key } })
    .next(1);
  const manifest = found?.row.manifest;
  const extent = manifest && 'extents' in manifest ? manifest.extents[0] : undefined;
  if (extent === undefined || found?.row.key !== key) throw new Error(`${key} has no extent`);
  return extent;
}

test('finds nothing where everything is in order, before gc and after it', async () => {
  const world = await lived();
  const before = await fsck(world);
  expect(before.findings).toEqual([]);
  expect(before.summary).toMatchObject({ buckets: 1, versions: 6, parts: 1 });
  expect(before.summary.leaving).toBeGreaterThan(0);
  await world.cleanUp();
  const after = await fsck(world);
  expect(after.findings).toEqual([]);
  expect(after.summary.leaving).toBe(0);
  expect(after.summary.stored).toBe(after.summary.named);
});

test('reports missing bytes with their object', async () => {
  const world = await lived();
  const extent = await extentOf(world, 'big');
  await world.bytes.remove([extent]);
  const { findings } = await fsck(world);
  expect(findings).toMatchObject([{ kind: 'missing', bucket: 'bucket', key: 'big', extent: extent.id }]);
});

test('reports stored bytes without an owner', async () => {
  const world = await lived();
  const { id: bucketId } = await world.bucket();
  const source = (async function* () {
    yield new Uint8Array(3);
  })();
  await world.bytes.write(source, { cluster: 'default', id: 'stray', owner: { bucketId, key: 'k' } });
  const { findings } = await fsck(world);
  expect(findings).toMatchObject([{ kind: 'unowned', extent: 'stray', key: 'k' }]);
});

test('does not report what the sweep is about to examine', async () => {
  const world = await lived();
  for (let call = 1, hasDied = true; hasDied; call += 1) {
    const dying = world.process({ call, when: 'after' });
    void dying.put('key', 'never acknowledged');
    for (let turn = 0; turn < 50; turn += 1) await world.clock.settle();
    hasDied = dying.hasDied();
  }
  await world.clock.advance(intentTtlMs + 1);
  const { findings, summary } = await fsck(world);
  expect(findings).toEqual([]);
  expect(summary.leaving).toBeGreaterThan(3);
});

test('finds a counter that differs from the sum', async () => {
  const world = await lived();
  const { id } = await world.bucket();
  await world.metadata.apply(
    usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes: 7, objects: 0 }]),
  );
  const { findings } = await fsck(world);
  expect(findings).toMatchObject([{ kind: 'usage', bucket: 'bucket' }]);
});
