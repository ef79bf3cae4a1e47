/** A damaged row costs itself: the walks of background workers do the rest of their work, count the row, and log it. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { createBucket } from '../../src/domain/buckets/bucket.ts';
import { everyResync, stepResync } from '../../src/domain/replication/resync.ts';
import { sweep } from '../../src/domain/storage/sweep.ts';
import { claimSlot } from '../../src/metadata/background/clusters.ts';
import { laneSlot, queuedByHour } from '../../src/metadata/background/hourly-queues.ts';
import { backlog, queueAt, queued, queueSlots } from '../../src/metadata/background/queues.ts';
import { bucketSlotOf, findBucket } from '../../src/metadata/buckets/buckets.ts';
import { emptyBuckets } from '../../src/workers/buckets.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { rewrapKeys } from '../../src/workers/rewrap.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { DamagedRows } from '../support/damaged-rows.ts';
import { domainWorld, intentTtlMs } from '../support/domain-world.ts';
import { encryptingSettings, provider } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { makeRole, roleArnOf } from '../support/replication-role.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;

const keys = ['key-0', 'key-1', 'key-2'];

/** What is damaged of the bucket of this name, by a pattern of `DamagedRows`. */
const damages: Readonly<Record<string, (bucketId: string) => RegExp>> = {
  'one-version': (id) => new RegExp(`^objects .*"${id}.*"key-1"`),
  'first-and-last-version': (id) => new RegExp(`^objects .*"${id}.*"key-[02]"`),
  'entry-of-uploads': (id) => new RegExp(`^upload_index .*"${id}`),
  'row-of-bucket': () => /^buckets .*"row-of-bucket"/,
  'entry-of-buckets': () => /^buckets_all .*"entry-of-buckets"/,
};
const sound = Array.from({ length: 8 }, (_, index) => `sound-${index}`);
const buckets = [...Object.keys(damages), ...sound];

interface Filled {
  readonly world: GatewayWorld;
  readonly admin: ReturnType<typeof operatorOf>;
  readonly rows: DamagedRows;
}

/** Buckets with three objects each, and an upload. */
async function fill(headers: Readonly<Record<string, string>> = {}): Promise<Filled> {
  const rows = new DamagedRows();
  const wrap = (context: Context): Context => {
    const wrapped = rows.wrap(context);
    // The local provider has no versions of keys: each is current.
    const provider = wrapped.keys && faulty(wrapped.keys, { rewrap: async () => undefined });
    return provider === undefined ? wrapped : { ...wrapped, keys: provider };
  };
  const settings = {
    ...(await encryptingSettings()),
    SVC_POOL_CLUSTERS: 'a,b',
    SVC_REBALANCE_RATE: '1TiB',
    SVC_REBALANCE_INTERVAL: '10ms',
  };
  const world = await openGateway({ clock: virtualClock(Date.UTC(2026, 0, 1)), wrap, settings });
  onTestFinished(() => world.close());
  await world.context.clusterStates.view();
  const admin = operatorOf(world);
  await admin.must('PUT', '/clusters/b/weight', { weight: 0 });
  for (const bucket of buckets) {
    await world.client.put(`/${bucket}`);
    for (const key of keys) await world.client.put(`/${bucket}/${key}`, { body: 'ten bytes.', headers });
    const upload = (await world.client.post(`/${bucket}/upload?uploads`)).one('UploadId');
    await world.client.put(`/${bucket}/upload?uploadId=${upload}&partNumber=1`, { body: 'part' });
  }
  return { world, admin, rows };
}

/** @returns the buckets of the errors that were logged, each as often as it was */
async function damage({ world, rows }: Filled): Promise<() => readonly unknown[]> {
  for (const [name, pattern] of Object.entries(damages))
    rows.patterns.add(pattern((await findBucket(world.context.metadata, name))?.row.id ?? ''));
  const log = vi.spyOn(world.context.telemetry, 'log');
  return () =>
    log.mock.calls.flatMap(([level, , fields]) => (level === 'ERROR' ? [fields?.['bucket']] : [])).sort();
}

