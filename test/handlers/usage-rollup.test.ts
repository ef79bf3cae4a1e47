/** The usage feed bills what buckets held, once for each UTC day. @storage */
import { describe, expect, test } from 'vitest';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { rollUpUsage } from '../../src/workers/buckets.ts';
import { dyingProcess } from '../support/dying-process.ts';
import { alice, backends } from '../support/gateway.ts';
import { hourMs, openUsageWorld } from '../support/usage-world.ts';

const daySeconds = 86_400;
const never = new AbortController().signal;

describe.each(backends)('usage: %s', (backend) => {
  test('a day on which a bucket does not change is billed as its bytes times 86,400', async () => {
    await using world = await openUsageWorld(backend);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'ten bytes.' });
    await world.rollUp();
    await world.hours(24);
    expect(await world.rows()).toEqual([
      {
        day: '2026-01-01',
        storageClass: 'STANDARD',
        byteSeconds: 10 * daySeconds,
        objectCountAvg: 1,
        objectCountMax: 1,
      },
    ]);
  });
});

test('a day on which a bucket grows is billed by the trapezoids between its samples', async () => {
  await using world = await openUsageWorld('memory', { settings: { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '4' } });
  await world.client.put('/bucket');
  // The first object exists before the first sample, so that its storage class is sampled from then on.
  await world.client.put('/bucket/key', { body: '' });
  await world.rollUp();
  for (const size of [100, 300, 1_000]) {
    await world.client.put(`/bucket/key${size}`, { body: 'x'.repeat(size) });
    await world.hours(6);
  }
  await world.hours(6);
  expect(await world.rows()).toEqual([
    {
      day: '2026-01-01',
      storageClass: 'STANDARD',
      byteSeconds: byteSecondsOf([0, 100, 400, 1_400], daySeconds / 4),
      objectCountAvg: 3,
      objectCountMax: 4,
    },
  ]);
});

/** The specification's formula as it is written. */
function byteSecondsOf(samples: readonly number[], dt: number): number {
  let sum = (samples.at(-1) ?? 0) * dt;
  for (let i = 0; i + 1 < samples.length; i += 1)
    sum += (((samples[i] ?? 0) + (samples[i + 1] ?? 0)) / 2) * dt;
  return sum;
}

test('each storage class of a bucket has a row of its own, and pages end between them', async () => {
  await using world = await openUsageWorld('memory', { settings: { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '2' } });
  await world.client.put('/bucket');
  await world.client.put('/bucket/warm', { body: 'ten bytes.' });
  await world.client.put('/bucket/cold', { body: 'five.', headers: { '*-storage-class': 'GLACIER' } });
  await world.rollUp();
  await world.client.delete('/bucket/cold');
  await world.hours(24);
  const rowOf = (storageClass: string, byteSeconds: number, max: number) => ({
    day: '2026-01-01',
    storageClass,
    byteSeconds,
    objectCountAvg: 1,
    objectCountMax: max,
  });
  const rows = [
    // The class is empty at the second sample.
    rowOf('GLACIER', byteSecondsOf([5, 0], daySeconds / 2), 1),
    rowOf('STANDARD', 10 * daySeconds, 1),
  ];
  expect(await world.rows()).toEqual(rows);
  for (const path of ['/buckets/bucket/usage', `/iam/users/${alice.owner}/usage`]) {
    const first = JSON.parse((await world.ask(`${path}?limit=1`)).text);
    const second = JSON.parse((await world.ask(`${path}?limit=1&after=${first.next}`)).text);
    expect([...first.rows, ...second.rows]).toMatchObject(rows);
    expect(second.next).toBeUndefined();
  }
});

test('SVC_USAGE_ROLLUP_AT is when a day is closed, and SVC_USAGE_ROLLUP_INTERVAL what its samples are spread over', async () => {
  const settings = { SVC_USAGE_ROLLUP_AT: '06:30', SVC_USAGE_ROLLUP_INTERVAL: '12h' };
  await using world = await openUsageWorld('memory', { settings });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await world.rollUp();
  const halves = async (count: number): Promise<void> => {
    for (let half = 0; half < count; half += 1) {
      world.clock.jump(hourMs / 2);
      await world.rollUp();
    }
  };
  // To six o'clock of the next day.
  await halves(48 + 12);
  expect(await world.rows()).toEqual([]);
  await halves(1);
  expect(await world.rows()).toMatchObject([{ day: '2026-01-01', byteSeconds: 10 * daySeconds }]);
  const { text } = await world.ask('/usage/export?day=2026-01-01&format=jsonl');
  // 24 in each interval of twelve hours.
  expect(JSON.parse(text).samples).toBe(48);
});

