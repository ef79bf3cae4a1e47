/** Rows of one bucket that cannot be read do not stop background work for the others, nor those of one version that for its bucket. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { rollUpUsage, sampleBuckets } from '../../src/workers/buckets.ts';
import { deliverAccessLogs } from '../../src/workers/deliveries.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { flipText } from '../support/damage-metadata.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { keysIn, openNotifyWorld, targetsAt, until } from '../support/notify-world.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';
import { openWebhookSink } from '../support/webhook-sink.ts';

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const never = new AbortController().signal;

interface DamagedWorld extends GatewayWorld {
  readonly clock: VirtualClock;
  /** The rows that cannot be read: by table, and what their partition and key contain. */
  readonly damaged: Set<string>;
}

async function openWorld(): Promise<DamagedWorld> {
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  const damaged = new Set<string>();
  const assertReadable = (table: string, place: object): void => {
    for (const each of damaged)
      if (`${table} ${JSON.stringify(place)}`.match(each))
        throw new MetadataDamaged('damaged', { table, row: each, key: new Uint8Array() });
  };
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    return {
      ...context,
      metadata: faulty(metadata, {
        async get(at, key, ...rest) {
          assertReadable(at.table.name, { ...at.in, ...key });
          return metadata.get(at, key, ...rest);
        },
        scan(at, ...rest) {
          const cursor = metadata.scan(at, ...rest);
          return faulty(cursor, {
            async next(count) {
              assertReadable(at.table.name, at.in);
              const rows = await cursor.next(count);
              for (const { row } of rows) assertReadable(at.table.name, { ...at.in, ...row });
              return rows;
            },
          });
        },
      }),
    };
  };
  const settings = { SVC_LIFECYCLE_RATE: '1000000', SVC_INVENTORY_INTERVAL: '1s' };
  return Object.assign(await openGateway({ clock, wrap, settings }), { clock, damaged });
}

async function runUntilIdle(unit: Unit): Promise<void> {
  // A failure of a shard ends a unit, whose next one goes on.
  for (let units = 0; units < 1_000; units += 1)
    if ((await unit(never).catch(() => 'failed')) === 'idle') return;
}

const names = Array.from({ length: 20 }, (_, index) => `bucket-${index + 10}`);
const [bad = '', ...others] = names;

async function fill({ client }: GatewayWorld, more: (bucket: string) => Promise<unknown>): Promise<void> {
  for (const name of names) {
    expect((await client.put(`/${name}`)).status).toBe(200);
    expect((await client.put(`/${name}/key`, { body: 'ten bytes.' })).status).toBe(200);
    await more(name);
  }
}

/** The policy of a bucket into which a service of the gateway writes. */
const allow = (service: string, bucket: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { Service: service },
        Action: 's3:PutObject',
        Resource: `arn:aws:s3:::${bucket}/*`,
      },
    ],
  });

const idOf = async ({ context }: GatewayWorld, bucket: string): Promise<string> =>
  (await findBucket(context.metadata, bucket))?.row.id ?? '';

const ask = async (world: GatewayWorld, path: string) =>
  JSON.parse((await world.as({ credential: operator }).get(`/admin/v1${path}`)).text);

test.each([
  ['its row', () => `buckets .*"${bad}"`],
  ['its counters', (id: string) => `^usage .*"${id}"`],
])('usage is billed for the other buckets where one cannot be read: %s', async (_, place) => {
  await using world = await openWorld();
  await fill(world, async () => {});
  const id = await idOf(world, bad);
  const unit = rollUpUsage(world.context, 1);
  world.damaged.add(place(id));
  const log = vi.spyOn(world.context.telemetry, 'log');
  await runUntilIdle(unit);
  for (let hour = 0; hour < 24; hour += 1) {
    world.clock.jump(hourMs);
    await runUntilIdle(unit);
  }
  world.damaged.clear();
  for (const name of others) {
    const { rows } = await ask(world, `/buckets/${name}/usage`);
    expect(rows, name).toMatchObject([{ day: '2026-01-01', byteSeconds: 864_000 }]);
  }
  expect(log.mock.calls.filter(([level]) => level === 'ERROR')[0]?.[2]).toMatchObject({ bucket: bad });
});

test('a bucket whose counters cannot be read for some hours is billed for the whole day', async () => {
  await using world = await openWorld();
  await fill(world, async () => {});
  const id = await idOf(world, bad);
  const unit = rollUpUsage(world.context, 1);
  await runUntilIdle(unit);
  for (let hour = 0; hour < 24; hour += 1) {
    world.damaged.clear();
    if (hour >= 6) world.damaged.add(`^usage .*"${id}"`);
    world.clock.jump(hourMs);
    await runUntilIdle(unit);
  }
  world.damaged.clear();
  await runUntilIdle(unit);
  expect((await ask(world, `/buckets/${bad}/usage`)).rows).toMatchObject([{ byteSeconds: 864_000 }]);
});

