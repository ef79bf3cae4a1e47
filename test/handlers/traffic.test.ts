/** Requests and bytes are counted by bucket, account and day, without a row for each request, and exported once a day is closed. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TrafficCounter } from '../../src/domain/usage/traffic-counter.ts';
import { traffic, trafficByPayer } from '../../src/metadata/records/usage.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { policyOf } from '../support/access.ts';
import { faulty } from '../support/faulty.ts';
import {
  alice,
  bob,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from '../support/gateway.ts';
import { readFocus } from '../support/usage-world.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const hourMs = 3_600_000;

interface TrafficWorld extends GatewayWorld {
  readonly clock: VirtualClock;
  /** The rows below `/admin/v1`, once everything is written. */
  rows(path: string): Promise<readonly Record<string, unknown>[]>;
}

async function openTraffic(options: GatewayWorldOptions = {}): Promise<TrafficWorld> {
  const clock = virtualClock();
  const { wrap = (context) => context } = options;
  const world = await openGateway({
    ...options,
    clock,
    wrap: (context) =>
      wrap({ ...context, metadata: faulty(context.metadata, { now: async () => clock.now() }) }),
  });
  return Object.assign(world, {
    clock,
    async rows(path: string) {
      await clock.advance(10_000);
      await clock.settle();
      const { status, text } = await world.as({ credential: operator }).get(`/admin/v1${path}`);
      expect(status, text).toBe(200);
      return JSON.parse(text).rows;
    },
  });
}

const none = { requestsA: 0, requestsB: 0, requestsFree: 0, ingressBytes: 0, egressBytes: 0 };

