/** A clock that was far ahead for a while: scheduled work goes on once it is right again, and does not wait until the clock is there. */
import { expect, test } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { compareAll } from '../../src/workers/fsck.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { retainAudit } from '../../src/workers/retention.ts';
import { scrubAll } from '../../src/workers/scrub.ts';
import type { Unit } from '../../src/workers/worker.ts';
import { operatorOf } from '../support/clusters.ts';
import { openGateway } from '../support/gateway.ts';
import { auditRows } from '../support/recorded.ts';
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

const minuteMs = 60_000;

async function runAll(unit: Unit): Promise<void> {
  for (let turn = 0; turn < 2_000; turn += 1) if ((await unit(never)) === 'idle') return;
  throw new Error('the hours do not end');
}

/** A world with an hour that is sealed, and what asks it. */
async function sealedWorld() {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const world = await openGateway({ clock });
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await clock.advance(hourMs + 16 * minuteMs);
  return { clock, world, verify: () => admin.must('GET', '/audit/verify') };
}

test.each([1, 40])(
  'no hour of the audit log is sealed or removed after the clock jumped ahead by %s days',
  async (days) => {
    const { clock, world, verify } = await sealedWorld();
    await using _ = world;
    await runAll(retainAudit(world.context, 1));
    const sealed = await verify();
    expect(sealed).toMatchObject({ isIntact: true, sealedThrough: '2026-01-01T12:00:00.000Z', hours: 1 });
    for (let hour = 0; hour < 5; hour += 1) {
      if (hour === 0) clock.jump(days * dayMs);
      else await clock.advance(hourMs);
      // A run that fails, and another leader of this process, do not trust the clock either.
      await runAll(retainAudit(world.context, 2 + hour));
      expect(await verify()).toMatchObject({ sealedThrough: sealed['sealedThrough'] });
    }

    clock.jump(-days * dayMs);
    await world.client.put('/later');
    await clock.advance(2 * hourMs);
    await runAll(retainAudit(world.context, 9));
    expect(await verify()).toMatchObject({ isIntact: true, hours: 7, rows: 2, removedEarly: 0 });
  },
);

test('a clock that jumped ahead and runs evenly for six hours is the right one', async () => {
  const { clock, world, verify } = await sealedWorld();
  await using _ = world;
  const unit = retainAudit(world.context, 1);
  await runAll(unit);
  clock.jump(2 * dayMs);
  await runAll(unit);
  await clock.advance(6 * hourMs);
  await runAll(unit);
  expect(await verify()).toMatchObject({ isIntact: true, sealedThrough: '2026-01-03T18:00:00.000Z' });
});

test('a process that finds the last seal older than a day seals after six hours', async () => {
  const { clock, world, verify } = await sealedWorld();
  await using _ = world;
  await runAll(retainAudit(world.context, 1));
  const sealed = await verify();
  await clock.advance(2 * dayMs);
  const unit = retainAudit({ ...world.context, caches: new Caches() }, 2);
  await runAll(unit);
  expect(await verify()).toEqual(sealed);
  await clock.advance(6 * hourMs);
  await runAll(unit);
  expect(await verify()).toMatchObject({ isIntact: true, hours: 55 });
});

test('no hour of the audit log is sealed while the clock of the store is ahead of that of the process', async () => {
  const { clock, world, verify } = await sealedWorld();
  await using _ = world;
  const behind = { ...clock, now: () => clock.now() - hourMs };
  await runAll(retainAudit({ ...world.context, clock: behind }, 1));
  expect(await verify()).toMatchObject({ isIntact: true, hours: 0 });
  await runAll(retainAudit(world.context, 2));
  expect(await verify()).toMatchObject({ isIntact: true, hours: 1 });
});

test('a seal of an hour that is not over is a warning of the status and a gap, and later tampering is found', async () => {
  const { clock, world, verify } = await sealedWorld();
  await using _ = world;
  const admin = operatorOf(world);
  await runAll(retainAudit(world.context, 1));
  clock.jump(3 * hourMs);
  // A process that began while the clock was ahead.
  await runAll(retainAudit({ ...world.context, caches: new Caches() }, 2));
  clock.jump(-3 * hourMs);
  const early = { kind: 'sealed-early', hour: '2026-01-01T13:00:00.000Z' };
  expect(await verify()).toMatchObject({ isIntact: false, gap: early, gaps: [early], removedEarly: 0 });
  const warning = expect.stringMatching(/^the audit log is sealed through 2026-01-01T15:00:00.000Z/);
  expect(await admin.must('GET', '/status')).toMatchObject({ ok: false, warnings: [warning] });

  await world.client.put('/early');
  await clock.advance(5 * hourMs);
  await world.client.put('/late');
  await clock.advance(2 * hourMs);
  await runAll(retainAudit(world.context, 3));
  const added = { kind: 'rows-added', hour: '2026-01-01T13:00:00.000Z', sealedRows: 0, foundRows: 1 };
  expect(await verify()).toMatchObject({ isIntact: false, gaps: [added] });
  expect(await admin.must('GET', '/status')).toMatchObject({ warnings: [] });
  const late = (await auditRows(world.context)).find(({ resource }) => resource === 'bucket:late');
  if (late === undefined) throw new Error('there is no row');
  const { hour, slot, time, id } = late;
  await world.context.metadata.apply([{ at: { table: audit, in: { hour, slot } }, remove: { time, id } }]);
  const removed = { kind: 'rows-removed', hour: '2026-01-01T18:00:00.000Z', sealedRows: 1, foundRows: 0 };
  expect(await verify()).toMatchObject({ gap: added, gaps: [added, removed] });
});
