/** `fsck --fix` on damage of each kind; data that it may not touch stays. */
import { describe, expect, test } from 'vitest';
import {
  Fsck,
  type FsckFinding,
  type FsckMode,
  type FsckState,
  fromTheStart,
  runFsck,
} from '../../../src/domain/fsck/fsck.ts';
import { rebuildIndex } from '../../../src/domain/fsck/rebuild.ts';
import { findBucket, replaceBucket } from '../../../src/metadata/buckets/buckets.ts';
import { readBucketUsage, readUsage, usageChanges } from '../../../src/metadata/buckets/usage.ts';
import { findLiveHead, objectsAt } from '../../../src/metadata/objects/objects.ts';
import { type Lock, uploadIndex } from '../../../src/metadata/tables.ts';
import type { Owner } from '../../../src/ports/object-bytes.ts';
import { type DomainWorld, domainWorld, storedExtents } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';
import { lateAdditions } from '../../support/late-additions.ts';

const fix = { fix: true, drop: false };
const drop = { fix: true, drop: true };
const never = new AbortController().signal;

async function fsck(world: DomainWorld, mode: FsckMode = { fix: false, drop: false }) {
  const findings: FsckFinding[] = [];
  const summary = await runFsck(world, (finding) => void findings.push(finding), { mode });
  return { summary, findings };
}
const inPiece = async function* (size: number) {
  yield new Uint8Array(size);
};
async function plant(world: DomainWorld, id: string, owner: Partial<Owner> = {}): Promise<void> {
  const { id: bucketId } = await world.bucket();
  const given = { cluster: 'default', id, owner: { bucketId, key: 'k', ...owner } };
  await world.bytes.write(inPiece(3), { ...given, storageClass: 'STANDARD' });
}
async function losing(world: DomainWorld, key: string): Promise<void> {
  const head = await findLiveHead(world.metadata, await world.bucket(), key);
  if (head === undefined || !('extents' in head.row.manifest)) throw new Error('no extents');
  await world.bytes.remove(head.row.manifest.extents);
}

test('bytes without an owner are queued for gc, once no commit can give them one', async () => {
  const world = await domainWorld();
  await world.process().put('kept', 'content');
  await plant(world, 'stray');
  const { findings, summary } = await fsck(world, fix);
  expect(findings).toMatchObject([{ kind: 'unowned', extent: 'stray', fixed: 'queued for deletion' }]);
  expect(summary).toMatchObject({ found: 1, fixed: 1 });
  // fsck does not remove the bytes immediately: it queues them with a grace period, and the next run reports them as leaving.
  expect(await storedExtents(world)).toContain('stray');
  expect((await fsck(world, fix)).summary).toMatchObject({ found: 0, leaving: 1 });
  await world.cleanUp();
  expect(await storedExtents(world)).not.toContain('stray');
  expect((await fsck(world)).summary).toMatchObject({ found: 0, stored: 1 });
});

test('bytes of an open op are not touched', async () => {
  const world = await domainWorld();
  const op = await world.metadata.begin({ cluster: 'default' });
  // The names that a write, a move to another cluster and an upload held by its store give to their bytes.
  for (const id of [op.id, `${op.id}.3`, `${op.id}.${'f'.repeat(32)}`]) await plant(world, id);
  for (const mode of [fix, drop])
    expect((await fsck(world, mode)).summary).toMatchObject({ found: 0, underway: 3 });
  await world.cleanUp();
  expect(await storedExtents(world)).toEqual([]);
});

test('bytes whose owner is committed while they are judged stay', async () => {
  const world = await domainWorld();
  const slow = world.process();
  const { metadata } = world;
  let writing: Promise<unknown> | undefined;
  // The write continues at the worst time: right after fsck has read whether its op is open.
  const judged = faulty(metadata, {
    isOpen: async (id: string) => {
      const isOpen = await metadata.isOpen(id);
      await writing;
      return isOpen;
    },
  });
  writing = slow.put('key', 'content');
  const { summary } = await fsck({ ...world, metadata: judged }, fix);
  await writing;
  expect(summary.findings.unowned).toBe(0);
  await world.cleanUp();
  expect((await fsck(world)).summary).toMatchObject({ found: 0, stored: 1 });
});

test('bytes of an unknown bucket are kept, because they may be another gateway’s', async () => {
  const world = await domainWorld();
  await plant(world, 'foreign', { bucketId: 'f'.repeat(32) });
  const { findings, summary } = await fsck(world, drop);
  expect(findings).toMatchObject([{ kind: 'unowned', bucketId: 'f'.repeat(32), left: expect.any(String) }]);
  expect(summary.fixed).toBe(0);
  await world.cleanUp();
  expect(await storedExtents(world)).toEqual(['foreign']);
});

