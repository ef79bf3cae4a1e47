/** fsck on owners: bytes that two rows own, and owned bytes in the deletion queue. */
import { expect, test } from 'vitest';
import { queueGarbageAll } from '../../../src/domain/common/garbage.ts';
import { type FsckFinding, type FsckMode, runFsck } from '../../../src/domain/fsck/fsck.ts';
import { RepeatedIds } from '../../../src/domain/fsck/owners.ts';
import { findLiveHead, objectsAt } from '../../../src/metadata/objects/objects.ts';
import { uploadAt } from '../../../src/metadata/objects/uploads.ts';
import { type DomainWorld, domainWorld, storedExtents } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';

const fix: FsckMode = { fix: true, drop: false };

async function fsck(world: DomainWorld, mode: FsckMode = { fix: false, drop: false }) {
  const findings: FsckFinding[] = [];
  await runFsck(world, (finding) => void findings.push(finding), { mode });
  return findings;
}
async function headOf(world: DomainWorld, key: string) {
  const head = await findLiveHead(world.metadata, await world.bucket(), key);
  if (head === undefined || !('extents' in head.row.manifest)) throw new Error('no extents');
  return { ...head, extents: head.row.manifest.extents };
}
async function queue(world: DomainWorld, ...keys: readonly string[]): Promise<void> {
  const extents = (await Promise.all(keys.map((key) => headOf(world, key)))).flatMap((head) => head.extents);
  const due = (await world.metadata.now()) + 1;
  await world.metadata.apply(queueGarbageAll(extents, { id: 'planted', requestId: 'r', due }));
}

test('a row of the deletion queue that names bytes of a version is found, and --fix takes the row away', async () => {
  const world = await domainWorld();
  for (const key of ['a', 'b', 'gone']) await world.process().put(key, key);
  const stored = await storedExtents(world);
  await queue(world, 'a', 'b', 'gone');
  await world.process().remove('gone');
  expect((await fsck(world)).map(({ kind, key }) => [kind, key]).sort()).toEqual([
    ['queued', 'a'],
    ['queued', 'b'],
  ]);
  // One row of the queue names both extents.
  expect(await fsck(world, fix)).toMatchObject([{ kind: 'queued', fixed: 'taken from the deletion queue' }]);
  expect(await fsck(world)).toEqual([]);
  await world.cleanUp();
  // The deletion of the object had queued its bytes too.
  expect((await storedExtents(world)).length).toBe(stored.length - 1);
  for (const key of ['a', 'b']) expect((await headOf(world, key)).row.size).toBe(1);
  expect(await fsck(world)).toEqual([]);
});

test('two versions that own one extent are found, and an upload part and a version', async () => {
  const world = await domainWorld('Enabled');
  const client = world.process();
  for (const key of ['a', 'b', 'c']) await client.put(key, 'content');
  const bucket = await world.bucket();
  const [a, b, c] = [await headOf(world, 'a'), await headOf(world, 'b'), await headOf(world, 'c')];
  const put = { ...b.row, manifest: a.row.manifest };
  await world.metadata.commit(objectsAt(bucket), [{ put, expect: b.revision }]);
  const uploadId = await client.createUpload('upload');
  await client.putPart('upload', uploadId, { part: 1, text: 'content' });
  const part = await world.metadata.get(uploadAt(uploadId), { part: 1 });
  if (part?.row.stored === undefined) throw new Error('no part');
  const row = { ...part.row, stored: { ...part.row.stored, extent: c.extents[0] as (typeof c.extents)[0] } };
  await world.metadata.commit(uploadAt(uploadId), [{ put: row, expect: part.revision }]);

  const shared = (await fsck(world, fix)).filter(({ kind }) => kind === 'shared');
  expect(shared.map(({ extent }) => extent).sort()).toEqual([a.extents[0]?.id, c.extents[0]?.id].sort());
  const texts = shared.map((finding) => JSON.stringify(finding));
  for (const [one, two] of [
    [`"key":"a"`, 'key=b'],
    [`"part":1`, 'key=c'],
  ] as const)
    expect(texts.some((text) => text.includes(one) && text.includes(two))).toBe(true);
  for (const { left } of shared) expect(left).toMatch(/from a copy/);
  expect(await storedExtents(world)).toEqual(expect.arrayContaining(shared.map(({ extent }) => extent)));
});

test('writers that overwrite, delete and complete uploads meanwhile share nothing', async () => {
  const world = await domainWorld('Enabled');
  const client = world.process();
  for (let i = 0; i < 20; i += 1) await client.put(`key-${i}`, 'content');
  let step = 0;
  const scan: DomainWorld['metadata']['scan'] = (at, range) => {
    const cursor = world.metadata.scan(at, range);
    return faulty(cursor, {
      next: async (count: number) => {
        const page = await cursor.next(count);
        if (step < 100 && (at.table.name === 'objects' || at.table.name === 'upload_index')) {
          const key = `key-${step++ % 20}`;
          await client.put(key, 'newer');
          const id = await client.createUpload(key);
          const { etag } = await client.putPart(key, id, { part: 1, text: 'part' });
          await client.complete(key, id, [{ number: 1, etag }]);
          await client.remove(key);
        }
        return page;
      },
    });
  };
  const racing = { ...world, metadata: faulty(world.metadata, { scan }) };
  const findings = await fsck(racing, fix);
  expect(findings.filter(({ kind }) => kind === 'shared' || kind === 'queued')).toEqual([]);
  expect(step).toBeGreaterThan(5);
});

test('every id that occurs twice is a candidate in one of the passes, and few others are', () => {
  const ids = Array.from({ length: 20_000 }, (_, i) => `${(i * 7919).toString(16)}.${i}`);
  const twice = new Set(ids.filter((_, i) => i % 100 === 0));
  const found = new Set<string>();
  for (let pass = 0; pass < 4; pass += 1) {
    const repeated = new RepeatedIds(ids.length, { passes: 4, pass });
    for (const id of [...ids, ...twice]) repeated.add(id);
    for (const id of repeated.candidates) {
      expect(found.has(id)).toBe(false);
      found.add(id);
    }
  }
  expect([...twice].filter((id) => !found.has(id))).toEqual([]);
  expect(found.size).toBeLessThan(twice.size + ids.length / 100);
});
