/**
 * A damaged row of a worker's own progress, of a leader, a lease or a cluster: the worker goes on within a few units, begins that
 * work again, and no other worker and no request notices.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openClusterStates } from '../../src/domain/clusters/cluster-states.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import { findAuditHead } from '../../src/metadata/audit.ts';
import { acquireLease, LeaseLost, leaderLease, renewLease } from '../../src/metadata/background/leases.ts';
import { tables } from '../../src/metadata/tables.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import { holdGarbage, isGarbageRetained, leaseTtlMs } from '../../src/workers/leadership.ts';
import { allWorkers } from '../../src/workers/registry.ts';
import { retainAudit } from '../../src/workers/retention.ts';
import { type Unit, unsupervised } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { flipText } from '../support/damage-metadata.ts';
import { DamagedRows, placeOfRow } from '../support/damaged-rows.ts';
import { faulty } from '../support/faulty.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { openUsageWorld } from '../support/usage-world.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;
const hourMs = 3_600_000;
const lifecycle =
  '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
const inventory = (bucket: string): string =>
  `<InventoryConfiguration><Destination><S3BucketDestination><Bucket>arn:aws:s3:::${bucket}</Bucket><Format>CSV</Format></S3BucketDestination></Destination><IsEnabled>true</IsEnabled><Id>i</Id><IncludedObjectVersions>Current</IncludedObjectVersions><Schedule><Frequency>Daily</Frequency></Schedule></InventoryConfiguration>`;
const logging = (bucket: string): string =>
  `<BucketLoggingStatus><LoggingEnabled><TargetBucket>${bucket}</TargetBucket><TargetPrefix>log/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>`;

const settings = {
  SVC_POOL_CLUSTERS: 'a,b,c',
  SVC_LIFECYCLE_RATE: '1000000',
  SVC_SCRUB_RATE: '1GiB',
  SVC_FSCK_INTERVAL: '1h',
  SVC_REBALANCE_INTERVAL: '10ms',
};

type Name = keyof typeof allWorkers | 'sweep';
const names: readonly Name[] = [...(Object.keys(allWorkers) as (keyof typeof allWorkers)[]), 'sweep'];

/** The states of clusters come from the damaged rows too. */
const wrapAll =
  (rows: DamagedRows) =>
  (context: Context): Context => {
    const wrapped = rows.wrap(context);
    return { ...wrapped, clusterStates: openClusterStates(wrapped) };
  };

/** Their units end with the signal. */
const longRunning: ReadonlySet<Name> = new Set(['notify', 'replicator', 'access-log', 'queue-retention']);

let generation = 10;

/** Runs of workers as the supervisor has them: after a failure the worker begins again. */
class Runs {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** @returns what the last run failed by; undefined where a unit ended well */
  async failureOf(name: Name, unitsMax = 16): Promise<unknown> {
    let failure: unknown;
    let unit: Unit | undefined;
    for (let units = 0; units < unitsMax; units += 1) {
      // A delivery runs as long as its lease. Each attempt has a time of its own, however long the one before took.
      const ends = longRunning.has(name) ? AbortSignal.timeout(100) : never;
      try {
        unit ??= this.#begin(name);
        const said = await unit(ends);
        failure = undefined;
        if (said === 'idle' || ends.aborted) break;
      } catch (cause) {
        unit = undefined;
        failure = cause;
      }
    }
    return failure;
  }