test('a counter is corrected by what it is off, and stays right under writers', async () => {
  const world = await domainWorld();
  const client = world.process();
  await client.put('key', 'content');
  const { id } = await world.bucket();
  const { updatedAt } = await readBucketUsage(world.metadata, id);
  await world.metadata.apply(
    usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes: 70, objects: -3 }]),
  );
  expect((await fsck(world, fix)).findings).toMatchObject([{ kind: 'usage', fixed: 'counter corrected' }]);
  const classes = new Map([['STANDARD', { bytes: 7, objects: 1 }]]);
  // A correction is no write of a client.
  expect(await readBucketUsage(world.metadata, id)).toEqual({ classes, updatedAt });
  expect(updatedAt).toEqual(expect.any(Number));
  expect((await fsck(world)).summary.found).toBe(0);
});

const usageIn = async (world: DomainWorld) => readUsage(world.metadata, (await world.bucket()).id);

test('the additions of a gateway that was killed right after its commits are not added by fsck too', async () => {
  const world = await domainWorld();
  const { metadata, dying, settle } = lateAdditions(world.metadata);
  const living = { ...world, metadata };
  for (let i = 0; i < 5; i += 1) await world.process().put(`counted-${i}`, 'content');
  const killed = world.over(dying);
  for (let i = 0; i < 5; i += 1) await killed.put(`killed-${i}`, 'content');
  for (let run = 0; run < 2; run += 1)
    expect((await fsck(living, fix)).summary).toMatchObject({ found: 0, fixed: 0, unjudged: 1 });
  await settle();
  expect(await usageIn(world)).toEqual(new Map([['STANDARD', { bytes: 70, objects: 10 }]]));
  expect((await fsck(living, fix)).summary).toMatchObject({ found: 0, unjudged: 0 });
});

test('two equal differences are no proof while a client writes', async () => {
  const world = await domainWorld('Enabled');
  const client = world.process();
  await client.put('key', 'content');
  // A write comes before and after every scan of the objects, so that each count differs in the same way.
  const scan: DomainWorld['metadata']['scan'] = (at, range) => {
    const cursor = world.metadata.scan(at, range);
    let isFirst = true;
    return faulty(cursor, {
      next: async (count: number) => {
        if (isFirst && at.table.name === 'objects') await client.put('key', 'content');
        isFirst = false;
        const page = await cursor.next(count);
        if (page.length === 0 && at.table.name === 'objects') await client.put('key', 'content');
        return page;
      },
    });
  };
  const { summary } = await fsck({ ...world, metadata: faulty(world.metadata, { scan }) }, fix);
  expect(summary).toMatchObject({ found: 0, fixed: 0, unjudged: 1 });
  expect((await fsck(world)).summary.found).toBe(0);
});

test('a write between the last scan and the counters is no proof', async () => {
  const world = await domainWorld();
  const client = world.process();
  await client.put('key', 'content');
  const { id } = await world.bucket();
  await world.metadata.apply(
    usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes: 70, objects: 3 }]),
  );
  let writes = 0;
  const hasPendingAdditions = async (): Promise<boolean> => {
    writes += 1;
    await client.put(`late-${writes}`, 'content');
    return false;
  };
  const racing = { ...world, metadata: faulty(world.metadata, { hasPendingAdditions }) };
  expect((await fsck(racing, fix)).summary).toMatchObject({ found: 0, unjudged: 1 });
  expect((await fsck(world, fix)).summary).toMatchObject({ found: 1, fixed: 1 });
  expect(await usageIn(world)).toEqual(
    new Map([['STANDARD', { bytes: 7 * (1 + writes), objects: 1 + writes }]]),
  );
});

test('of two runs that find the same counter off, one corrects it', async () => {
  const world = await domainWorld();
  await world.process().put('key', 'content');
  const { id } = await world.bucket();
  await world.metadata.apply(
    usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes: 70, objects: 3 }]),
  );
  const { promise: both, resolve } = Promise.withResolvers<void>();
  let ready = 0;
  // Both runs find the difference before either corrects it.
  const commit: DomainWorld['metadata']['commit'] = async (at, changes, options) => {
    ready += 1;
    if (ready === 2) resolve();
    await both;
    return world.metadata.commit(at, changes, options);
  };
  const waiting = { ...world, metadata: faulty(world.metadata, { commit }) };
  const runs = await Promise.all([fsck(waiting, fix), fsck(waiting, fix)]);
  const repaired = runs.flatMap(({ findings }) => findings.map(({ fixed, left }) => fixed ?? left));
  expect(repaired.toSorted()).toEqual(['another run corrected counters meanwhile', 'counter corrected']);
  expect(await usageIn(world)).toEqual(new Map([['STANDARD', { bytes: 7, objects: 1 }]]));
});

