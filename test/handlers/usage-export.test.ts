/** The export of a closed day has every bucket once, and is the same whenever it is asked for. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { closeBucketDay } from '../../src/metadata/buckets/usage.ts';
import { faulty } from '../support/faulty.ts';
import { alice, operator } from '../support/gateway.ts';
import { signer, toRequest } from '../support/sign.ts';
import { hourMs, openUsageWorld, readFocus, type UsageWorld } from '../support/usage-world.ts';

const day = '2026-01-01';
const exported = async (world: UsageWorld, format: string): Promise<string> => {
  const { status, text } = await world.ask(`/usage/export?day=${day}&format=${format}`);
  expect(status, text).toBe(200);
  return text;
};

/** The columns that FOCUS demands of every dataset: those of 1.2, and HostProviderName and ServiceProviderName of 1.3. */
const mandatory = [
  ...['BilledCost', 'BillingAccountId', 'BillingAccountName', 'BillingCurrency', 'BillingPeriodEnd'],
  ...['BillingPeriodStart', 'ChargeCategory', 'ChargeClass', 'ChargeDescription', 'ChargePeriodEnd'],
  ...['ChargePeriodStart', 'ContractedCost', 'EffectiveCost', 'HostProviderName', 'InvoiceIssuerName'],
  ...['ListCost', 'PricingQuantity', 'PricingUnit', 'ProviderName', 'PublisherName', 'ServiceCategory'],
  ...['ServiceName', 'ServiceProviderName'],
];

test('the buckets of a list have what each held on average on each closed day', async () => {
  const settings = { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '2' };
  await using world = await openUsageWorld('memory', { settings });
  for (const name of ['first', 'second', 'third']) await world.client.put(`/${name}`);
  await world.client.put('/first/key', { body: 'ten bytes.' });
  await world.rollUp();
  world.clock.jump(12 * hourMs);
  await world.rollUp();
  world.clock.jump(12 * hourMs);
  await world.rollUp();
  const list = async (query: string) => JSON.parse((await world.ask(`/usage/buckets${query}`)).text);
  const found = await list('?days=3&limit=2');
  expect(found).toMatchObject({ start: '2025-12-30', next: 'second' });
  expect(found.rows).toEqual([
    { name: 'first', owner: alice.owner, bytes: [null, null, 10] },
    { name: 'second', owner: alice.owner, bytes: [null, null, expect.toBeOneOf([null, 0])] },
  ]);
  expect((await list(`?days=3&after=${found.next}`)).rows).toMatchObject([{ name: 'third' }]);
  expect((await list('?prefix=f&owner=nobody')).rows).toEqual([]);
  expect((await world.ask('/usage/buckets?days=91')).status).toBe(400);
});

describe.each(['memory', 'embedded+file'] as const)('usage export: %s', (backend) => {
  test('every format has each bucket once, deleted ones too, and never changes', async () => {
    const settings = { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '2' };
    await using world = await openUsageWorld(backend, { settings });
    const names = Array.from({ length: 20 }, (_, at) => `bucket-${at}`);
    for (const name of names) {
      await world.client.put(`/${name}`);
      await world.client.put(`/${name}/key`, { body: 'ten bytes.' });
    }
    await world.rollUp();
    await world.client.delete('/bucket-7/key');
    await world.client.delete('/bucket-7');
    world.clock.jump(12 * hourMs);
    await world.rollUp();
    world.clock.jump(12 * hourMs);
    await world.rollUp();
    const before = await Promise.all(['csv', 'jsonl', 'focus'].map((format) => exported(world, format)));
    const [csv = '', jsonl = '', focus = ''] = before;
    const lines = jsonl.trimEnd().split('\n');
    const rows = lines.map((line) => JSON.parse(line));
    expect(rows.map(({ bucket }) => bucket).sort()).toEqual([...names].sort());
    for (const row of rows)
      expect(row).toMatchObject({
        day,
        owner: alice.owner,
        storageClass: 'STANDARD',
        // The samples of the deleted bucket are 10 and 0 bytes.
        byteSeconds: row.bucket === 'bucket-7' ? 5 * 43_200 : 864_000,
        samples: 2,
      });
    const table = csv.trimEnd().split('\n');
    expect(table[0]).toBe(
      'day,bucket,bucketId,owner,storageClass,byteSeconds,objectCountAvg,objectCountMax,samples,computedAt',
    );
    expect(table.slice(1).map((line) => line.split(',')[1])).toEqual(rows.map(({ bucket }) => bucket));
    const [first = {}] = readFocus(focus);
    expect(Object.keys(first)).toEqual(expect.arrayContaining(mandatory));
    const amount = String(rows[0].byteSeconds);
    expect(first).toMatchObject({
      BillingAccountId: alice.owner,
      BillingPeriodStart: '2026-01-01T00:00:00Z',
      BillingPeriodEnd: '2026-02-01T00:00:00Z',
      ChargeCategory: 'Usage',
      ChargeClass: '',
      ChargeFrequency: 'Usage-Based',
      ChargePeriodStart: '2026-01-01T00:00:00Z',
      ChargePeriodEnd: '2026-01-02T00:00:00Z',
      ConsumedQuantity: amount,
      ConsumedUnit: 'B-Seconds',
      PricingQuantity: amount,
      PricingUnit: 'B-Seconds',
      ResourceId: rows[0].bucketId,
      ResourceName: rows[0].bucket,
      ResourceType: 'Bucket',
      ServiceCategory: 'Storage',
      ServiceSubcategory: 'Object Storage',
      SkuId: 'STANDARD',
    });
    // Later days, other contents and another leader change nothing.
    await world.client.put('/bucket-1/more', { body: 'x'.repeat(1_000) });
    world.changeLeader();
    world.clock.jump(24 * hourMs);
    await world.rollUp();
    expect(await Promise.all(['csv', 'jsonl', 'focus'].map((format) => exported(world, format)))).toEqual(
      before,
    );
  });
});

