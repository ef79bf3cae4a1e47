import { describe, expect, test } from 'vitest';
import { deleteBucket } from '../../../src/domain/buckets/bucket.ts';
import { queueGarbage, queueGarbageAll, queueUploadsOf } from '../../../src/domain/common/garbage.ts';
import { allRows, backlog, queueSlots } from '../../../src/metadata/background/queues.ts';
import { manifestRows } from '../../../src/metadata/objects/objects.ts';
import { uploadsIn } from '../../../src/metadata/objects/uploads.ts';
import { manifests, type UploadRow } from '../../../src/metadata/tables.ts';
import { DataUnavailable, type Extent } from '../../../src/ports/object-bytes.ts';
import { collectGarbage } from '../../../src/workers/gc.ts';
import { ShardPanic, unsupervised, type WorkerServices } from '../../../src/workers/worker.ts';
import { domainWorld, graceMs, ownedExtents, partStores, storedExtents } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';
import { onReplace } from '../../support/metric-calls.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

const never = new AbortController().signal;

async function store(world: Awaited<ReturnType<typeof domainWorld>>, id: string): Promise<Extent> {
  const source = (async function* () {
    yield new Uint8Array(10);
  })();
  return world.bytes.write(source, { cluster: 'default', id, owner: { bucketId: 'b', key: id } });
}

async function queueOf(world: Awaited<ReturnType<typeof domainWorld>>, count: number): Promise<Extent[]> {
  const extents: Extent[] = [];
  for (let each = 0; each < count; each += 1) extents.push(await store(world, `extent${each}`));
  const due = await world.metadata.now();
  for (const extent of extents) {
    await world.metadata.apply([queueGarbage([extent], { id: 'test', requestId: 'r', due })]);
  }
  return extents;
}

/** A world whose cluster `away` does not answer, and how often gc waited for it. */
async function awayWorld() {
  const world = await domainWorld();
  let waits = 0;
  const remove: typeof world.bytes.remove = async (extents) => {
    if (extents.every(({ cluster }) => cluster !== 'away')) return world.bytes.remove(extents);
    waits += 1;
    throw new DataUnavailable('no answer in time');
  };
  const removing = { ...world, bytes: faulty(world.bytes, { remove }) };
  return { world, removing, waits: () => waits };
}

/** A world whose cluster fails some removals, although it says that it answers. */
async function doubtfulWorld() {
  const world = await domainWorld();
  let isFailing: (extents: readonly Extent[]) => boolean = () => false;
  let calls = 0;
  let failed = 0;
  const remove: typeof world.bytes.remove = async (extents) => {
    calls += 1;
    if (!isFailing(extents)) return world.bytes.remove(extents);
    failed += 1;
    throw new DataUnavailable('no answer in time');
  };
  const fail = (when: typeof isFailing, replaced: Partial<typeof world.bytes> = {}) => {
    isFailing = when;
    const context = { ...world, bytes: faulty(world.bytes, { ...replaced, remove }) };
    return { context, calls: () => calls, failed: () => failed };
  };
  return { world, fail };
}

async function queuedRows({ metadata }: Awaited<ReturnType<typeof domainWorld>>) {
  const slots = Array.from({ length: queueSlots }, (_, slot) => allRows(metadata, 'gc', slot).next(3_000));
  return (await Promise.all(slots)).flat().map(({ row }) => row);
}