  #begin(name: Name): Unit {
    if (name === 'sweep') return (signal) => sweep(this.#context, signal);
    generation += 1;
    return allWorkers[name].make(this.#context, generation, unsupervised);
  }

  async failures(): Promise<readonly string[]> {
    const failed: string[] = [];
    for (const name of names) {
      const failure = (await this.failureOf(name)) as Error | undefined;
      if (failure !== undefined) failed.push(`${name}: ${String(failure.cause ?? failure)}`);
    }
    return failed;
  }
}

async function fillBucket(client: Client, name: string): Promise<void> {
  const put = async (path: string, body = ''): Promise<void> =>
    expect((await client.put(`/${name}${path}`, { body })).status).toBe(200);
  await put('');
  await put('?lifecycle', lifecycle);
  await put('?inventory&id=i', inventory(name));
  await put('?logging', logging(name));
  for (let key = 0; key < 3; key += 1) await put(`/key-${key}`, 'x');
  await client.send('POST', `/${name}/up?uploads`);
}

async function fill(world: GatewayWorld, clock: VirtualClock): Promise<Runs> {
  await fillBucket(world.client, 'alpha');
  await fillBucket(world.bob, 'beta');
  const admin = operatorOf(world);
  await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  const runs = new Runs(world.context);
  expect(await runs.failures()).toEqual([]);
  clock.jump(2 * dayMs + hourMs);
  await admin.must('POST', '/buckets/alpha/force-empty');
  expect(await runs.failures()).toEqual([]);
  return runs;
}

/** Notes the rows of progress that are read. */
function noting(places: Set<string>): (context: Context) => Context {
  const tables = ['tasks', 'leases', 'rebalance_slots', 'cluster_state'];
  return (context) => {
    const { metadata } = context;
    const scan: typeof metadata.scan = (at, range) => {
      const cursor = metadata.scan(at, range);
      if (!tables.includes(at.table.name)) return cursor;
      return faulty(cursor, {
        async next(count: number) {
          const page = await cursor.next(count);
          for (const { row } of page) places.add(placeOfRow(at.table, { ...at.in, ...(row as object) }));
          return page;
        },
      });
    };
    const get: typeof metadata.get = async (at, key) => {
      const found = await metadata.get(at, key);
      if (found !== undefined && tables.includes(at.table.name))
        places.add(placeOfRow(at.table, { ...at.in, ...key }));
      return found;
    };
    return { ...context, metadata: faulty(metadata, { get, scan }) };
  };
}

/** One place of each kind of row. */
function onePlaceOfKind(places: Iterable<string>): ReadonlyMap<string, string> {
  const byKind = new Map<string, string>();
  for (const place of places) {
    const kind = place.replace(/[0-9a-f-]{12,}/g, 'ID').replace(/\d+/g, 'N');
    if (!byKind.has(kind)) byKind.set(kind, place);
  }
  return byKind;
}

const exactly = (place: string): RegExp => new RegExp(`^${place.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`);

describe.each(backends.filter((backend) => backend === 'memory' || backend === 'embedded+file'))(
  'on %s',
  (backend) => {
    test('each row of progress, damaged in turn, stops no worker and no request', async () => {
      const rows = new DamagedRows();
      const places = new Set<string>();
      const note = noting(places);
      const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
      await using world = await openGateway({
        backend,
        clock,
        settings,
        wrap: (context) => note(wrapAll(rows)(context)),
      });
      const runs = await fill(world, clock);
      const admin = operatorOf(world);
      const stopped: string[] = [];
      const kinds = onePlaceOfKind(places);
      for (const [kind, place] of kinds) {
        rows.patterns.clear();
        rows.patterns.add(exactly(place));
        clock.jump(25 * hourMs);
        await world.context.clusterStates.changed();
        stopped.push(...(await runs.failures()).map((failure) => `${kind} stops ${failure}`));
        const put = await world.bob.put('/beta/key-0', { body: 'z' });
        const get = await world.bob.get('/beta/key-0');
        const status = await admin.ask('GET', '/status');
        if (put.status !== 200 || get.text !== 'z' || status.status !== 200)
          stopped.push(`${kind} stops requests: ${put.status} ${get.status} ${status.status}`);
      }
      expect(stopped).toEqual([]);
      expect([...kinds.keys()].filter((kind) => kind.includes('"leader"')).length).toBeGreaterThan(8);
    });

    test('a cluster whose row is damaged takes no writes, is read, and is named, until an operator undrains it', async () => {
      const rows = new DamagedRows();
      await using world = await openGateway({ backend, settings, wrap: wrapAll(rows) });
      const { client } = world;
      const admin = operatorOf(world);
      await client.put('/bucket');
      const keys = Array.from({ length: 24 }, (_, index) => `/bucket/key-${index}`);
      for (const key of keys) await client.put(key, { body: key });
      const on = async (cluster: string): Promise<number> => {
        let count = 0;
        for await (const _found of world.context.bytes.find(cluster, '')) count += 1;
        return count;
      };
      const onB = await on('b');
      expect(onB).toBeGreaterThan(0);
      rows.patterns.add(/^cluster_state .*"b"/);
      await world.context.clusterStates.changed();
      for (const key of keys) {
        expect((await client.get(key)).text).toBe(key);
        expect((await client.put(`${key}-again`, { body: key })).status).toBe(200);
      }
      expect(await on('b')).toBe(onB);
      const { clusters } = await admin.must('GET', '/clusters');
      expect(clusters).toMatchObject([
        { id: 'a', state: 'live' },
        { id: 'b', state: 'damaged' },
        { id: 'c', state: 'live' },
      ]);
      expect(String((await admin.must('GET', '/status'))['warnings'])).toContain(
        'row of cluster b is damaged',
      );
      for (const id of ['a', 'c']) await admin.must('POST', `/clusters/${id}/drain`, { mode: 'readonly' });
      expect((await client.put('/bucket/refused', { body: 'x' })).status).toBe(503);
      await admin.must('POST', '/clusters/b/undrain');
      expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
      expect(await on('b')).toBe(onB + 1);
      expect(await admin.must('GET', '/clusters/b')).toMatchObject({ state: 'live' });
    });
  },
);

test('a request about a cluster that is not there makes none beside a damaged row', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const options = { settings: { ...settings, SVC_DATA_DIR: directory } };
  {
    await using world = await openGateway(options);
    await world.client.put('/bucket');
    await operatorOf(world).must('POST', '/clusters/b/drain', { mode: 'readonly' });
  }
  await flipText(join(directory, 'metadata', 'data.mdb'), 'draining_readonly');
  await using world = await openGateway(options);
  const admin = operatorOf(world);
  expect(await admin.must('GET', '/clusters/b')).toMatchObject({ state: 'damaged' });
  expect((await admin.ask('POST', '/clusters/bb/undrain')).status).toBe(404);
  const { clusters } = await admin.must('GET', '/clusters');
  expect((clusters as readonly { id: string }[]).map(({ id }) => id)).toEqual(['a', 'b', 'c']);
});