test('a version whose bytes moved while fsck looked at them stays, though the old ones are gone', async () => {
  const world = await domainWorld();
  await world.process().put('moved', 'content');
  await world.process().put('other', 'content');
  const bucket = await world.bucket();
  let isMoved = false;
  const read: DomainWorld['bytes']['read'] = async function* (extent, range, signal) {
    const head = await findLiveHead(world.metadata, bucket, 'moved');
    if (head === undefined || !('extents' in head.row.manifest)) throw new Error('no extents');
    const [old] = head.row.manifest.extents;
    if (!isMoved && old?.id === extent.id) {
      isMoved = true;
      const given = { cluster: 'default', id: 'moved-to', owner: { bucketId: bucket.id, key: 'moved' } };
      const to = await world.bytes.write(inPiece(7), { ...given, storageClass: 'STANDARD' });
      const put = { ...head.row, manifest: { ...head.row.manifest, extents: [to] } };
      await world.metadata.commit(objectsAt(bucket), [{ put, expect: head.revision }]);
      await world.bytes.remove([extent]);
    }
    yield* world.bytes.read(extent, range, signal);
  };
  const { summary } = await fsck({ ...world, bytes: faulty(world.bytes, { read }) }, drop);
  expect(isMoved).toBe(true);
  expect(summary).toMatchObject({ found: 0, versions: 2 });
  expect(await findLiveHead(world.metadata, bucket, 'moved')).toBeDefined();
});

test('an upload that is listed and not there leaves the list, an open one does not', async () => {
  const world = await domainWorld();
  const client = world.process();
  const open = await client.createUpload('open');
  const { id: bucketId } = await world.bucket();
  const row = {
    bucketId,
    key: 'gone',
    uploadId: 'f'.repeat(32),
    initiated: 1,
    storageClass: '',
    owner: '',
    initiator: '',
  };
  await world.metadata.apply([{ at: { table: uploadIndex, in: { bucketId }, ways: 4 }, put: row }]);
  expect((await fsck(world)).findings).toMatchObject([{ kind: 'upload', key: 'gone' }]);
  expect((await fsck(world, fix)).findings).toMatchObject([{ kind: 'upload', fixed: expect.any(String) }]);
  const left = await world.metadata.scan({ table: uploadIndex, in: { bucketId }, ways: 4 }).next(10);
  expect(left.map(({ row: { uploadId } }) => uploadId)).toEqual([open]);
});

test('a version that lost its bytes is kept until an operator removes it', async () => {
  const world = await domainWorld();
  const client = world.process();
  await client.put('lost', 'content');
  await client.put('whole', 'content');
  await losing(world, 'lost');
  const { findings, summary } = await fsck(world, fix);
  expect(findings).toMatchObject([
    { kind: 'missing', key: 'lost', left: expect.stringContaining('--drop-missing') },
  ]);
  expect(summary.fixed).toBe(0);
  expect((await fsck(world, drop)).findings).toMatchObject([
    { kind: 'missing', fixed: 'version taken away' },
  ]);
  expect(await findLiveHead(world.metadata, await world.bucket(), 'lost')).toBeUndefined();
  expect(await findLiveHead(world.metadata, await world.bucket(), 'whole')).toBeDefined();
  expect((await fsck(world)).summary.found).toBe(0);
});

test('a version that lost its bytes stays where Object Lock or MFA delete holds it, and where all is lost', async () => {
  const world = await domainWorld('Enabled');
  await world.process().put('lost', 'content');
  await losing(world, 'lost');
  const left = async () => (await fsck(world, drop)).findings.map((finding) => finding.left);
  // No byte is stored at all: the cluster is more likely the wrong one than an empty one.
  expect(await left()).toEqual([expect.stringContaining('holds nothing at all')]);
  await world.process().put('whole', 'content');
  const change = async (lock: Lock) => {
    const bucket = await world.bucket();
    const head = await findLiveHead(world.metadata, bucket, 'lost');
    if (head === undefined) throw new Error('no head');
    const put = { ...head.row, lock };
    await world.metadata.commit(objectsAt(bucket), [{ put, expect: head.revision }]);
  };
  await change({ legalHold: true });
  expect(await left()).toEqual(['Object Lock or MFA delete holds it']);
  await change({ legalHold: false });
  const found = await findBucket(world.metadata, 'bucket');
  if (found) await replaceBucket(world.metadata, found, { ...found.row, mfaDelete: true });
  expect(await left()).toEqual(['Object Lock or MFA delete holds it']);
  if (found) {
    const again = await findBucket(world.metadata, 'bucket');
    if (again) await replaceBucket(world.metadata, again, { ...again.row, mfaDelete: false });
  }
  expect(await left()).toEqual([undefined]);
});