async function run(unit: Unit, times: number): Promise<void> {
  // A failure of a shard ends a unit, whose next one goes on.
  for (let units = 0; units < times; units += 1) await unit(never).catch(() => 'failed');
}

test('force-empty removes the rows of a bucket that can be read, and says how many cannot', async () => {
  const filled = await fill();
  const { world, admin, rows } = filled;
  for (const bucket of buckets) await admin.must('POST', `/buckets/${bucket}/force-empty`);
  const errors = await damage(filled);
  await run(emptyBuckets(world.context), 12);
  const results: Record<string, unknown> = {
    'one-version': { state: 'done', empty: false, damaged: 1, deleted: { versions: 2, uploads: 1 } },
    'first-and-last-version': {
      state: 'done',
      empty: false,
      damaged: 2,
      deleted: { versions: 1, uploads: 1 },
    },
    'entry-of-uploads': { state: 'done', empty: false, damaged: 1, deleted: { versions: 3, uploads: 0 } },
    'entry-of-buckets': { state: 'done', empty: true, deleted: { versions: 3, uploads: 1 } },
  };
  for (const [bucket, result] of Object.entries(results))
    expect(await admin.must('GET', `/buckets/${bucket}/force-empty`), bucket).toMatchObject(result as object);
  expect(errors()).toEqual(['entry-of-uploads', 'first-and-last-version', 'one-version']);
  rows.patterns.clear();
  for (const bucket of sound)
    expect(await admin.must('GET', `/buckets/${bucket}/force-empty`)).toMatchObject({
      state: 'done',
      empty: true,
    });
  const left = (await world.client.get('/first-and-last-version?list-type=2')).all('Key');
  expect(left).toEqual(['key-0', 'key-2']);
});

test('rewrap wraps the keys that can be read, and counts the damaged rows as failed', async () => {
  const filled = await fill(provider('alias/main'));
  const { world, admin } = filled;
  await admin.must('POST', '/keys/rewrap');
  const errors = await damage(filled);
  await run(rewrapKeys(world.context), 150);
  expect(await admin.must('GET', '/keys/rewrap')).toMatchObject({
    state: 'done',
    // Two buckets are not entered; three versions of the others are damaged, and an entry of the list of uploads.
    current: (buckets.length - 2) * keys.length - 3,
    failed: 1 + 1 + 2 + 1,
  });
  expect(errors()).toEqual(['entry-of-uploads', 'first-and-last-version', 'one-version', 'row-of-bucket']);
});

test('rebalance moves the versions that can be read, and no drain ends while rows are damaged', async () => {
  const filled = await fill();
  const { world, admin } = filled;
  await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
  await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  const errors = await damage(filled);
  await run(rebalance(world.context), 10);
  const onB: string[] = [];
  for await (const { owner } of world.context.bytes.find('b', '')) onB.push(owner.key);
  expect(onB).toHaveLength((buckets.length - 2) * keys.length - 3);
  const { reasons } = await admin.must('GET', '/clusters/a/drain-progress');
  expect(String(reasons)).toContain('5 of them could not be moved');
  expect(new Set(errors())).toEqual(
    new Set(['entry-of-uploads', 'first-and-last-version', 'one-version', 'row-of-bucket']),
  );
  expect(await admin.must('GET', '/clusters/a/drain-impact')).toMatchObject({
    buckets: expect.arrayContaining([
      expect.objectContaining({ bucket: 'one-version', manifests: 0, atLeast: true, openUploads: 1 }),
    ]),
  });
});

