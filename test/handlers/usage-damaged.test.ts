/** A bucket whose samples cannot be read does not delay the usage of the others. */
import { expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { DamagedRows } from '../support/damaged-rows.ts';
import { openUsageWorld } from '../support/usage-world.ts';

const daySeconds = 86_400;
const body = 'ten bytes.';
const buckets = Array.from({ length: 40 }, (_, index) => `bucket-${index}`);

test('one damaged row of samples: all buckets are billed, that one for what it holds at the end of the day', async () => {
  const damaged = new DamagedRows();
  await using world = await openUsageWorld('memory', { wrap: damaged.wrap });
  for (const bucket of buckets) {
    await world.client.put(`/${bucket}`);
    await world.client.put(`/${bucket}/key`, { body });
  }
  await world.rollUp();
  const { id } = await openBucket(world.context, 'bucket-7');
  damaged.patterns.add(new RegExp(`^tasks .*"usage-rollup".*${id}"`));
  await world.hours(12);
  await world.client.put('/bucket-7/key', { body: body + body });
  await world.hours(13);
  for (const bucket of buckets) {
    const [row, ...others] = await world.rows(`/buckets/${bucket}/usage`);
    const bytes = bucket === 'bucket-7' ? 20 : 10;
    expect(row, bucket).toMatchObject({ day: '2026-01-01', byteSeconds: bytes * daySeconds });
    expect(others).toEqual([]);
  }
  await world.hours(24);
  expect(await world.rows('/buckets/bucket-7/usage')).toHaveLength(2);
});