test.each(['memory', 'embedded+file'] as const)(
  'requests of each class and the bytes of their bodies are counted by bucket and account: %s',
  async (backend) => {
    await using world = await openTraffic({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x'.repeat(1_000) });
    await client.get('/bucket/key');
    const part = await client.get('/bucket/key', { headers: { Range: 'bytes=0-99' } });
    expect(part.text.length).toBe(100);
    await client.head('/bucket/key');
    const listing = await client.get('/bucket?list-type=2');
    await client.delete('/bucket/other');
    // Refused to a stranger: nobody pays.
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
    const today = { day: '2026-01-01', requester: alice.owner, payer: alice.owner };
    // CreateBucket is about no existing bucket, so it counts for the account alone.
    await expect
      .poll(() => world.rows('/buckets/bucket/traffic'))
      .toEqual([
        {
          ...today,
          requestsA: 2,
          requestsB: 3,
          requestsFree: 1,
          ingressBytes: 1_000,
          egressBytes: 1_100 + listing.text.length,
        },
      ]);
    const paid = await world.rows(`/iam/users/${alice.owner}/traffic`);
    expect(paid.map(({ bucket }) => bucket)).toEqual(['', 'bucket']);
    expect(paid[0]).toMatchObject({ requestsA: 1, requestsB: 0 });
  },
);

test('a bucket whose requesters pay is charged to them, and others to its owner', async () => {
  await using world = await openTraffic();
  const { client, bob: other } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const Resource = ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'];
  await client.put('/bucket?policy', { body: policyOf({ Action: 's3:*', Resource }) });
  await other.get('/bucket/key');
  const body = '<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>';
  await client.put('/bucket?requestPayment', { body });
  await other.get('/bucket/key', { headers: { '*-request-payer': 'requester' } });
  await other.get('/bucket/key', { headers: { '*-request-payer': 'requester' } });
  const rows = await world.rows('/buckets/bucket/traffic');
  const ofBob = rows.filter(({ requester }) => requester === bob.owner);
  expect(ofBob.map(({ payer, requestsB }) => [payer, requestsB])).toEqual([
    [alice.owner, 1],
    [bob.owner, 2],
  ]);
  expect(await world.rows(`/iam/users/${bob.owner}/traffic`)).toEqual([
    { bucket: 'bucket', day: '2026-01-01', requester: bob.owner, ...none, requestsB: 2, egressBytes: 2 },
  ]);
});

test('an account with traffic of more buckets than a process counts leaves that of others counted', async () => {
  await using world = await openTraffic();
  const { context } = world;
  await world.bob.put('/bucket');
  await world.clock.advance(10_000);
  await world.clock.settle();
  const [requester, payer] = [alice.owner, alice.owner];
  const count = (n: number): void =>
    context.caches
      .of(TrafficCounter)
      .count(context, { bucketId: `id-${n}`, bucket: `b${n}`, requester, payer }, { requestsA: 1 });
  for (let n = 0; n < 50_000; n += 1) count(n);
  await world.bob.put('/bucket/key', { body: 'x' });
  await expect
    .poll(() => world.rows('/buckets/bucket/traffic'))
    .toMatchObject([{ requester: bob.owner, payer: bob.owner, requestsA: 1, ingressBytes: 1 }]);
});

/** What an account pays for, and how many rows that takes. */
async function billOf({ context }: GatewayWorld, payer: string) {
  const cursor = context.metadata.scan({ table: trafficByPayer, in: { payer } });
  const bill = { requestsA: 0, egressBytes: 0, rows: 0, withoutBucket: 0 };
  for (let page = await cursor.next(1_000); page.length > 0; page = await cursor.next(1_000))
    for (const { row } of page) {
      bill.rows += 1;
      bill.requestsA += row.requestsA;
      bill.egressBytes += row.egressBytes;
      if (row.bucketId === '') bill.withoutBucket += row.requestsA;
    }
  return bill;
}

test('of more pairs of bucket and account than a process counts at a time, an account still pays for every request', async () => {
  const warnings: unknown[] = [];
  await using world = await openTraffic({
    telemetry: {
      ...silentTelemetry,
      log: (level, message, details) => void (level === 'WARN' && warnings.push([message, details])),
    },
  });
  const { context, clock } = world;
  const [requester, payer] = [bob.owner, alice.owner];
  const pairs = 60_000;
  for (let n = 0; n < pairs; n += 1)
    context.caches
      .of(TrafficCounter)
      .count(
        context,
        { bucketId: `id-${n}`, bucket: `b${n}`, requester, payer },
        { requestsA: 1, egressBytes: 7 },
      );
  await clock.advance(10_000);
  await clock.settle();
  const bill = await billOf(world, payer);
  expect(bill).toMatchObject({ requestsA: pairs, egressBytes: 7 * pairs });
  expect(bill.rows).toBeLessThanOrEqual(50_000);
  expect(warnings).toEqual([['traffic was counted without its buckets', { requests: bill.withoutBucket }]]);
});

test('pairs that begin while earlier ones are written take the place of those that are written already', async () => {
  let applied = 0;
  const half = Promise.withResolvers<void>();
  const rest = Promise.withResolvers<void>();
  await using world = await openTraffic({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async apply(changes) {
          if (changes.some(({ at }) => at.table.name === 'traffic') && ++applied === 400) {
            half.resolve();
            await rest.promise;
          }
          return context.metadata.apply(changes);
        },
      }),
    }),
  });
  const { context, clock } = world;
  const [requester, payer] = [bob.owner, alice.owner];
  const pairs = 37_000;
  const count = (n: number): void =>
    context.caches
      .of(TrafficCounter)
      .count(context, { bucketId: `id-${n}`, bucket: `b${n}`, requester, payer }, { requestsA: 1 });
  for (let n = 0; n < pairs; n += 1) count(n);
  await half.promise;
  for (let n = 0; n < 10_000; n += 1) count(pairs + n);
  rest.resolve();
  await clock.advance(10_000);
  await clock.settle();
  expect(await billOf(world, payer)).toMatchObject({ requestsA: pairs + 10_000, withoutBucket: 0 });
});

test('a pair that a process counts again and again among many others has one row, and loses nothing', async () => {
  await using world = await openTraffic();
  const { context } = world;
  const counter = context.caches.of(TrafficCounter);
  const [requester, payer] = [alice.owner, alice.owner];
  const rounds = 3;
  for (let round = 1; round <= rounds; round += 1) {
    // So many that those which are written are given up.
    for (let n = 0; n < 13_000; n += 1) {
      const key = { bucketId: `id-${n}`, bucket: `b${n}`, requester, payer };
      counter.count(context, key, { requestsA: 1, egressBytes: 5 });
    }
    await world.clock.advance(10_000);
    await world.clock.settle();
  }
  const rows = await context.metadata.scan({ table: traffic, in: { bucketId: 'id-7' } }).next(10);
  expect(rows.map(({ row }) => [row.requestsA, row.egressBytes])).toEqual([[rounds, rounds * 5]]);
});

