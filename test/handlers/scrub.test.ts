/** The scrub worker: what it reads and how fast, where it resumes, what it reports, and what operators see. @storage */

import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { RestingClusters } from '../../src/domain/scrub/budget.ts';
import { listedMax } from '../../src/domain/scrub/saved-scrub.ts';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import {
  type ByteRange,
  ChunkDamaged,
  ChunkMissing,
  DataUnavailable,
  type Extent,
} from '../../src/ports/object-bytes.ts';
import { type Fields, silentTelemetry } from '../../src/ports/telemetry.ts';
import { scrubAll } from '../../src/workers/scrub.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { type Backend, backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { bytesOf, MiB } from '../support/gateway-bodies.ts';
import { onSet } from '../support/metric-calls.ts';
import { pausedProcess } from '../support/paused-process.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;

interface Scrubbed {
  readonly world: GatewayWorld;
  readonly clock: VirtualClock;
  readonly logged: { readonly message: string; readonly fields: Fields }[];
  /** The values that the worker reported to the telemetry. */
  readonly shown: Map<string, number | undefined>;
  /** Bytes read from the store so far. */
  readonly read: () => number;
  /** Replaces the stream of a read. */
  altered: (
    pieces: AsyncIterable<Uint8Array>,
    extent: Extent,
    range?: ByteRange,
  ) => AsyncIterable<Uint8Array>;
}

async function openScrubbed(
  backend: Backend = 'memory',
  settings: Readonly<Record<string, string>> = {},
): Promise<Scrubbed> {
  const clock = virtualClock();
  const logged: Scrubbed['logged'] = [];
  const shown = new Map<string, number | undefined>();
  let count = 0;
  const world = await openGateway({
    backend,
    clock,
    settings: { SVC_SCRUB_RATE: '1MiB', SVC_SCRUB_INTERVAL: '1d', ...settings },
    telemetry: {
      ...silentTelemetry,
      log: (_, message, fields = {}) => void logged.push({ message, fields }),
      ...onSet({
        svc_scrub_damaged: (_, value) => shown.set('damaged', value),
        svc_scrub_oldest_unchecked_seconds: (_, value) => shown.set('oldest unchecked', value),
      }),
    },
    wrap: (context) => ({
      ...context,
      bytes: faulty(context.bytes, {
        read: async function* (extent, range, signal) {
          const pieces = context.bytes.read(extent, range, signal);
          for await (const piece of scrubbed.altered(pieces, extent, range)) {
            count += piece.length;
            yield piece;
          }
        },
      }),
    }),
  });
  const scrubbed: Scrubbed = { world, clock, logged, shown, read: () => count, altered: (pieces) => pieces };
  return scrubbed;
}

/** A read that fails. */
const failing = (cause: Error): AsyncIterable<Uint8Array> => ({
  [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(cause) }),
});

/** Advances the clock by a day, so that everything stored before is older than the next pass. */
const later = (clock: VirtualClock): Promise<void> => clock.advance(dayMs);

const asked = ({ world }: Scrubbed) => operatorOf(world).must('GET', '/scrub');

/** Runs the worker once a second until the end of the pass. */
async function toTheEnd(scrubbed: Scrubbed, unit: Unit = scrubAll(scrubbed.world.context)): Promise<number> {
  for (let seconds = 0; seconds < 200; seconds += 1) {
    while ((await unit(never)) === 'busy');
    if ((await asked(scrubbed))['state'] === 'done') return seconds;
    await scrubbed.clock.advance(1_000);
  }
  throw new Error('the pass does not end');
}

