/** A leader of the usage rollup that is paused beyond its lease changes no bill. */
import { expect, test } from 'vitest';
import { rollUpUsage } from '../../src/workers/buckets.ts';
import { pausedAtCall, runUntilPaused } from '../support/paused-at-call.ts';
import { hourMs, openUsageWorld, type UsageWorld } from '../support/usage-world.ts';

const body = 'ten bytes.';
const dayBytes = body.length * 86_400;
const tables = ['tasks', 'usage', 'usage_aggregates'];
const settings = { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '1' };

interface ExportedRow {
  readonly bucket: string;
  readonly storageClass: string;
  readonly byteSeconds: number;
}

async function exportDay(world: UsageWorld): Promise<readonly ExportedRow[]> {
  const { status, text } = await world.ask('/usage/export?day=2026-01-01&format=jsonl');
  expect(status).toBe(200);
  const lines = text.trimEnd().split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as ExportedRow);
}

/** A day that has ended: buckets with a sample and without, with bytes and without. */
async function openEndedDay(): Promise<UsageWorld> {
  const world = await openUsageWorld('memory', { settings });
  for (const bucket of ['sampled', 'sampled-empty']) await world.client.put(`/${bucket}`);
  await world.client.put('/sampled/key', { body });
  await world.rollUp();
  for (const bucket of ['late', 'late-deleted', 'late-empty']) await world.client.put(`/${bucket}`);
  for (const bucket of ['late', 'late-deleted']) await world.client.put(`/${bucket}/key`, { body });
  world.clock.jump(24 * hourMs);
  return world;
}

/** What clients do while the former leader is paused. */
async function changeBuckets({ client }: UsageWorld): Promise<void> {
  for (const bucket of ['sampled-empty', 'late-empty']) await client.put(`/${bucket}/key`, { body });
  for (const bucket of ['sampled', 'late']) {
    const headers = { '*-copy-source': `/${bucket}/key`, '*-storage-class': 'STANDARD_IA' };
    expect((await client.put(`/${bucket}/key`, { headers })).status).toBe(200);
  }
  await client.delete('/late-deleted/key');
  expect((await client.delete('/late-deleted')).status).toBe(204);
}

for (const when of ['before', 'after'] as const)
  test(`a leader that is paused ${when} any call of the metadata, until its successor has closed the day, changes no bill`, async () => {
    for (let at = 0; ; at += 1) {
      expect(at).toBeLessThan(2_000);
      await using world = await openEndedDay();
      const former = pausedAtCall(world.context, { at, when, tables });
      const unit = rollUpUsage(former.context, 2);
      const { isOver, ending } = await runUntilPaused(former, unit);
      if (isOver) break;
      await changeBuckets(world);
      for (let successors = 0; successors < 3; successors += 1) world.changeLeader();
      await world.rollUp();
      const closed = await exportDay(world);
      former.resume();
      await ending;
      const message = `call ${at}`;
      expect(await exportDay(world), message).toEqual(closed);
      // The model: a bucket has one row, for the class that its object had when its counters were read.
      const bills = Map.groupBy(closed, ({ bucket }) => bucket);
      for (const rows of bills.values())
        expect(rows, message).toEqual([expect.objectContaining({ byteSeconds: dayBytes })]);
      expect(bills.get('sampled')?.[0]?.storageClass, message).toBe('STANDARD');
      expect(bills.has('sampled-empty'), message).toBe(false);
      expect(bills.has('late'), message).toBe(true);
      for (const bucket of ['sampled', 'late'])
        expect(await world.rows(`/buckets/${bucket}/usage`), message).toHaveLength(1);
    }
  });
