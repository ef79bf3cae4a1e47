/** A clock that was far ahead for a while: scheduled work goes on once it is right again, and does not wait until the clock is there. */
import { expect, test } from 'vitest';
import { compareAll } from '../../src/workers/fsck.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { scrubAll } from '../../src/workers/scrub.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { openGateway } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const never = new AbortController().signal;
const rules =
  '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
const inventory =
  '<InventoryConfiguration><Destination><S3BucketDestination><Bucket>arn:aws:s3:::bucket</Bucket><Format>CSV</Format></S3BucketDestination></Destination><IsEnabled>true</IsEnabled><Id>i</Id><IncludedObjectVersions>Current</IncludedObjectVersions><Schedule><Frequency>Daily</Frequency></Schedule></InventoryConfiguration>';

test.each(['1 day', '365 days'])('a clock that was ahead by %s', async (ahead) => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const settings = {
    SVC_LIFECYCLE_RATE: '1000000',
    SVC_SCRUB_RATE: '1GiB',
    SVC_SCRUB_INTERVAL: '1h',
    SVC_FSCK_INTERVAL: '1h',
    SVC_INVENTORY_INTERVAL: '1m',
  };
  await using world = await openGateway({ clock, settings });
  const { context, client } = world;
  await client.put('/bucket');
  expect((await client.put('/bucket?lifecycle', { body: rules })).status).toBe(200);
  // The destination does not allow the write, which is a result, too.
  expect((await client.put('/bucket?inventory&id=i', { body: inventory })).status).toBe(200);
  const units: Readonly<Record<string, Unit>> = {
    lifecycle: carryOutLifecycles(context, 1),
    scrub: scrubAll(context, 1),
    fsck: compareAll(context, 1),
    inventory: writeInventories(context, 1),
  };
  const work = async (): Promise<void> => {
    for (const unit of Object.values(units)) {
      for (let turn = 0; turn < 100 && (await unit(never)) === 'busy'; turn += 1);
      for (let turn = 0; turn < 5; turn += 1) await unit(never);
    }
  };
  await work();
  const aheadMs = Number(ahead.split(' ')[0]) * dayMs;
  clock.jump(aheadMs);
  await work();
  await clock.advance(2 * hourMs);
  await work();
  clock.jump(-aheadMs);
  await client.put('/bucket/key', { body: 'x' });
  await clock.advance(2 * hourMs);
  await work();
  const { tasks } = await operatorOf(world).must('GET', '/tasks');
  const ended = new Map(
    (tasks as { kind: string; finishedAt: number }[]).map(({ kind, finishedAt }) => [kind, finishedAt]),
  );
  for (const kind of Object.keys(units))
    expect((ended.get(kind) ?? Number.NaN) * 1000, kind).toBeLessThanOrEqual(clock.now());

  for (let day = 0; day < 3; day += 1) {
    await clock.advance(dayMs);
    await work();
  }
  expect((await client.get('/bucket/key')).status).toBe(404);
});