test('a bucket that is deleted during the day is billed for what it held until then', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await world.rollUp();
  await world.hours(11);
  await world.client.delete('/bucket/key');
  expect((await world.client.delete('/bucket')).status).toBe(204);
  await world.hours(13);
  const rows = await world.rows(`/iam/users/${alice.owner}/usage`);
  const held = [...Array.from({ length: 12 }, () => 10), ...Array.from({ length: 12 }, () => 0)];
  expect(rows).toEqual([
    {
      bucket: 'bucket',
      day: '2026-01-01',
      storageClass: 'STANDARD',
      byteSeconds: byteSecondsOf(held, 3_600),
      objectCountAvg: 1,
      objectCountMax: 1,
    },
  ]);
});

test('a day that is closed never changes', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await world.rollUp();
  await world.hours(24);
  const before = await world.rows();
  await world.client.put('/bucket/key', { body: 'a longer content' });
  // The clock is set back into the closed day, and another process leads.
  world.clock.jump(-5 * hourMs);
  world.changeLeader();
  await world.hours(4);
  world.clock.jump(2 * hourMs);
  await world.rollUp();
  expect(await world.rows()).toEqual(before);
  expect(before).toHaveLength(1);
});

test('samples under a clock that was set back into a closed day count for the first open day', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  await world.rollUp();
  await world.hours(24);
  world.clock.jump(-5 * hourMs);
  await world.hours(5 + 24);
  const samplesOn = async (day: string): Promise<number> =>
    JSON.parse((await world.ask(`/usage/export?day=${day}&format=jsonl`)).text).samples;
  expect(await samplesOn('2026-01-01')).toBe(24);
  // Those of its own hours, its midnight again, and 21:00, 22:00 and 23:00 of the closed day; at 20:00 the schedule was adjusted.
  expect(await samplesOn('2026-01-02')).toBe(24 + 1 + 3);
});

test('a leader that resumes after its successor has begun writes nothing', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  await world.rollUp();
  const former = rollUpUsage(world.context, 1);
  await former(never);
  world.changeLeader();
  await world.rollUp();
  world.clock.jump(hourMs);
  await expect(former(never)).rejects.toThrow(LeaseLost);
});

test('a leader that is killed in the middle of a pass is continued: no bucket is sampled twice or left out', async () => {
  await using world = await openUsageWorld('memory', { settings: { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '2' } });
  for (let i = 0; i < 24; i += 1) {
    await world.client.put(`/bucket${i}`);
    await world.client.put(`/bucket${i}/key`, { body: 'x' });
  }
  for (let half = 0; half < 2; half += 1) {
    for (let units = 0; units < 10; units += 1) {
      world.changeLeader();
      await world.rollUp();
    }
    world.clock.jump(12 * hourMs);
  }
  world.changeLeader();
  await world.rollUp();
  const rows = await world.rows(`/iam/users/${alice.owner}/usage`);
  expect(rows).toHaveLength(24);
  expect(new Set(rows.map(({ byteSeconds }) => byteSeconds))).toEqual(new Set([daySeconds]));
});

test('a leader that is killed at any write of a tick leaves each bucket of the day once in every order of rows', async () => {
  for (const when of ['before', 'after'] as const) {
    let isOver = false;
    for (let at = 0; !isOver; at += 1) {
      expect(at).toBeLessThan(100);
      const settings = { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '1' };
      await using world = await openUsageWorld('embedded+file', { settings });
      for (const name of ['one', 'two']) {
        await world.client.put(`/${name}`);
        await world.client.put(`/${name}/key`, { body: 'ten bytes.' });
      }
      await world.rollUp();
      // It holds its bytes from after the last sample of the day on.
      await world.client.put('/late');
      await world.client.put('/late/key', { body: 'ten bytes.' });
      world.clock.jump(24 * hourMs);
      const dying = dyingProcess(world.context, at, when);
      const unit = rollUpUsage(dying.context, 2);
      const run = async (): Promise<void> => {
        while ((await unit(never)) === 'busy');
      };
      await run().catch(() => {});
      isOver = !dying.hasDied();
      for (let successors = 0; successors < 3; successors += 1) world.changeLeader();
      await world.rollUp();
      const owned = await world.rows(`/iam/users/${alice.owner}/usage`);
      const byName = owned.toSorted((a, b) => String(a['bucket']).localeCompare(String(b['bucket'])));
      expect(byName, `write ${at}, ${when}`).toMatchObject(
        ['late', 'one', 'two'].map((bucket) => ({
          bucket,
          day: '2026-01-01',
          byteSeconds: 10 * daySeconds,
        })),
      );
      const { text } = await world.ask('/usage/export?day=2026-01-01&format=jsonl');
      const exported = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).bucket);
      expect(exported.toSorted(), `write ${at}, ${when}`).toEqual(['late', 'one', 'two']);
      for (const name of ['late', 'one', 'two'])
        expect(await world.rows(`/buckets/${name}/usage`)).toHaveLength(1);
    }
  }
});

