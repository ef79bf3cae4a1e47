/** A tenant that writes one key all the time does not stop the work that looks for the owners of other bytes. */
import { expect, test, vi } from 'vitest';
import type { FsckFinding } from '../../src/domain/fsck/findings.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { type DomainWorld, domainWorld, intentTtlMs, storedExtents } from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';

const never = new AbortController().signal;
const others = ['key-0', 'key-1', 'key-2'];

/** Writers died in the middle of a PUT of the key `hot` and of others. */
async function unfinished(): Promise<DomainWorld> {
  const world = await domainWorld('Suspended');
  const hanging = world.over(faulty(world.metadata, { commit: () => new Promise<never>(() => {}) }));
  for (const key of ['hot', ...others]) {
    await world.process().put(key, 'stored');
    void hanging.put(key, 'unfinished');
  }
  await vi.waitFor(async () => expect(await storedExtents(world)).toHaveLength(8), { timeout: 60_000 });
  await world.clock.advance(intentTtlMs + 1);
  return world;
}

/** Metadata in which the key `hot` is written again between any two reads of its versions. */
function whileWritten(world: DomainWorld): MetadataStore {
  const writer = world.process();
  return faulty(world.metadata, {
    scan(at, ...rest) {
      const cursor = world.metadata.scan(at, ...rest);
      if (at.table.name !== 'objects') return cursor;
      const next: typeof cursor.next = async (count) => {
        await writer.put('hot', 'again');
        return cursor.next(count);
      };
      return faulty(cursor, { next });
    },
  });
}

test('the sweep settles the unfinished writes of all other keys, and later that of the key', async () => {
  const world = await unfinished();
  await expect(sweep({ ...world, metadata: whileWritten(world) }, never)).rejects.toThrow(
    'never stood still',
  );
  expect(await world.metadata.abandoned()).toHaveLength(1);
  await world.cleanUp();
  expect(await world.metadata.abandoned()).toHaveLength(0);
  expect(await storedExtents(world)).toHaveLength(4);
});

test('a sweep searches the versions of such a key once, however many writes of it were cut short', async () => {
  const world = await unfinished();
  const hanging = world.over(faulty(world.metadata, { commit: () => new Promise<never>(() => {}) }));
  for (let write = 0; write < 10; write += 1) void hanging.put('hot', 'unfinished');
  await vi.waitFor(async () => expect(await storedExtents(world)).toHaveLength(18), { timeout: 60_000 });
  await world.clock.advance(intentTtlMs + 1);
  const metadata = whileWritten(world);
  const scan = vi.spyOn(metadata, 'scan');
  await expect(sweep({ ...world, metadata }, never)).rejects.toThrow('never stood still');
  expect(scan.mock.calls.filter(([at]) => at.table.name === 'objects').length).toBeLessThan(40);
  expect(await world.metadata.abandoned()).toHaveLength(11);
});

test('fsck examines the bytes of all other keys', async () => {
  const world = await unfinished();
  const { id: bucketId } = await world.bucket();
  async function* source() {
    yield new Uint8Array(7);
  }
  for (const key of ['key-0', 'hot'])
    await world.bytes.write(source(), { cluster: 'default', id: `stray-${key}`, owner: { bucketId, key } });
  const found: FsckFinding[] = [];
  const metadata = whileWritten(world);
  const { findings } = await runFsck({ ...world, metadata }, (finding) => void found.push(finding));
  expect(found.map(({ kind, key }) => ({ kind, key }))).toEqual([{ kind: 'unowned', key: 'key-0' }]);
  expect(findings.unowned).toBe(1);
});

test('fsck searches the versions of such a key once for each cluster, however many bytes of it are stored', async () => {
  const world = await unfinished();
  const hanging = world.over(faulty(world.metadata, { commit: () => new Promise<never>(() => {}) }));
  for (let write = 0; write < 10; write += 1) void hanging.put('hot', 'unfinished');
  await vi.waitFor(async () => expect(await storedExtents(world)).toHaveLength(18), { timeout: 60_000 });
  await world.clock.advance(intentTtlMs + 1);
  const metadata = whileWritten(world);
  const scan = vi.spyOn(metadata, 'scan');
  const { findings } = await runFsck({ ...world, metadata }, () => {});
  expect(findings.unowned).toBe(0);
  expect(scan.mock.calls.filter(([at]) => at.table.name === 'objects').length).toBeLessThan(60);
});