test('a reader that stops early is charged for what was sent, not for the object', async () => {
  await using world = await openTraffic();
  const bytes = 12 * 1024 * 1024;
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: new Uint8Array(bytes) });
  await world.client.put('/bucket?policy', {
    body: policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' }),
  });
  const response = await world.gateway.fetch(new Request('http://localhost/bucket/key'));
  const reader = response.body?.getReader();
  await reader?.read();
  await reader?.cancel();
  const rows = await world.rows('/buckets/bucket/traffic');
  const row = rows.find(({ requester }) => requester === '');
  expect(row).toMatchObject({ payer: alice.owner, requestsB: 1 });
  expect(row?.['egressBytes']).toBeGreaterThan(0);
  expect(row?.['egressBytes']).toBeLessThan(bytes);
});

test('a write that fails is repeated, and one whose outcome is unknown counts nothing twice', async () => {
  let failures = 0;
  await using world = await openTraffic({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async apply(changes) {
          const isTraffic = changes.some(({ at }) => at.table.name === 'traffic');
          if (!isTraffic || failures >= 2) return context.metadata.apply(changes);
          failures += 1;
          // The second time it has an effect.
          if (failures === 2) await context.metadata.apply(changes);
          throw new StoreUnavailable('the answer is lost');
        },
      }),
    }),
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: '12345' });
  await world.clock.advance(10_000);
  await world.clock.advance(10_000);
  await world.client.put('/bucket/key', { body: '12345' });
  expect(await world.rows('/buckets/bucket/traffic')).toMatchObject([{ requestsA: 2, ingressBytes: 10 }]);
  expect(failures).toBe(2);
});

test('a row that the store does not take delays the rows of no other bucket, and is written once the store takes it', async () => {
  let isRefused = true;
  await using world = await openTraffic({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async apply(changes) {
          const isOfBad = changes.some(
            (change) => 'put' in change && JSON.stringify(change.put).includes('"bad"'),
          );
          if (isRefused && isOfBad && changes.some(({ at }) => at.table.name === 'traffic'))
            throw new Error('the page of this row is damaged');
          return context.metadata.apply(changes);
        },
      }),
    }),
  });
  await world.client.put('/bad');
  await world.client.put('/bad/key', { body: '12345' });
  for (let n = 0; n < 70; n += 1) await world.client.put(`/good-${n}`);
  for (let n = 0; n < 70; n += 1) await world.client.put(`/good-${n}/key`, { body: '12345' });
  for (const name of ['good-0', 'good-69'])
    expect(await world.rows(`/buckets/${name}/traffic`)).toMatchObject([{ requestsA: 1, ingressBytes: 5 }]);
  expect(await world.rows('/buckets/bad/traffic')).toEqual([]);
  isRefused = false;
  expect(await world.rows('/buckets/bad/traffic')).toMatchObject([{ requestsA: 1, ingressBytes: 5 }]);
});

test('all rows that the store does not take in one interval make one entry of the log', async () => {
  const logged: unknown[] = [];
  await using world = await openTraffic({
    telemetry: {
      ...silentTelemetry,
      log: (_level, message, details) =>
        void (message === 'traffic is not written yet' && logged.push(details)),
    },
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async apply(changes) {
          if (changes.some(({ at }) => at.table.name === 'traffic')) throw new Error('the page is damaged');
          return context.metadata.apply(changes);
        },
      }),
    }),
  });
  for (const name of ['bucket-a', 'bucket-b', 'bucket-c']) {
    await world.client.put(`/${name}`);
    await world.client.put(`/${name}/key`, { body: '12345' });
  }
  await world.clock.advance(10_000);
  await world.clock.settle();
  // One row for each bucket, and one for their creation.
  expect(logged).toEqual([{ rows: 4, cause: expect.objectContaining({ message: 'the page is damaged' }) }]);
});

test('what a process could not write until a day is closed is given up, with a warning', async () => {
  let isDown = true;
  const warnings: string[] = [];
  await using world = await openTraffic({
    telemetry: {
      ...silentTelemetry,
      log: (level, message) => void (level === 'WARN' && warnings.push(message)),
    },
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async apply(changes) {
          if (isDown && changes.some(({ at }) => at.table.name === 'traffic'))
            throw new StoreUnavailable('down');
          return context.metadata.apply(changes);
        },
      }),
    }),
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: '12345' });
  await world.clock.advance(10_000);
  world.clock.jump(31 * hourMs);
  isDown = false;
  expect(await world.rows('/buckets/bucket/traffic?start=2026-01-01')).toEqual([]);
  expect(warnings).toContain('traffic of a closed day was lost');
});