test('gc waits for the time of a backup whose lease is damaged, and the backup fails', async () => {
  const rows = new DamagedRows();
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  await using world = await openGateway({ clock, wrap: rows.wrap });
  const { context } = world;
  const signal = new AbortController().signal;
  await expect(
    holdGarbage(context, signal, async ({ assertLeased }) => {
      rows.patterns.add(/^leases .*"gc-hold"/);
      expect(await isGarbageRetained(context)).toBe(true);
      await assertLeased();
    }),
  ).rejects.toBeInstanceOf(LeaseLost);
  clock.jump(leaseTtlMs + 1);
  expect(await isGarbageRetained(context)).toBe(false);
});

test('a damaged lease is held for its time once more, and its next generation is greater than every one before', async () => {
  const rows = new DamagedRows();
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  await using world = await openGateway({ clock, wrap: rows.wrap });
  const { metadata } = world.context;
  const ttlMs = 15_000;
  const name = leaderLease('scrub');
  const held = await acquireLease(metadata, { name, holder: 'one', ttlMs });
  rows.patterns.add(/^leases .*"scrub-leader"/);
  expect(await acquireLease(metadata, { name, holder: 'two', ttlMs })).toBeUndefined();
  expect(held && (await renewLease(metadata, held, ttlMs))).toBeUndefined();
  clock.jump(ttlMs + 1);
  const next = await acquireLease(metadata, { name, holder: 'two', ttlMs });
  expect(next?.generation).toBeGreaterThan(held?.generation ?? Number.POSITIVE_INFINITY);
});