test('after days without a worker, yesterday is billed by what buckets hold now, and earlier days have no rows', async () => {
  const warnings: string[] = [];
  await using world = await openUsageWorld('memory', {
    wrap: (context) => ({
      ...context,
      telemetry: {
        ...context.telemetry,
        log: (level, message) => {
          if (level === 'WARN') warnings.push(message);
        },
      },
    }),
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'ten bytes.' });
  await world.rollUp();
  world.clock.jump(4 * 24 * hourMs);
  await world.client.put('/young');
  await world.client.put('/young/key', { body: 'x' });
  await world.rollUp();
  expect((await world.rows()).map(({ day }) => day)).toEqual(['2026-01-01', '2026-01-04']);
  expect(await world.rows('/buckets/young/usage')).toEqual([]);
  expect(warnings).toContain('no usage is known of days on which no usage-rollup worker ran');
});

test('the window is inclusive, reaches back 30 days by default, and is read in pages', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  await world.rollUp();
  for (let day = 0; day < 33; day += 1) await world.hours(24);
  const days = async (query: string) =>
    (await world.rows(`/buckets/bucket/usage${query}`)).map(({ day }) => day);
  const all = await days('?start=2026-01-01');
  expect(all).toHaveLength(33);
  // Today is 3 February, whose row does not exist yet.
  expect(await days('')).toEqual(all.slice(3));
  expect(await days('?start=2026-01-05&end=2026-01-06')).toEqual(['2026-01-05', '2026-01-06']);
  expect(await days('?start=2026-01-05&end=2026-01-05')).toEqual(['2026-01-05']);
  // Without a start it is the end less 30 days: 31 days, both included.
  expect(await days('?end=2026-02-01')).toEqual(all.slice(1, 32));
  for (const path of ['/buckets/bucket/usage', `/iam/users/${alice.owner}/usage`]) {
    const paged: unknown[] = [];
    let token = '';
    do {
      const reply = JSON.parse((await world.ask(`${path}?start=2026-01-01&limit=10${token}`)).text);
      expect(reply.rows.length).toBeLessThanOrEqual(10);
      paged.push(...reply.rows.map(({ day }: { day: string }) => day));
      token = reply.next === undefined ? '' : `&after=${encodeURIComponent(reply.next)}`;
    } while (token !== '');
    expect(paged).toEqual(all);
  }
});

test('the usage of a user names what all their buckets hold now', async () => {
  await using world = await openUsageWorld();
  for (const name of ['one', 'two']) {
    await world.client.put(`/${name}`);
    await world.client.put(`/${name}/key`, { body: 'ten bytes.' });
  }
  await world.bob.put('/other');
  await world.bob.put('/other/key', { body: 'x' });
  const { text } = await world.ask(`/iam/users/${alice.owner}/usage`);
  expect(JSON.parse(text)).toEqual({ rows: [], totals: { bytes: 20, objects: 2 } });
});

test('usage with a bad day, window, limit or token is refused by name, and only operators get it', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  const queries = [
    ['start=2026-02-30', 'start must be a UTC day'],
    ['end=yesterday', 'end must be a UTC day'],
    ['end=9999-12-31', 'end must be a UTC day'],
    ['start=2026-01-02&end=2026-01-01', 'start (2026-01-02) is after end (2026-01-01)'],
    ['limit=0', 'limit must be'],
    ['limit=1001', 'limit must be'],
    ['after=x', 'after is not'],
    ['token=x', 'There is no parameter'],
  ] as const;
  for (const path of ['/buckets/bucket/usage', `/iam/users/${alice.owner}/usage`]) {
    for (const [query, says] of queries) {
      const { status, text } = await world.ask(`${path}?${query}`);
      expect([status, text]).toEqual([400, expect.stringContaining(says)]);
    }
    // The account itself sees its own usage.
    expect((await world.client.get(`/admin/v1${path}`)).status).toBe(200);
    expect((await world.bob.get(`/admin/v1${path}`)).status).toBe(403);
  }
  expect((await world.ask('/buckets/missing/usage')).status).toBe(404);
});