test('an export of a day that is not closed or unknown, or in a bad format, is refused, and only operators get one', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  await world.rollUp();
  for (const [query, status, says] of [
    ['', 400, 'day is missing'],
    ['?day=2026-02-30', 400, 'day must be a UTC day'],
    [`?day=${day}&format=xml`, 400, 'format must be one of csv, jsonl, focus'],
    [`?day=${day}&format=constructor`, 400, 'format must be one of'],
    [`?day=${day}`, 404, 'is not written yet'],
    ['?day=2030-01-01', 404, 'is not written yet'],
  ] as const) {
    const reply = await world.ask(`/usage/export${query}`);
    expect([reply.status, reply.text]).toEqual([status, expect.stringContaining(says)]);
  }
  expect((await world.client.get(`/admin/v1/usage/export?day=${day}`)).status).toBe(403);
  // No worker runs for far more than a year: the days are told apart as long as they are told at all.
  world.clock.jump(1_000 * 24 * hourMs);
  await world.rollUp();
  for (const [asked, says] of [
    ['2025-12-31', 'No usage of 2025-12-31 is known: a usage-rollup worker first ran on 2026-01-01'],
    ['2026-01-02', 'No usage of 2026-01-02 is known, because no usage-rollup worker ran'],
    ['2027-05-05', 'No usage of 2027-05-05 is known, because no usage-rollup worker ran'],
    ['2028-09-25', 'No usage of 2028-09-25 is known, because no usage-rollup worker ran'],
  ] as const) {
    const missed = await world.ask(`/usage/export?day=${asked}`);
    expect([missed.status, missed.text]).toEqual([404, expect.stringContaining(says)]);
  }
  for (const known of ['2026-01-01', '2028-09-26'])
    expect((await world.ask(`/usage/export?day=${known}`)).status).toBe(200);
});

test('an export reads no further than its client, and ends with it', async () => {
  let reads = 0;
  await using world = await openUsageWorld('memory', {
    wrap: (context) => {
      const scan = ((at, range) => {
        const cursor = context.metadata.scan(at, range);
        if (at.table.name !== 'usage_by_day') return cursor;
        return faulty(cursor, {
          next: (count) => {
            reads += 1;
            return cursor.next(count);
          },
        });
      }) as typeof context.metadata.scan;
      return { ...context, metadata: faulty(context.metadata, { scan }) };
    },
  });
  await world.rollUp();
  const row = { day, owner: alice.owner, storageClass: 'STANDARD', byteSeconds: '1' };
  const counts = { objectCountAvg: 1, objectCountMax: 1, samples: 1, computedAt: 1 };
  for (let n = 0; n < 4_000; n += 1)
    await closeBucketDay(world.context.metadata, `id-${n}`, [
      { ...row, ...counts, bucketId: `id-${n}`, bucket: `bucket-${n}` },
    ]);
  world.clock.jump(24 * hourMs);
  await world.rollUp();
  const { accessKey, secretKey } = operator;
  const sign = signer({ accessKey, secretKey, dialect: 'amz', host: 'localhost', now: world.clock.now });
  const request = sign.request({ method: 'GET', path: '/admin/v1/usage/export', query: { day } });
  const response = await world.gateway.fetch(toRequest(request));
  const reader = response.body?.getReader();
  const first = new TextDecoder().decode((await reader?.read())?.value).split('\n');
  expect(first.length).toBeLessThan(600);
  await reader?.cancel();
  // Each of the 16 slots of the day takes at least two reads.
  expect(reads).toBeLessThan(10);
  const partly = reads;
  expect((await exported(world, 'csv')).trimEnd().split('\n')).toHaveLength(4_001);
  expect(reads - partly).toBeGreaterThanOrEqual(32);
});

test('byte-seconds beyond the integers of a number keep every digit', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  const { id: bucketId } = await openBucket(world.context, 'bucket');
  await world.rollUp();
  const byteSeconds = '777600000000000000001';
  const row = { bucketId, bucket: 'bucket', owner: alice.owner, day, storageClass: 'STANDARD', byteSeconds };
  const counts = { objectCountAvg: 1, objectCountMax: 2, samples: 24, computedAt: 1 };
  await closeBucketDay(world.context.metadata, bucketId, [{ ...row, ...counts }]);
  world.clock.jump(24 * hourMs);
  await world.rollUp();
  for (const path of ['/buckets/bucket/usage', `/iam/users/${alice.owner}/usage`])
    expect((await world.ask(path)).text).toContain(`"byteSeconds":${byteSeconds},`);
  expect(await exported(world, 'jsonl')).toContain(`"byteSeconds":${byteSeconds}}`);
  expect(await exported(world, 'csv')).toContain(`,${byteSeconds},`);
  expect(readFocus(await exported(world, 'focus'))[0]).toMatchObject({ ConsumedQuantity: byteSeconds });
});