test('the totals of all buckets are published where one of them cannot be read', async () => {
  await using world = await openWorld();
  await fill(world, async () => {});
  world.damaged.add(`buckets .*"${bad}"`);
  await runUntilIdle(sampleBuckets(world.context, 1));
  const { classes } = await ask(world, '/storage/classes');
  expect(classes).toMatchObject([{ class: 'STANDARD', objects: others.length }]);
});

test('inventories of the other buckets are written where one bucket, or its configuration, cannot be read', async () => {
  await using world = await openWorld();
  const { client } = world;
  await client.put('/lists');
  await client.put('/lists?policy', { body: allow('s3.amazonaws.com', 'lists') });
  await fill(world, async (bucket) => {
    const body = `<InventoryConfiguration><Id>all</Id><IsEnabled>true</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>Current</IncludedObjectVersions></InventoryConfiguration>`;
    expect((await client.put(`/${bucket}?inventory&id=all`, { body })).status).toBe(200);
  });
  for (const place of [`buckets .*"${bad}"`, `^objects .*"key":"key".*"${bad}`]) {
    world.damaged.clear();
    world.damaged.add(place);
    const unit = writeInventories(world.context, 1);
    for (let pass = 0; pass < 100; pass += 1) await unit(never).catch(() => {});
    const keys = (await client.get('/lists?list-type=2')).all('Key');
    for (const name of others)
      expect(
        keys.filter((key) => key.startsWith(`${name}/`) && key.endsWith('manifest.json')),
        name,
      ).toHaveLength(1);
  }
});

test('access logs of the other buckets are delivered where the target of one cannot be read', async () => {
  await using world = await openWorld();
  const { client } = world;
  for (const target of ['logs', 'bad-logs']) {
    await client.put(`/${target}`);
    await client.put(`/${target}?policy`, { body: allow('logging.s3.amazonaws.com', target) });
  }
  await fill(world, async (bucket) => {
    const target = bucket === bad ? 'bad-logs' : 'logs';
    const body = `<BucketLoggingStatus><LoggingEnabled><TargetBucket>${target}</TargetBucket><TargetPrefix>${bucket}/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>`;
    expect((await client.put(`/${bucket}?logging`, { body })).status).toBe(200);
    await client.get(`/${bucket}/key`);
  });
  await world.context.lateWrites.flush();
  world.damaged.add('buckets .*"bad-logs"');
  await runUntilIdle(deliverAccessLogs(world.context, 1));
  const keys = (await client.get('/logs?list-type=2')).all('Key');
  expect(new Set(keys.map((key) => key.split('/')[0]))).toEqual(new Set(others));
  world.damaged.clear();
  await runUntilIdle(deliverAccessLogs(world.context, 2));
  expect((await client.get('/bad-logs?list-type=2')).all('Key')).toHaveLength(1);
});

test('a lifecycle rule is carried out on the other versions of a bucket where one cannot be read', async () => {
  await using world = await openWorld();
  const { client } = world;
  await client.put('/bucket');
  const body =
    '<LifecycleConfiguration><Rule><ID>rule</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
  await client.put('/bucket?lifecycle', { body });
  for (const name of names) await client.put(`/bucket/${name}`, { body: 'old' });
  await runUntilIdle(carryOutLifecycles(world.context, 0));
  world.clock.jump(2 * dayMs);
  world.damaged.add(`^objects .*"${names[3]}"`);
  await runUntilIdle(carryOutLifecycles(world.context, 1));
  world.damaged.clear();
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([names[3]]);
  // The version is tried again.
  world.clock.jump(hourMs);
  await runUntilIdle(carryOutLifecycles(world.context, 2));
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([]);
});

test('events of other objects are delivered where one row of the queue is damaged', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  await using sink = await openWebhookSink();
  const open = () =>
    openNotifyWorld({
      backend: 'embedded+file',
      targets: targetsAt({ hook: sink }),
      settings: { SVC_DATA_DIR: directory },
    });
  const keys = Array.from({ length: 40 }, (_, n) => `photo-${n + 10}x`);
  {
    await using world = await open();
    for (const key of keys) expect((await world.client.put(`/bucket/${key}`)).status).toBe(200);
  }
  // Of the row in the queue, among others.
  await flipText(join(directory, 'metadata', 'data.mdb'), 'photo-27x');
  await using world = await open();
  world.worker.start();
  const others = keys.filter((key) => key !== 'photo-27x');
  await vi.waitFor(() => expect(new Set(keysIn(sink.received))).toEqual(new Set(others)), until);
  // The lanes still run.
  await world.client.put('/bucket/later');
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('later'), until);
});