test('on a file with flipped bits in keys and values of progress, workers and requests go on, and fsck names the keys', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const options = { clock, settings: { ...settings, SVC_DATA_DIR: directory } };
  {
    await using world = await openGateway(options);
    await fill(world, clock);
  }
  for (const text of ['lifecycle\0leader', 'scrub\0run', 'closedThrough', 'keptFrom'])
    await flipText(join(directory, 'metadata', 'data.mdb'), text);
  const written: unknown[] = [];
  const log: Telemetry['log'] = (level, message, fields) => {
    if (message.includes('was replaced or removed'))
      written.push(`${level} ${fields?.['table']} ${fields?.['row']}`);
  };
  await using world = await openGateway({ ...options, telemetry: { ...silentTelemetry, log } });
  const runs = new Runs(world.context);
  clock.jump(25 * hourMs);
  expect(await runs.failures()).toEqual([]);
  expect((await world.bob.put('/beta/key-0', { body: 'z' })).status).toBe(200);
  expect(written.sort()).toEqual([
    'ERROR tasks audit-seal/head',
    'ERROR tasks lifecycle/leader',
    'ERROR tasks scrub/run',
    'ERROR tasks usage-rollup/progress',
  ]);
  const faults: unknown[] = [];
  for await (const found of world.context.metadata.verify?.(Object.values(tables)) ?? [])
    faults.push(...found.map(({ row }) => row));
  expect(faults).toEqual([expect.stringMatching(/^lifecycle.lead/), expect.stringMatching(/^scrub.r/)]);
});

test('the head of the audit log is written again from the seals, and the chain is as it was', async () => {
  const rows = new DamagedRows();
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  await using world = await openGateway({ clock, wrap: rows.wrap });
  const runs = new Runs(world.context);
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await clock.advance(2 * hourMs);
  // Some hours are removed, some are kept.
  for (let day = 0; day < 32; day += 1) {
    await clock.advance(dayMs);
    expect(await runs.failureOf('audit-retention', 200)).toBeUndefined();
  }
  const before = await admin.must('GET', '/audit/verify');
  expect(before).toMatchObject({ isIntact: true });
  expect(before['expired']).toBeGreaterThan(0);
  rows.patterns.add(/^tasks .*"audit-seal","name":"head"/);
  expect(await runs.failureOf('audit-retention', 1)).toBeUndefined();
  expect(await admin.must('GET', '/audit/verify')).toEqual(before);
});

test('the progress of the usage is written again from the samples, and no day is billed twice or left out', async () => {
  const rows = new DamagedRows();
  await using world = await openUsageWorld('memory', { wrap: rows.wrap });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await world.rollUp();
  await world.hours(30);
  const progress = /^tasks .*"usage-rollup","name":"progress"/;
  for (let damages = 0; damages < 4; damages += 1) {
    rows.patterns.clear();
    rows.patterns.add(new RegExp(progress));
    world.changeLeader();
    await world.hours(13);
  }
  const billed = await world.rows();
  expect(billed.map(({ day }) => day)).toEqual(['2026-01-01', '2026-01-02', '2026-01-03']);
  for (const row of billed) expect(row).toMatchObject({ byteSeconds: (10 * dayMs) / 1000 });
});

test('a damaged seal is named, and keeps no other hour from being verified, sealed and removed', async () => {
  const damaged = new DamagedRows();
  const start = Date.UTC(2026, 0, 1);
  const firstHour = start / hourMs;
  const clock = virtualClock(start);
  await using world = await openGateway({ clock, wrap: (context) => damaged.wrap(context) });
  const verify = (query = '') => operatorOf(world).must('GET', `/audit/verify${query}`);
  const seal = async (): Promise<void> => {
    const unit = retainAudit(world.context, 1);
    for (let turn = 0; turn < 2_000; turn += 1) if ((await unit(never)) === 'idle') return;
    throw new Error('the hours do not end');
  };
  const pass = async (): Promise<void> => {
    await world.client.put('/bucket');
    await clock.advance(hourMs + 16 * 60_000);
    await seal();
  };
  for (let hour = 0; hour < 3; hour += 1) await pass();
  expect(await verify()).toMatchObject({ isIntact: true, hours: 3 });
  damaged.patterns.add(new RegExp(`^tasks .*"hour-0*${firstHour + 1}"`));
  const gap = { kind: 'seal-damaged', hour: '2026-01-01T01:00:00.000Z' };
  for (const query of ['', '?from=2026-01-01T02:00:00Z', `?seal=${'0'.repeat(64)}&sealedHour=${gap.hour}`])
    expect(await verify(query)).toMatchObject({ isIntact: false, gaps: [gap] });
  await pass();
  expect((await findAuditHead(world.context.metadata))?.state.hour).toBe(firstHour + 3);
  await clock.advance(31 * 24 * hourMs);
  await seal();
  expect((await findAuditHead(world.context.metadata))?.state.keptFrom).toBeGreaterThan(firstHour + 3);
});