test('rebalance goes on with the slots whose own rows can be read, and the drain does not end', async () => {
  const { world, admin, rows } = await fill();
  rows.isReplaceable = false;
  const slot = bucketSlotOf('sound-0');
  await claimSlot(world.context.metadata, slot, 1);
  rows.patterns.add(new RegExp(`^rebalance_slots .*"slot":${slot}}`));
  await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
  await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  await run(rebalance(world.context), 10);
  const others = buckets.filter((bucket) => bucketSlotOf(bucket) !== slot);
  const onB: string[] = [];
  for await (const { owner } of world.context.bytes.find('b', '')) onB.push(owner.key);
  expect(others.length).toBeGreaterThan(0);
  expect(onB).toHaveLength(others.length * keys.length);
  const { reasons } = await admin.must('GET', '/clusters/a/drain-progress');
  expect(String(reasons)).toContain('15 of 16 slots');
});

const ruleFor = (bucket: string, owner: string): string => {
  const rule = `<Rule><ID>r</ID><Priority>1</Priority><Filter/><Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:${bucket}</Bucket></Destination><DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule>`;
  return `<ReplicationConfiguration><Role>${roleArnOf(owner)}</Role>${rule}</ReplicationConfiguration>`;
};

test('resync queues the versions that can be read, and says how many cannot', async () => {
  const filled = await fill();
  const { world, admin, rows } = filled;
  const { context, client } = world;
  await makeRole(world);
  const { accessKey, secretKey, owner } = alice;
  const peer = { accessKey, secretKey, accounts: [{ account: owner, buckets: ['*'] }] };
  await admin.must('PUT', '/replication/peers/far', { ...peer, endpoint: 'http://127.0.0.1:1' });
  for (const bucket of buckets) {
    await setVersioning(client, bucket, 'Enabled');
    expect((await client.put(`/${bucket}?replication`, { body: ruleFor(bucket, owner) })).text).toBe('');
    await admin.must('POST', `/replication/resync/${bucket}`, { status: 'all' });
  }
  const errors = await damage(filled);
  for (let steps = 0; steps < 3; steps += 1)
    for await (const task of everyResync(context)) await stepResync(context, task).catch(() => false);
  const found = (bucket: string) => admin.must('GET', `/replication/resync/${bucket}`);
  expect(await found('one-version')).toMatchObject({ state: 'done', queued: 2, damaged: 1 });
  expect(await found('first-and-last-version')).toMatchObject({ state: 'done', queued: 1, damaged: 2 });
  // The second pass reports a damaged row again, and does not count it.
  expect(new Set(errors())).toEqual(new Set(['first-and-last-version', 'one-version']));
  rows.patterns.clear();
  for (const bucket of sound) expect(await found(bucket)).toMatchObject({ state: 'done', queued: 3 });
  expect(await found('row-of-bucket')).toMatchObject({ state: 'running' });
});

test('a resync waits for the long queue of its own destination only', async () => {
  const { world, admin } = await fill();
  const { context, client } = world;
  await makeRole(world);
  const { accessKey, secretKey, owner } = alice;
  const peer = { accessKey, secretKey, accounts: [{ account: owner, buckets: ['*'] }] };
  await admin.must('PUT', '/replication/peers/far', { ...peer, endpoint: 'http://127.0.0.1:1' });
  const [busy = '', free = ''] = sound;
  for (const bucket of [busy, free]) {
    await setVersioning(client, bucket, 'Enabled');
    expect((await client.put(`/${bucket}?replication`, { body: ruleFor(bucket, owner) })).text).toBe('');
    await admin.must('POST', `/replication/resync/${bucket}`, { status: 'all' });
  }
  const due = await context.metadata.now();
  const destination = { Bucket: `arn:sluice:replication::far:${busy}` };
  for (let row = 0; row <= 2_000; row += 1) {
    const task = { bucket: busy, key: `${row}`, account: owner, destination };
    const at = { queue: 'replication', slot: laneSlot(`far/${busy}`, `${row}`) } as const;
    const named = { task, id: `${row}`, due, requestId: 'test' };
    await context.metadata.apply([await queuedByHour(context, at, named)]);
  }
  // A page of each pass.
  for (let pass = 0; pass < 2; pass += 1)
    for await (const task of everyResync(context)) await stepResync(context, task);
  expect(await admin.must('GET', `/replication/resync/${busy}`)).toMatchObject({
    state: 'running',
    queued: 0,
  });
  expect(await admin.must('GET', `/replication/resync/${free}`)).toMatchObject({ state: 'done', queued: 3 });
});

