/** Settling large uploads takes time in proportion to their parts, and requests are served meanwhile. */
import { expect, test } from 'vitest';
import { deleteBucket } from '../../src/domain/buckets/bucket.ts';
import { settleUpload } from '../../src/domain/uploads/complete-upload.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import { findSession, replaceSession, uploadAt } from '../../src/metadata/objects/uploads.ts';
import { manifests } from '../../src/metadata/tables.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { leaseTtlMs } from '../../src/workers/leadership.ts';
import { cpuMsOf } from '../support/cpu-time.ts';
import {
  type DomainWorld,
  domainWorld,
  ownedExtents,
  partStores,
  storedExtents,
} from '../support/domain-world.ts';

const count = 10_000;
const etag = '0123456789abcdef0123456789abcdef';

/** An upload with rows and without stored bytes, because settling reads rows only. */
async function uploadOf(world: DomainWorld, parts: number): Promise<string> {
  const uploadId = await world.process().createUpload('key');
  for (let first = 1; first <= parts; first += 50) {
    const changes = Array.from({ length: Math.min(50, parts + 1 - first) }, (_, i) => ({
      put: {
        uploadId,
        part: first + i,
        requestId: 'r',
        stored: {
          extent: { cluster: 'default', id: `${uploadId}-${first + i}`, size: 5 << 20 },
          etag,
          modified: 0,
        },
      },
      expect: 'absent' as const,
    }));
    expect((await world.metadata.commit(uploadAt(uploadId), changes)).applied).toBe(true);
  }
  return uploadId;
}

const list = (parts: number) => Array.from({ length: parts }, (_, i) => ({ number: i + 1, etag }));

async function partRows(world: DomainWorld, uploadId: string): Promise<number> {
  return (await world.metadata.scan(uploadAt(uploadId), { after: { part: 0 } }).next(count)).length;
}

/** Settles uploads with so many parts beside an object of as many. @returns the CPU time of each */
async function settled(parts: number): Promise<Readonly<Record<'completed' | 'aborted' | 'lost', number>>> {
  const world = await domainWorld();
  const client = world.process();
  const first = await uploadOf(world, parts);
  await client.complete('key', first, list(parts));
  const completed = await cpuMsOf(() => settleUpload(world, first));
  expect(await partRows(world, first)).toBe(0);
  expect(await ownedExtents(world)).toHaveLength(parts);

  const other = await uploadOf(world, parts);
  await client.abort('key', other);
  const aborted = await cpuMsOf(() => settleUpload(world, other));
  expect(await partRows(world, other)).toBe(0);

  // This completion lost to another write: its session is completed, and no version has its parts.
  const loser = await uploadOf(world, parts);
  const found = await findSession(world.metadata, loser);
  if (found === undefined) throw new Error('no session');
  await replaceSession(world.metadata, found, { session: { ...found.row.session, state: 'completed' } });
  const lost = await cpuMsOf(() => settleUpload(world, loser));
  expect(await partRows(world, loser)).toBe(0);
  return { completed, aborted, lost };
}

test('10,000 parts beside an object of 10,000 parts settle in time that is linear, aborted, completed or lost', async () => {
  type Times = Awaited<ReturnType<typeof settled>>;
  const least = (one: Times, other: Times): Times => ({
    completed: Math.min(one.completed, other.completed),
    aborted: Math.min(one.aborted, other.aborted),
    lost: Math.min(one.lost, other.lost),
  });
  let [few, many] = [await settled(count / 16), await settled(count)];
  const isLinear = (how: keyof Times): boolean => many[how] < 100 + 32 * few[how];
  // What a collection or a busy machine adds is not there in each of four attempts; quadratic time, 256 times as long, is.
  for (
    let attempt = 1;
    attempt < 4 && !Object.keys(many).every((how) => isLinear(how as keyof Times));
    attempt += 1
  ) {
    few = least(few, await settled(count / 16));
    many = least(many, await settled(count));
  }
  for (const how of ['completed', 'aborted', 'lost'] as const)
    expect(many[how], how).toBeLessThan(100 + 32 * few[how]);
});

test('a completion that died between its manifest and its object leaves no manifest once it is settled', async () => {
  let orphans = 0;
  for (let call = 1; call < 30; call += 1) {
    const world = await domainWorld();
    const parts = 100;
    const uploadId = await uploadOf(world, parts);
    void world.process({ call, when: 'before' }).complete('key', uploadId, list(parts));
    await world.clock.settle();
    const session = (await findSession(world.metadata, uploadId))?.row.session;
    const id = session?.completing?.op;
    if (id === undefined) continue;
    const rows = () => world.metadata.scan({ table: manifests, in: { id } }).next(count);
    const head = await findLiveHead(world.metadata, await world.bucket(), 'key');
    const written = (await rows()).length;
    await settleUpload(world, uploadId);
    if (head === undefined) {
      orphans += written;
      expect(await rows(), `killed at call ${call}`).toEqual([]);
      expect((await findSession(world.metadata, uploadId))?.row.session.state).toBe('uploading');
    } else expect(await rows()).toHaveLength(written);
  }
  expect(orphans).toBeGreaterThan(0);
});