async function upload(
  world: GatewayWorld,
  key: string,
  parts: readonly Uint8Array[],
): Promise<() => Promise<void>> {
  const id = (await world.client.post(`/bucket/${key}?uploads`)).one('UploadId') ?? '';
  const listed: string[] = [];
  for (const [i, body] of parts.entries()) {
    const put = await world.client.put(`/bucket/${key}?uploadId=${id}&partNumber=${i + 1}`, { body });
    listed.push(`<Part><PartNumber>${i + 1}</PartNumber><ETag>${put.header('etag')}</ETag></Part>`);
  }
  return async () => {
    const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`;
    expect((await world.client.post(`/bucket/${key}?uploadId=${id}`, { body })).status).toBe(200);
  };
}

/** 14 MiB and 5 bytes in versions, and 1 KiB in a part. */
async function fill({ world, clock }: Scrubbed): Promise<number> {
  await world.client.put('/bucket');
  await world.client.put('/bucket/empty', { body: '' });
  await world.client.put('/bucket/big', { body: bytesOf(9 * MiB, 1) });
  const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await world.client.put('/bucket?versioning', { body: versioning });
  await world.client.put('/bucket/twice', { body: 'one' });
  await world.client.put('/bucket/twice', { body: 'of' });
  await world.client.delete('/bucket/twice');
  await (await upload(world, 'joined', [bytesOf(5 * MiB, 2)]))();
  // An upstream holds the parts of an upload until it is completed.
  const isHeld = world.context.bytes.uploads !== undefined;
  await upload(world, 'open', [bytesOf(1024, 3)]);
  await later(clock);
  return 14 * MiB + 5 + (isHeld ? 0 : 1024);
}

const bucketOf = ({ world }: Scrubbed) => openBucket(world.context, 'bucket');

async function extentsOf(scrubbed: Scrubbed, key: string) {
  const head = await findLiveHead(scrubbed.world.context.metadata, await bucketOf(scrubbed), key);
  if (head === undefined || !('extents' in head.row.manifest)) throw new Error('no extents');
  return head.row.manifest.extents;
}

describe.each(backends)('the scrub: %s', (backend) => {
  test('reads every byte of every version and open upload once a pass, at most SVC_SCRUB_RATE of them a second', async () => {
    const scrubbed = await openScrubbed(backend);
    await using world = scrubbed.world;
    const stored = await fill(scrubbed);
    const began = scrubbed.read();
    const unit = scrubAll(world.context);
    const seconds: number[] = [];
    for (
      let isDone = false;
      !isDone && seconds.length < 100;
      isDone = (await asked(scrubbed))['state'] === 'done'
    ) {
      const before = scrubbed.read();
      while ((await unit(never)) === 'busy');
      seconds.push(scrubbed.read() - before);
      await scrubbed.clock.advance(1_000);
    }
    expect(scrubbed.read() - began).toBe(stored);
    // An upstream is read by whole requests; after each one the worker pauses in proportion.
    const stepBytes = world.context.bytes.pieceBytes === Number.POSITIVE_INFINITY ? 16 * MiB : MiB;
    const sums = seconds.map((_, i) => seconds.slice(0, i + 1).reduce((sum, each) => sum + each, 0));
    for (const [i, sum] of sums.entries()) expect(sum).toBeLessThan((i + 1) * MiB + stepBytes);
    expect(await asked(scrubbed)).toMatchObject({
      versions: 5,
      bytes: stored,
      damaged: 0,
      unread: 0,
      damagedList: [],
    });
  });

  test('reports a missing chunk once, over several passes, until its version is removed', async () => {
    const scrubbed = await openScrubbed(backend, { SVC_SCRUB_RATE: '1GiB' });
    await using world = scrubbed.world;
    await fill(scrubbed);
    const admin = operatorOf(world);
    await world.context.bytes.remove(await extentsOf(scrubbed, 'big'));
    const before = await world.stored();
    // An engine has its own clock, so the test starts each pass by a request.
    const scrubAgain = async (): Promise<void> => {
      await later(scrubbed.clock);
      await admin.must('POST', '/scrub');
      await toTheEnd(scrubbed);
    };
    for (let pass = 0; pass < 2; pass += 1) await scrubAgain();
    const named = { kind: 'missing', bucket: 'bucket', key: 'big', cluster: 'default' };
    const lines = scrubbed.logged.filter(({ message }) => message === 'stored bytes are damaged');
    expect(lines.map(({ fields }) => fields)).toMatchObject([named]);
    expect(await asked(scrubbed)).toMatchObject({ state: 'done', damaged: 1, damagedList: [named] });
    expect(scrubbed.shown.get('damaged')).toBe(1);
    const health = JSON.stringify(await admin.must('GET', '/storage/health'));
    expect(health).toContain('the scrub found 1 versions or parts with damaged or missing chunks');
    // The worker changes nothing.
    expect(await world.stored()).toEqual(before);
    expect((await world.client.head('/bucket/big')).status).toBe(200);
    expect((await world.client.delete('/bucket/big?versionId=null')).status).toBe(204);
    await scrubAgain();
    expect(await asked(scrubbed)).toMatchObject({ damaged: 0, damagedList: [] });
    expect(JSON.stringify(await admin.must('GET', '/storage/health'))).not.toContain('the scrub found');
  });
});

test('a successor resumes where the last saved step ended, in the middle of an object', async () => {
  const scrubbed = await openScrubbed();
  await using world = scrubbed.world;
  const stored = await fill(scrubbed);
  for (let generation = 1; ; generation += 1) {
    const unit = scrubAll(world.context, generation);
    while ((await unit(never)) === 'busy');
    if ((await asked(scrubbed))['state'] === 'done') break;
    expect(generation).toBeLessThan(50);
    await scrubbed.clock.advance(1_000);
  }
  expect(scrubbed.read()).toBe(stored);
  expect(await asked(scrubbed)).toMatchObject({ versions: 5, bytes: stored, unread: 0 });
});

test('a paused leader does not reset its successor’s position', async () => {
  const scrubbed = await openScrubbed();
  await using world = scrubbed.world;
  await fill(scrubbed);
  const former = pausedProcess(world.context);
  const unit = scrubAll(former.context, 1);
  await unit(never);
  await scrubbed.clock.advance(1_000);
  former.pauseBefore('commit', 'tasks');
  const late = unit(never).catch((cause: unknown) => cause);
  await former.stands;
  await toTheEnd(scrubbed, scrubAll(world.context, 2));
  const done = await asked(scrubbed);
  former.goOn();
  expect(await late).toBeInstanceOf(LeaseLost);
  expect(await asked(scrubbed)).toEqual(done);
});

test('a content that differs from its ETag is damaged, where the store has no checksums', async () => {
  const scrubbed = await openScrubbed();
  await using world = scrubbed.world;
  await fill(scrubbed);
  const [first] = await extentsOf(scrubbed, 'big');
  scrubbed.altered = async function* (pieces, extent, range) {
    for await (const piece of pieces) {
      const copy = piece.slice();
      if (extent.id === first?.id && range?.start === 5 * MiB) copy[7] = (copy[7] as number) ^ 1;
      yield copy;
    }
  };
  await toTheEnd(scrubbed);
  const named = { kind: 'damaged', key: 'big', extent: first?.id };
  expect(await asked(scrubbed)).toMatchObject({ damaged: 1, damagedList: [named] });
  expect(world.context.bytes.verifies).toBeUndefined();
});

test('a version that a client deletes while it is read is not named', async () => {
  const scrubbed = await openScrubbed();
  await using world = scrubbed.world;
  await fill(scrubbed);
  const [extent] = await extentsOf(scrubbed, 'big');
  scrubbed.altered = async function* (pieces, { id }, range) {
    if (id === extent?.id && range?.start === 5 * MiB) {
      await world.client.delete('/bucket/big?versionId=null');
      await world.gc();
      throw new ChunkMissing('gone');
    }
    yield* pieces;
  };
  await toTheEnd(scrubbed);
  expect(await asked(scrubbed)).toMatchObject({ damaged: 0, unread: 0 });
});

test('a writer that replaces its object without end does not keep a pass from ending', async () => {
  const scrubbed = await openScrubbed();
  await using world = scrubbed.world;
  await world.client.put('/bucket');
  await world.client.put('/bucket/a', { body: bytesOf(2 * MiB, 1) });
  await world.client.put('/bucket/z', { body: bytesOf(2 * MiB, 2) });
  await later(scrubbed.clock);
  const unit = scrubAll(world.context);
  let writes = 0;
  for (let seconds = 0; seconds < 20; seconds += 1) {
    while ((await unit(never)) === 'busy');
    if ((await asked(scrubbed))['state'] === 'done') break;
    await scrubbed.clock.advance(1_000);
    for (const key of ['a', `b${writes}`])
      await world.client.put(`/bucket/${key}`, { body: bytesOf(2 * MiB, 3) });
    writes += 1;
  }
  // Objects written during a pass belong to the next one.
  expect(await asked(scrubbed)).toMatchObject({ state: 'done', versions: 1, damaged: 0 });
  expect(writes).toBeGreaterThan(1);
});

test('a pass that cannot read a cluster is not complete: the age of the oldest unchecked chunk grows, and nothing is reported damaged', async () => {
  const scrubbed = await openScrubbed('memory', { SVC_SCRUB_RATE: '1GiB' });
  await using _ = scrubbed.world;
  await fill(scrubbed);
  await toTheEnd(scrubbed);
  const ageOf = () => scrubbed.shown.get('oldest unchecked') ?? Number.NaN;
  expect(ageOf()).toBeLessThan(60);
  scrubbed.altered = () => failing(new DataUnavailable('the cluster is away'));
  await later(scrubbed.clock);
  await toTheEnd(scrubbed);
  expect(await asked(scrubbed)).toMatchObject({ state: 'done', unread: 5, damaged: 0, damagedList: [] });
  expect(ageOf()).toBeGreaterThanOrEqual(dayMs / 1000);
  const lines = scrubbed.logged.filter(({ message }) => message === 'stored bytes cannot be read now');
  expect(lines.map(({ fields }) => fields)).toEqual([{ what: 'default', why: 'the cluster is away' }]);
  scrubbed.altered = (pieces) => pieces;
  await later(scrubbed.clock);
  await toTheEnd(scrubbed);
  expect(await asked(scrubbed)).toMatchObject({ unread: 0, damaged: 0 });
  expect(ageOf()).toBeLessThan(60);
});

test('a cluster that is away delays a pass by seconds, and its contents are counted as unread and read by the next pass', async () => {
  const settings = { SVC_POOL_CLUSTERS: 'default,away', SVC_SCRUB_RATE: '1GiB' };
  const scrubbed = await openScrubbed('memory', settings);
  await using world = scrubbed.world;
  const admin = operatorOf(world);
  for (const cluster of ['away', 'default']) {
    await world.client.put(`/in-${cluster}`);
    await admin.must('PUT', `/buckets/in-${cluster}/placement`, { placement: { [cluster]: 1 } });
    for (let i = 0; i < 300; i += 1) await world.client.put(`/in-${cluster}/${i}`, { body: `${i}` });
  }
  await later(scrubbed.clock);
  let attempts = 0;
  scrubbed.altered = (pieces, { cluster }) => {
    if (cluster !== 'away') return pieces;
    attempts += 1;
    return failing(new DataUnavailable('away'));
  };
  expect(await toTheEnd(scrubbed)).toBeLessThan(15);
  expect(attempts).toBeLessThan(15);
  expect(await asked(scrubbed)).toMatchObject({ state: 'done', versions: 600, unread: 300, damaged: 0 });
  expect(await asked(scrubbed)).not.toHaveProperty('completeFrom');
  scrubbed.altered = (pieces) => pieces;
  await later(scrubbed.clock);
  await toTheEnd(scrubbed);
  expect(await asked(scrubbed)).toMatchObject({
    completeFrom: expect.anything(),
    versions: 600,
    unread: 0,
    bytes: 2 * (10 + 180 + 600),
  });
});

test('a cluster that answers again in a pass is read again in it', async () => {
  const clusters = new RestingClusters();
  clusters.begin(1);
  const ends = (at: number) => clusters.failed('away', at);
  expect(Array.from({ length: 10 }, () => ends(0))).toEqual([...Array(8).fill(true), false, false]);
  expect([clusters.isResting('away', 59_999), clusters.isResting('other', 0)]).toEqual([true, false]);
  expect(clusters.isResting('away', 60_000)).toBe(false);
  clusters.answered('away');
  // One content that cannot be read alone.
  expect([ends(60_000), clusters.isResting('away', 60_000)]).toEqual([false, false]);
  expect([ends(60_001), clusters.isResting('away', 90_000)]).toEqual([false, true]);
  clusters.begin(2);
  expect(clusters.isResting('away', 90_000)).toBe(false);
});

test('the list of damaged content is bounded, and the count is not', async () => {
  const scrubbed = await openScrubbed('memory', { SVC_SCRUB_RATE: '1GiB' });
  await using world = scrubbed.world;
  await world.client.put('/bucket');
  const count = listedMax + 50;
  for (let i = 0; i < count; i += 1) await world.client.put(`/bucket/${i}`, { body: 'x' });
  await later(scrubbed.clock);
  scrubbed.altered = () => failing(new ChunkDamaged('not what was stored'));
  await toTheEnd(scrubbed);
  const found = await asked(scrubbed);
  expect(found).toMatchObject({ damaged: count });
  expect(found['damagedList']).toHaveLength(listedMax);
  expect(scrubbed.logged.filter(({ message }) => message === 'stored bytes are damaged')).toHaveLength(
    listedMax,
  );
});

test('operators alone see it and begin a pass before its time, where a rate is set', async () => {
  const scrubbed = await openScrubbed('memory', { SVC_SCRUB_RATE: '1GiB' });
  await using world = scrubbed.world;
  await fill(scrubbed);
  const admin = world.as({ credential: operator });
  const at = '/admin/v1/scrub';
  expect((await admin.get(at)).status).toBe(404);
  for (const client of [world.client, world.anonymous]) {
    expect((await client.post(at)).status).toBe(403);
    expect((await client.get(at)).status).toBe(403);
  }
  await toTheEnd(scrubbed);
  const unit = scrubAll(world.context);
  const read = scrubbed.read();
  await unit(never);
  expect(scrubbed.read()).toBe(read);
  const begun = await admin.post(at);
  expect([begun.status, JSON.parse(begun.text)]).toMatchObject([202, { state: 'running', bytes: 0 }]);
  await toTheEnd(scrubbed, unit);
  expect(scrubbed.read()).toBe(2 * read);
  await using none = await openGateway({ settings: { SVC_SCRUB_RATE: '0' } });
  expect((await none.as({ credential: operator }).post(at)).status).toBe(400);
  expect(await scrubAll(none.context)(never)).toBe('idle');
});