test.each([
  ['entry in the list of uploads', /^upload_index .*"key-0"/],
  ['session', undefined],
])(
  'DeleteBucket succeeds where the %s of one upload is damaged, and gc aborts the others',
  async (_, entry) => {
    const rows = new DamagedRows();
    const clock = virtualClock(Date.UTC(2026, 0, 1));
    await using world = await openGateway({ clock, wrap: rows.wrap });
    const { client } = world;
    await client.put('/bucket');
    const uploads: string[] = [];
    for (const key of keys) {
      const uploadId = (await client.post(`/bucket/${key}?uploads`)).one('UploadId') ?? '';
      await client.put(`/bucket/${key}?uploadId=${uploadId}&partNumber=1`, { body: 'part' });
      uploads.push(uploadId);
    }
    rows.patterns.add(entry ?? new RegExp(`^uploads .*"${uploads[0]}"`));
    expect((await client.delete('/bucket')).status).toBe(204);
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
    rows.patterns.clear();
    // gc tries its row again after a delay.
    clock.jump(dayMs);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  },
);

test('gc deletes what the other rows of a slot name where one of its rows is damaged', async () => {
  const rows = new DamagedRows();
  await using world = await openGateway({ wrap: rows.wrap });
  const { metadata } = world.context;
  const due = await metadata.now();
  for (let row = 0; row < 40; row += 1) {
    const named = { id: `row-${row}`, due, requestId: 'test' };
    await metadata.apply([queued('gc', `${row}`, { extents: [] }, named)]);
  }
  rows.patterns.add(/^queues .*"row-7"/);
  await world.gc();
  await world.collect();
  rows.patterns.clear();
  expect(await backlog(metadata, 'gc')).toBe(1);
  for (let slot = 0; slot < queueSlots; slot += 1)
    for (const { row } of await metadata.scan(queueAt('gc', slot)).next(10)) expect(row.id).toBe('row-7');
});

test.each([
  ['the row of another bucket', /^buckets .*"other"/, 0],
  ['an entry of the list of buckets', /^buckets_all .*"other"/, 0],
  ['a version of one of the keys', /^objects .*"held"/, 1],
])(
  'the sweep frees the bytes of the other unfinished writes where it cannot read %s',
  async (_, place, waiting) => {
    const world = await domainWorld();
    const rows = new DamagedRows();
    const { region } = await world.bucket();
    const owned = { name: 'other', owner: 'o', ownerName: 'o', creator: 'o', region, documents: {} };
    await createBucket(world, { ...owned, objectLock: false });
    // The writers die before their commits.
    const hanging = world.over(faulty(world.metadata, { commit: () => new Promise<never>(() => {}) }));
    for (const key of ['held', 'free']) {
      await world.process().put(key, 'stored');
      void hanging.put(key, 'unfinished');
    }
    await vi.waitFor(async () => expect(await countStored()).toBe(4), { timeout: 60_000 });
    await world.clock.advance(intentTtlMs + 1);
    rows.patterns.add(place);
    const swept = sweep(rows.wrap(world as never), never);
    if (waiting > 0) await expect(swept).rejects.toThrow('damaged');
    else await swept;
    expect(await backlog(world.metadata, 'gc')).toBe(1);
    expect(await world.metadata.abandoned()).toHaveLength(waiting);
    rows.patterns.clear();
    await world.cleanUp();
    expect(await countStored()).toBe(2);

    async function countStored(): Promise<number> {
      let count = 0;
      for (const cluster of world.bytes.clusters)
        for await (const _found of world.bytes.find(cluster, '')) count += 1;
      return count;
    }
  },
);