test('processes count for themselves, and their sums are added up page by page', async () => {
  await using world = await openTraffic();
  const { client } = world;
  for (const day of [0, 1, 2]) {
    if (day > 0) world.clock.jump(24 * hourMs);
    if (day === 0) await client.put('/bucket');
    for (let at = 0; at <= day; at += 1) await client.put('/bucket/key', { body: 'x' });
    await world.rows('/buckets/bucket/traffic');
  }
  const admin = world.as({ credential: operator });
  const seen: unknown[] = [];
  let token = '';
  do {
    const path = `/admin/v1/buckets/bucket/traffic?limit=1&start=2026-01-01&end=2026-01-31${token}`;
    const page = JSON.parse((await admin.get(path)).text);
    seen.push(...page.rows.map((row: Record<string, unknown>) => [row['day'], row['requestsA']]));
    token = page.next === undefined ? '' : `&after=${page.next}`;
  } while (token !== '');
  expect(seen).toEqual([
    ['2026-01-01', 1],
    ['2026-01-02', 2],
    ['2026-01-03', 3],
  ]);
});

test('the traffic of a day is exported once no process may write to it any more, and never changes', async () => {
  await using world = await openTraffic();
  const admin = world.as({ credential: operator });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: '12345' });
  await world.rows('/buckets/bucket/traffic');
  const path = '/admin/v1/usage/export?day=2026-01-01&of=traffic';
  world.clock.jump(29 * hourMs);
  const early = await admin.get(path);
  expect([early.status, early.text.includes('2026-01-02T06:00:00.000Z')]).toEqual([404, true]);
  world.clock.jump(2 * hourMs);
  const csv = (await admin.get(path)).text;
  const [header = '', ...lines] = csv.trimEnd().split('\n');
  const at = header.split(',').indexOf('ingressBytes');
  expect(lines.map((line) => line.split(',')[at]).sort()).toEqual(['0', '5']);
  const focus = (await admin.get(`${path}&format=focus`)).text;
  // CreateBucket is about no existing bucket. Nothing was read, so class B has no row.
  const shown = readFocus(focus).map((row) => [row['SkuId'], row['ConsumedUnit'], row['ResourceType']]);
  expect(shown.sort()).toEqual([
    ['ingressBytes', 'B', 'Bucket'],
    ['requestsA', 'Requests', ''],
    ['requestsA', 'Requests', 'Bucket'],
  ]);
  await world.client.put('/bucket/key', { body: '12345' });
  await world.rows('/buckets/bucket/traffic');
  expect((await admin.get(path)).text).toBe(csv);
  world.clock.jump(400 * 24 * hourMs);
  const late = await admin.get(path);
  expect([late.status, late.text]).toEqual([404, expect.stringContaining('is no longer kept')]);
  for (const query of ['of=nothing', 'of=traffic&format=xml'])
    expect((await admin.get(`/admin/v1/usage/export?day=2026-01-01&${query}`)).status).toBe(400);
  expect((await world.client.get(path)).status).toBe(403);
});

test('traffic is not counted where its interval is 0', async () => {
  await using world = await openTraffic({ settings: { SVC_USAGE_TRAFFIC_INTERVAL: '0' } });
  await world.client.put('/bucket');
  await world.client.get('/bucket?list-type=2');
  expect(await world.rows('/buckets/bucket/traffic')).toEqual([]);
});

test('what a gateway has counted is written when it stops', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-traffic-'));
  const settings = { SVC_DATA_DIR: directory };
  {
    await using world = await openTraffic({ settings });
    await world.client.put('/bucket');
    await world.client.get('/bucket?list-type=2');
  }
  await using again = await openTraffic({ settings });
  const { status, text } = await again.as({ credential: operator }).get('/admin/v1/buckets/bucket/traffic');
  expect([status, JSON.parse(text).rows]).toMatchObject([200, [{ requestsA: 1 }]]);
  await rm(directory, { recursive: true });
});