test('a run that is cut short at any page goes on from there, and counts nothing twice', async () => {
  const world = await domainWorld();
  const client = world.process();
  for (let i = 0; i < 450; i += 1) await client.put(`key-${i}`, '');
  await client.put('big', 'content');
  await plant(world, 'stray');
  const whole = (await fsck(world)).summary;
  expect(whole).toMatchObject({ versions: 451, found: 1 });
  let state = fromTheStart({ fix: false, drop: false });
  const findings: FsckFinding[] = [];
  for (let steps = 0; state.position.at !== 'done'; steps += 1) {
    expect(steps).toBeLessThan(100);
    // Each step runs in a new process, which has only the saved state.
    const saved = JSON.parse(JSON.stringify(state));
    const run = new Fsck(world, { report: (finding) => void findings.push(finding), state: saved });
    await run.step(never);
    state = run.state;
  }
  expect(state.seen).toEqual(whole);
  expect(findings).toHaveLength(1);
});

test('a walk over bytes that is cut short begins anew, and counts nothing twice', async () => {
  const world = await domainWorld();
  for (let i = 0; i < 2_500; i += 1) await plant(world, `stray-${i}`);
  const whole = (await fsck(world)).summary;
  expect(whole).toMatchObject({ stored: 2_500, found: 2_500 });
  const open = (state: FsckState) => new Fsck(world, { report: () => {}, state });
  const first = open(fromTheStart({ fix: false, drop: false }));
  while (first.state.seen.stored < 2_000) await first.step(never);
  const second = open(JSON.parse(JSON.stringify(first.state)));
  while (!second.isDone) await second.step(never);
  expect(second.state.seen).toEqual(whole);
});

test('a read that fails ends the run, and nothing is changed', async () => {
  const world = await domainWorld();
  await world.process().put('key', 'content');
  await plant(world, 'stray');
  const { metadata } = world;
  for (const name of ['get', 'scan', 'isOpen', 'abandoned'] as const) {
    const failing = faulty(metadata, {
      [name]: () => {
        throw new Error('away');
      },
    });
    await expect(fsck({ ...world, metadata: failing }, drop)).rejects.toThrow('away');
  }
  expect(await storedExtents(world)).toHaveLength(2);
  expect((await fsck(world)).summary).toMatchObject({ found: 1, leaving: 0 });
});

/** A store whose objects can no longer be found after damage, as behind a damaged branch page; its verification reports the damage. */
function damagedLater(world: DomainWorld) {
  let isDamaged = false;
  const get: DomainWorld['metadata']['get'] = async (at, key, ...rest) =>
    isDamaged && at.table.name === 'objects' ? undefined : world.metadata.get(at, key, ...rest);
  const scan: DomainWorld['metadata']['scan'] = (at, range) => {
    const cursor = world.metadata.scan(at, range);
    return faulty(cursor, {
      next: async (count: number) => (isDamaged && at.table.name === 'objects' ? [] : cursor.next(count)),
    });
  };
  const verify: NonNullable<DomainWorld['metadata']['verify']> = async function* () {
    if (isDamaged) yield [{ detail: 'its rows cannot be read' }];
  };
  return {
    ...world,
    undamaged: world.metadata,
    metadata: faulty(world.metadata, { get, scan, verify }),
    damage: () => {
      isDamaged = true;
    },
  };
}

test('a rebuild refuses metadata that is damaged: keys that cannot be found look lost', async () => {
  const world = damagedLater(await domainWorld());
  await world.process().put('kept', 'content');
  const before = await world.metadata.scan(objectsAt(await world.bucket())).next(10);
  world.damage();
  await expect(rebuildIndex(world, { buckets: [], report: () => {} })).rejects.toThrow(
    'the metadata is damaged',
  );
  const after = await world.undamaged.scan(objectsAt(await world.bucket())).next(10);
  expect(after).toEqual(before);
});

describe('metadata that is damaged after fsck has verified it', () => {
  for (const where of ['during the run', 'while the run was interrupted'])
    test(`makes nothing look unowned: ${where}`, async () => {
      const world = damagedLater(await domainWorld());
      await world.process().put('kept', 'content');
      const findings: FsckFinding[] = [];
      const report = (finding: FsckFinding): void => void findings.push(finding);
      let run = new Fsck(world, { report, state: fromTheStart(fix) });
      while (run.state.position.at !== 'stored') await run.step(never);
      world.damage();
      await world.clock.advance(60_000);
      if (where !== 'during the run') run = new Fsck(world, { report, state: run.state });
      while (!run.isDone) await run.step(never);
      expect(findings.map(({ kind, fixed }) => [kind, fixed])).toContainEqual(['metadata', undefined]);
      expect(run.state.seen.fixed).toBe(0);
      expect(findings.find(({ kind }) => kind === 'unowned')?.left).toContain('metadata is damaged');
    });
});