describe('gc', () => {
  test('deletes exactly what is queued, and not before its grace is over', async () => {
    const world = await domainWorld();
    const client = world.process();
    await client.put('kept', 'kept');
    await client.put('key', 'first');
    await client.put('key', 'second');
    await client.put('gone', 'gone');
    await client.remove('gone');
    expect(await storedExtents(world)).toHaveLength(4);

    const unit = collectGarbage(world);
    await world.clock.advance(graceMs - 1);
    expect(await unit(never)).toBe('idle');
    expect(await storedExtents(world)).toHaveLength(4);
    await world.clock.advance(1);
    await unit(never);
    expect(await storedExtents(world)).toEqual(await ownedExtents(world));
    expect(await storedExtents(world)).toHaveLength(2);
    expect(await backlog(world.metadata, 'gc')).toBe(0);
  });

  test('waits once for a cluster that is away, and deletes what is on the others', async () => {
    const { world, removing, waits } = await awayWorld();
    const gone = await queueOf(world, 40);
    const due = await world.metadata.now();
    for (const { id } of gone.slice(20)) {
      const away = { cluster: 'away', id: `${id}x`, size: 1 };
      await world.metadata.apply([queueGarbage([away], { id: 'test', requestId: 'r', due })]);
    }
    let told: ReadonlyMap<string, number> = new Map();
    const measured = onReplace({
      svc_gc_backlog: (series) => {
        told = new Map(series.map(([{ cluster }, extents]) => [cluster, extents]));
      },
    });
    const telemetry = { ...world.telemetry, ...measured };
    await collectGarbage({ ...removing, telemetry })(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(Object.fromEntries(told)).toEqual({ default: 0, away: 20 });
    expect(waits()).toBe(1);
  });

  test('a long backlog of a cluster that is away costs the rows behind it one wait', async () => {
    const { world, removing, waits } = await awayWorld();
    const due = await world.metadata.now();
    const away = Array.from({ length: 3_000 }, (_, each) =>
      queueGarbage([{ cluster: 'away', id: `away${each}`, size: 1 }], { id: 'test', requestId: 'r', due }),
    );
    for (let at = 0; at < away.length; at += 200) await world.metadata.apply(away.slice(at, at + 200));
    await world.clock.advance(1);
    await queueOf(world, 40);
    const unit = collectGarbage(removing);
    for (let units = 0; units < 6; units += 1) await unit(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(waits()).toBe(1);

    // It is tried again after a rest, which doubles.
    for (let seconds = 0; seconds < 120; seconds += 10) {
      await world.clock.advance(10_000);
      await unit(never);
    }
    expect(waits()).toBe(3);
  });

  test('rows with bytes on two clusters, one of them away, do not count the other one as away', async () => {
    const { world, removing, waits } = await awayWorld();
    const due = await world.metadata.now();
    for (let each = 0; each < 40; each += 1) {
      const both = [{ cluster: 'away', id: `away${each}`, size: 1 }, await store(world, `both${each}`)];
      await world.metadata.apply([queueGarbage(both, { id: 'test', requestId: 'r', due })]);
    }
    await world.clock.advance(1);
    await queueOf(world, 40);
    await collectGarbage(removing)(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(waits()).toBe(1);
    expect(await backlog(world.metadata, 'gc')).toBe(40);
  });

  test('many aborted uploads whose parts lie in a store that is away cost the rows behind them one wait', async () => {
    const world = await domainWorld('', partStores['held by the store']);
    const client = world.process();
    for (let each = 0; each < 200; each += 1) {
      const uploadId = await client.createUpload('key');
      await client.putPart('key', uploadId, { part: 1, text: 'part' });
      await client.abort('key', uploadId);
    }
    await world.clock.advance(1);
    const due = await world.metadata.now();
    const others = Array.from({ length: 40 }, (_, each) => ({
      cluster: 'other',
      id: `other${each}`,
      size: 1,
    }));
    for (const extent of others)
      await world.metadata.apply([queueGarbage([extent], { id: 'test', requestId: 'r', due })]);
    const { uploads } = world.bytes;
    if (uploads === undefined) throw new Error('the store holds no parts');
    let [isAway, waits] = [true, 0];
    const discard: typeof uploads.discard = async (...upload) => {
      if (!isAway) return uploads.discard(...upload);
      waits += 1;
      throw new DataUnavailable('no answer in time');
    };
    const removed = new Set<string>();
    const remove: typeof world.bytes.remove = async (extents) => {
      for (const { id } of extents) removed.add(id);
    };
    const health: typeof world.bytes.health = async () => [];
    const bytes = faulty(world.bytes, { remove, health, uploads: faulty(uploads, { discard }) });
    const unit = collectGarbage({ ...world, bytes });
    while ((await unit(never)) === 'busy');
    expect([...removed].sort()).toEqual(others.map(({ id }) => id).sort());
    expect(waits).toBe(1);

    // It is tried again after a rest, which doubles.
    for (let seconds = 0; seconds < 120; seconds += 10) {
      await world.clock.advance(10_000);
      while ((await unit(never)) === 'busy');
    }
    expect(waits).toBe(3);
    isAway = false;
    await world.clock.advance(5 * 60_000);
    while ((await unit(never)) === 'busy');
    expect(await backlog(world.metadata, 'gc')).toBe(0);
  });

  test('a deleted bucket with many open uploads does not keep the bytes of others', async () => {
    const world = await domainWorld();
    const { bucketId, requestId } = { bucketId: (await world.bucket()).id, requestId: 'r' };
    const client = world.process();
    for (let each = 0; each < 1_000; each += 1) await client.createUpload('key');
    const due = await world.metadata.now();
    await world.metadata.apply([queueUploadsOf(bucketId, { requestId, due })]);
    await world.clock.advance(1);
    await queueOf(world, 40);
    const aborted = new Set<string>();
    const commit: typeof world.metadata.commit = (at, changes, options) => {
      for (const change of changes) {
        const { uploadId, session } = 'put' in change ? (change.put as UploadRow) : {};
        if (uploadId !== undefined && session?.state === 'aborted') aborted.add(uploadId);
      }
      return world.metadata.commit(at, changes, options);
    };
    const unit = collectGarbage({ ...world, metadata: faulty(world.metadata, { commit }) });
    await unit(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(aborted.size).toBeLessThan(300);
    for (let units = 0; units < 10; units += 1) {
      await world.clock.advance(1);
      await unit(never);
    }
    expect(aborted.size).toBe(1_000);
    expect(await world.metadata.scan(uploadsIn(bucketId)).next(1)).toEqual([]);
    expect(await queuedRows(world)).not.toContainEqual(
      expect.objectContaining({ task: { extents: [], bucketId } }),
    );
  });

  test('aborts the uploads of a deleted bucket that are too many for DeleteBucket', async () => {
    const world = await domainWorld();
    const client = world.process();
    for (let each = 0; each < 1_500; each += 1) await client.createUpload('key');
    const bucket = await world.bucket();
    const open = async () => (await world.metadata.scan(uploadsIn(bucket.id)).next(2_000)).length;
    await deleteBucket(world, bucket, { requestId: 'r' });
    expect(await open()).toBe(500);
    const unit = collectGarbage(world);
    for (let units = 0; units < 10; units += 1) {
      await world.clock.advance(1);
      while ((await unit(never)) === 'busy');
    }
    expect([await open(), await backlog(world.metadata, 'gc')]).toEqual([0, 0]);
  });

  test('rows of a cluster that rests are put off in few commits, untried, and are deleted together after the rest', async () => {
    const { world, fail } = await doubtfulWorld();
    await queueOf(world, 2_000);
    let commits = 0;
    const apply: typeof world.metadata.apply = (changes) => {
      if (changes.some((change) => 'put' in change && 'attempts' in change.put)) commits += 1;
      return world.metadata.apply(changes);
    };
    const removals = fail(() => true, { health: async () => [] });
    const unit = collectGarbage({ ...removals.context, metadata: faulty(world.metadata, { apply }) });
    while ((await unit(never)) === 'busy');
    expect(removals.calls()).toBe(1);
    expect(commits).toBeLessThan(2_000 / 20);
    const began = await world.metadata.now();
    for (const row of await queuedRows(world)) expect([row.attempts, row.due]).toEqual([0, began + 30_000]);
    // During the rest no row is read again.
    const before = commits;
    await world.clock.advance(29_000);
    expect(await unit(never)).toBe('idle');
    expect([removals.calls(), commits]).toEqual([1, before]);

    fail(() => false);
    await world.clock.advance(1_000);
    while ((await unit(never)) === 'busy');
    expect(await storedExtents(world)).toEqual([]);
    expect(removals.calls()).toBeLessThan(2_000 / 20);
  });

  test('one extent that is not removed does not let its cluster rest, however often it fails', async () => {
    const { world, fail } = await doubtfulWorld();
    const [stuck] = await queueOf(world, 200);
    const removals = fail((extents) => extents.some(({ id }) => id === stuck?.id));
    const unit = collectGarbage(removals.context);
    while ((await unit(never)) === 'busy');
    expect(await storedExtents(world)).toEqual([stuck?.id]);
    expect(removals.failed()).toBeLessThanOrEqual(2);
    for (let second = 0; second < 40; second += 1) {
      await world.clock.advance(1_000);
      await unit(never);
    }
    // Alone in the queue it keeps its own pace, and a row beside it does not wait.
    expect(await queuedRows(world)).toMatchObject([{ attempts: 6 }]);
    const beside = await store(world, 'beside');
    const due = await world.metadata.now();
    await world.metadata.apply([queueGarbage([beside], { id: 'test', requestId: 'r', due })]);
    await unit(never);
    expect(await storedExtents(world)).toEqual([stuck?.id]);
  });

  test('a cluster that seems sound rests when two rows failed without a success between', async () => {
    const { world, fail } = await doubtfulWorld();
    await queueOf(world, 2_000);
    const removals = fail(() => true);
    const unit = collectGarbage(removals.context);
    while ((await unit(never)) === 'busy');
    // All rows of a batch, then two of them.
    expect(removals.calls()).toBe(3);
    const attempts = (await queuedRows(world)).map((row) => row.attempts);
    expect(attempts.filter((each) => each > 0)).toEqual([1, 1]);
    await world.clock.advance(30_000);
    while ((await unit(never)) === 'busy');
    expect(removals.calls()).toBe(5);
    await world.clock.advance(59_000);
    while ((await unit(never)) === 'busy');
    expect(removals.calls()).toBe(5);
  });

  test('after a failed removal, asks for the health of its cluster and not of another one that hangs', async () => {
    const { world, fail } = await doubtfulWorld();
    const [first] = await queueOf(world, 4);
    const { context } = fail((extents) => extents.some(({ id }) => id === first?.id), {
      health: (cluster) => (cluster === 'default' ? world.bytes.health(cluster) : new Promise(() => {})),
    });
    await collectGarbage(context)(never);
    expect(await storedExtents(world)).toEqual([first?.id]);
  });

  test('reports busy until the backlog is empty', async () => {
    const world = await domainWorld();
    await queueOf(world, 3_000);
    const unit = collectGarbage(world);
    let units = 1;
    while ((await unit(never)) === 'busy') units += 1;
    expect(units).toBeGreaterThan(1);
    expect(await storedExtents(world)).toEqual([]);
    expect(await backlog(world.metadata, 'gc')).toBe(0);
  });

  test('says once a minute what waits and how late it is, also while it is busy', async () => {
    const world = await domainWorld();
    await queueOf(world, 3_000);
    await world.clock.advance(30_000);
    const reports: (readonly [number | undefined, number | undefined])[] = [];
    const report: WorkerServices['report'] = ({ left, oldestSeconds }) => {
      if (left !== undefined) reports.push([left, oldestSeconds]);
    };
    const unit = collectGarbage(world, 0, { ...unsupervised, report });
    expect(await unit(never)).toBe('busy');
    expect(reports).toEqual([]);
    await world.clock.advance(60_001);
    expect(await unit(never)).toBe('busy');
    expect(reports).toEqual([[expect.any(Number), 90.001]]);
    expect(reports[0]?.[0]).toBeGreaterThan(0);
    while ((await unit(never)) === 'busy');
    expect(reports.slice(1)).toEqual([[0, 0]]);
    await world.metadata.apply([
      queueGarbage([await store(world, 'graced')], {
        id: 'test',
        requestId: 'r',
        due: (await world.metadata.now()) + graceMs,
      }),
    ]);
    await unit(never);
    expect(reports.slice(2)).toEqual([[1, 0]]);
  });

  test('deletes what a large manifest names, then its rows', async () => {
    const world = await domainWorld();
    const parts = [];
    for (let number = 1; number <= 200; number += 1) {
      parts.push({ number, extent: await store(world, `part${number}`) });
    }
    await world.metadata.apply(manifestRows('m', parts));
    const options = { id: 'test', requestId: 'r', due: 0, manifestId: 'm' };
    await world.metadata.apply(queueGarbageAll([await store(world, 'other')], options));
    await collectGarbage(world)(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(await world.metadata.scan({ table: manifests, in: { id: 'm' } }).next(1)).toEqual([]);
  });

  test('tries what it cannot delete again, ever later, and deletes the rest meanwhile', async () => {
    const world = await domainWorld();
    const [stuck] = await queueOf(world, 20);
    const tries: number[] = [];
    const began = world.clock.elapsed();
    const remove: typeof world.bytes.remove = async (extents) => {
      if (!extents.some((extent) => extent.id === stuck?.id)) return world.bytes.remove(extents);
      if (extents.length === 1) tries.push((world.clock.elapsed() - began) / 1000);
      throw new Error('will not go');
    };
    const unit = collectGarbage({ ...world, bytes: faulty(world.bytes, { remove }) });
    for (let second = 0; second < 130; second += 1) {
      expect(await unit(never)).toBe('idle');
      await world.clock.advance(1_000);
    }
    expect(await storedExtents(world)).toEqual([stuck?.id]);
    expect(tries.filter((_, each) => each > 0)).toEqual([1, 3, 7, 15, 31, 63, 127]);
    expect(await backlog(world.metadata, 'gc')).toBe(1);

    // The bytes are deleted when the store can delete them again.
    await world.clock.advance(60 * 60_000);
    await collectGarbage(world)(never);
    expect(await storedExtents(world)).toEqual([]);
  });

  test('a holder that was stopped and goes on beside its successor does no harm', async () => {
    const world = await domainWorld();
    await queueOf(world, 20);
    const uploadId = await world.process().createUpload('key');
    await world.process().putPart('key', uploadId, { part: 1, text: 'part' });
    await world.process().abort('key', uploadId);
    const { promise: letGo, resolve: goOn } = Promise.withResolvers<void>();
    const remove: typeof world.bytes.remove = async (extents) => {
      await letGo;
      return world.bytes.remove(extents);
    };
    // The clock of this process stands still, so it does not renew its lease and does not notice that.
    const context = { ...world, clock: virtualClock(), bytes: faulty(world.bytes, { remove }) };
    const stopped = collectGarbage(context)(never);
    await world.clock.settle();
    // Longer than the lease, so that the other process gets every slot.
    await world.clock.advance(60_000);
    const unit = collectGarbage(world);
    for (let run = 0; run < 3; run += 1) await unit(never);
    expect(await storedExtents(world)).toEqual([]);
    await world.process().put('kept', 'kept');
    goOn();
    await stopped;
    for (let run = 0; run < 3; run += 1) await unit(never);
    expect(await storedExtents(world)).toEqual(await ownedExtents(world));
    expect(await storedExtents(world)).toHaveLength(1);
    expect(await backlog(world.metadata, 'gc')).toBe(0);
  });

  test('ends its unit and panics not when every removal fails', async () => {
    const world = await domainWorld();
    await queueOf(world, 100);
    let calls = 0;
    const remove: typeof world.bytes.remove = async () => {
      calls += 1;
      throw new Error('cluster down');
    };
    const unit = collectGarbage({ ...world, bytes: faulty(world.bytes, { remove }) });
    expect(await unit(never)).toBe('idle');
    expect(calls).toBeLessThanOrEqual(16 + 101);
    expect(await backlog(world.metadata, 'gc')).toBe(100);
  });

  test('in two processes never works on a slot twice', async () => {
    const world = await domainWorld();
    await queueOf(world, 400);
    const removals = new Map<string, number>();
    const remove: typeof world.bytes.remove = async (extents) => {
      for (const { id } of extents) removals.set(id, (removals.get(id) ?? 0) + 1);
      await world.clock.sleep(1_000);
      await world.bytes.remove(extents);
    };
    const process = () => collectGarbage({ ...world, bytes: faulty(world.bytes, { remove }) })(never);
    const both = Promise.all([process(), process()]);
    await world.clock.advance(60_000);
    await both;
    expect(removals.size).toBe(400);
    expect(new Set(removals.values())).toEqual(new Set([1]));
  });

  test('gives every slot its turn before it panics over one, and names that one', async () => {
    const world = await domainWorld();
    await queueOf(world, 200);
    const get: typeof world.metadata.get = (at, key) =>
      (at.in as { name?: string }).name === 'gc-0'
        ? Promise.reject(new Error('broken row'))
        : world.metadata.get(at, key);
    const unit = collectGarbage({ ...world, metadata: faulty(world.metadata, { get }) });
    const panic = await unit(never).catch((cause: unknown) => cause);
    expect(panic).toBeInstanceOf(ShardPanic);
    expect(panic).toMatchObject({ shard: '0' });
    expect((await storedExtents(world)).length).toBeLessThan(40);
  });

  test('when stopped, leaves unfinished rows unchanged', async () => {
    const world = await domainWorld();
    await queueOf(world, 50);
    const stop = new AbortController();
    const remove: typeof world.bytes.remove = async () => {
      stop.abort();
      throw new Error('interrupted');
    };
    await collectGarbage({ ...world, bytes: faulty(world.bytes, { remove }) })(stop.signal);
    await collectGarbage(world)(never);
    expect(await storedExtents(world)).toEqual([]);
    expect(await backlog(world.metadata, 'gc')).toBe(0);
  });

  test('compacts only when nothing is left to delete, and is busy while there is more to compact', async () => {
    const world = await domainWorld();
    await queueOf(world, 1);
    const units = [true, false];
    const compact = async () => {
      expect(await backlog(world.metadata, 'gc')).toBe(0);
      return units.shift() ?? false;
    };
    const unit = collectGarbage({ ...world, bytes: faulty(world.bytes, { compact }) });
    expect([await unit(never), await unit(never)]).toEqual(['busy', 'idle']);
  });
});