test('others run while the parts of a session are cleared', async () => {
  const world = await domainWorld();
  const uploadId = await uploadOf(world, 480);
  await world.process().abort('key', uploadId);
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await settleUpload(world, uploadId);
  isOver = true;
  expect(turns).toBeGreaterThan(9);
});

test('parts that a completion left out go, and those of the object stay', async () => {
  const world = await domainWorld();
  const client = world.process();
  const uploadId = await client.createUpload('key');
  const large = 'x'.repeat(6 << 20);
  const parts: { number: number; etag: string }[] = [];
  for (const part of [1, 2, 3]) {
    const { etag } = await client.putPart('key', uploadId, { part, text: part === 3 ? 'last' : large });
    if (part !== 2) parts.push({ number: part, etag });
  }
  await client.complete('key', uploadId, parts);
  await world.cleanUp();
  expect(await storedExtents(world)).toEqual(await ownedExtents(world));
  expect(await storedExtents(world)).toHaveLength(2);
});

test.each(Object.entries(partStores))(
  'an object that is removed before its upload is cleared keeps its bytes for the grace period: parts that are %s',
  async (_, makeBytes) => {
    const world = await domainWorld('', makeBytes);
    const client = world.process();
    const uploadId = await client.createUpload('key');
    const { etag } = await client.putPart('key', uploadId, { part: 1, text: 'content' });
    await client.complete('key', uploadId, [{ number: 1, etag }]);
    const extents = await storedExtents(world);
    expect(extents).toHaveLength(1);
    await client.remove('key');
    // Clears the upload, and then what that has queued.
    const unit = collectGarbage(world);
    for (let round = 0; round < 3; round += 1) await unit(new AbortController().signal);
    expect(await partRows(world, uploadId)).toBe(0);
    expect(await storedExtents(world)).toEqual(extents);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
  },
);

test('an object whose completion died keeps its bytes for the grace period, also where its bucket is deleted meanwhile', async () => {
  let died = 0;
  for (let call = 1; call < 30; call += 1) {
    const world = await domainWorld();
    const client = world.process();
    const uploadId = await client.createUpload('key');
    const { etag } = await client.putPart('key', uploadId, { part: 1, text: 'content' });
    void world.process({ call, when: 'before' }).complete('key', uploadId, [{ number: 1, etag }]);
    await world.clock.settle();
    const head = await findLiveHead(world.metadata, await world.bucket(), 'key');
    const state = (await findSession(world.metadata, uploadId))?.row.session.state;
    if (head === undefined || state !== 'completing') continue;
    died += 1;
    const extents = await storedExtents(world);
    await client.remove('key');
    await deleteBucket(world, await world.bucket(), { requestId: 'request' });
    await settleUpload(world, uploadId);
    const unit = collectGarbage(world);
    for (let round = 0; round < 3; round += 1) await unit(new AbortController().signal);
    expect(await storedExtents(world), `killed at call ${call}`).toEqual(extents);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
  }
  expect(died).toBeGreaterThan(0);
});

test('gc that is killed while it settles an upload whose bucket is gone leaves the bytes to their grace period', async () => {
  /** A completion that died once its object was committed; then the object and the bucket were removed, and gc shall settle it. */
  const interrupted = async () => {
    for (let call = 1; call < 30; call += 1) {
      const world = await domainWorld();
      const client = world.process();
      const uploadId = await client.createUpload('key');
      const { etag } = await client.putPart('key', uploadId, { part: 1, text: 'content' });
      void world.process({ call, when: 'before' }).complete('key', uploadId, [{ number: 1, etag }]);
      await world.clock.settle();
      const head = await findLiveHead(world.metadata, await world.bucket(), 'key');
      const state = (await findSession(world.metadata, uploadId))?.row.session.state;
      if (head === undefined || state !== 'completing') continue;
      await client.remove('key');
      await deleteBucket(world, await world.bucket(), { requestId: 'request' });
      await world.clock.advance(world.config.SVC_INTENT_TTL);
      return world;
    }
    throw new Error('no completion died between its commit and its end');
  };
  for (const when of ['before', 'after'] as const) {
    for (let call = 1, alive = true; alive; call += 1) {
      const world = await interrupted();
      const extents = await storedExtents(world);
      expect(extents).toHaveLength(1);
      const mortal = world.process({ call, when });
      void collectGarbage(mortal.ctx)(new AbortController().signal);
      await world.clock.settle();
      await world.clock.advance(leaseTtlMs + 1);
      const unit = collectGarbage(world);
      for (let round = 0; round < 3; round += 1) await unit(new AbortController().signal);
      expect(await storedExtents(world), `killed ${when} call ${call}`).toEqual(extents);
      await world.cleanUp();
      expect(await storedExtents(world), `killed ${when} call ${call}`).toEqual([]);
      alive = mortal.hasDied();
    }
  }
});
