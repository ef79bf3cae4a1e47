/** A log whose target takes no lines costs the worker `access-log` no reads of its queued lines. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { rowsOfHour, scanHours } from '../../src/metadata/background/hourly-queues.ts';
import { type AccessLogTask, type HourlyRow, hourlyQueues } from '../../src/metadata/records/queues.ts';
import { deliverAccessLogs } from '../../src/workers/deliveries.ts';
import { countRows } from '../support/counted-rows.ts';
import {
  firstKeys,
  keysIn,
  type LogWorld,
  logging,
  must,
  openLogs,
  policy,
} from '../support/delivered-logs.ts';
import { faulty } from '../support/faulty.ts';
import { operator } from '../support/gateway.ts';

const never = new AbortController().signal;
const minuteMs = 60_000;

/** One leader, and how many rows of the queue it reads. */
function lead({ world: { context } }: LogWorld, ports: Partial<Context> = {}) {
  const { metadata, seen } = countRows(context.metadata, hourlyQueues.name);
  const counting: Context = { ...context, ...ports, metadata };
  const unit = deliverAccessLogs(counting, 1);
  return {
    /** @returns the rows that the pass has read */
    async pass(): Promise<number> {
      const before = seen.rows;
      await unit(never);
      return seen.rows - before;
    },
  };
}

test('old lines are not read while the policy of their target denies them, and delivered in the pass after it allows them', async () => {
  await using logs = await openLogs('memory', { grant: '' });
  const { client } = logs.world;
  await logs.ask(300);
  const leader = lead(logs);
  expect(await leader.pass()).toBe(300);
  await logs.clock.advance(15 * minuteMs);
  // Rows of slow commits may have come among them.
  expect(await leader.pass()).toBe(300);
  const reads: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    reads.push(await leader.pass());
    await logs.clock.advance(5 * minuteMs);
  }
  expect(reads).toEqual(Array(20).fill(0));
  // Each pass asks the target, and says that it refuses.
  expect(logs.kept).toEqual(Array(22).fill('denied'));
  await must(client.put('/logs?policy', { body: policy() }));
  await leader.pass();
  expect(keysIn(await logs.delivered())).toEqual(firstKeys(300));
  expect(await logs.queued()).toEqual([]);
});

test('new lines of a refused log are read while they may be followed by late ones, and those of other logs are delivered', async () => {
  await using logs = await openLogs();
  const { client, context } = logs.world;
  for (let n = 0; n < 40; n += 1) {
    await must(client.put(`/other-${n}`));
    await must(client.put(`/other-${n}?logging`, { body: logging('', 'q/') }));
  }
  const prefixPolicy = policy({ Resource: 'arn:aws:s3:::logs/q/*' });
  await must(client.put('/logs?policy', { body: prefixPolicy }));
  await logs.ask(200);
  const leader = lead(logs);
  await leader.pass();
  let read = 0;
  for (let round = 0; round < 12; round += 1) {
    await logs.clock.advance(5 * minuteMs);
    await logs.ask(10);
    // With forty buckets some share a slot with the refused one.
    for (let n = 0; n < 40; n += 1) await client.get(`/other-${n}/round-${round}`);
    await context.lateWrites.flush();
    read += await leader.pass();
  }
  // Each of the 120 refused lines at most three times, each of the others once, and those of the first pass until ten minutes are over.
  expect(read).toBeLessThanOrEqual(3 * 120 + 12 * 40 + 2 * 200);
  const rounds = (await logs.delivered()).flatMap((line) => / (round-\d+) /.exec(line)?.[1] ?? []);
  expect(rounds).toHaveLength(12 * 40);
  await must(client.put('/logs?policy', { body: policy() }));
  await leader.pass();
  const lines = await logs.delivered();
  expect(keysIn(lines.filter((line) => / key-\d+ /.test(line)))).toEqual(firstKeys(320));
});

test('a line that a slow commit adds among lines that are passed over is delivered in the next pass', async () => {
  await using logs = await openLogs('memory', { body: logging('', 'no/') });
  const { client, context } = logs.world;
  await must(client.put('/logs?policy', { body: policy({ Resource: 'arn:aws:s3:::logs/p/*' }) }));
  await logs.ask(5);
  const leader = lead(logs);
  await leader.pass();
  await logs.clock.advance(5 * minuteMs);
  await leader.pass();
  let template: HourlyRow | undefined;
  for await (const hour of scanHours(context.metadata, 'access-log'))
    template ??= (await rowsOfHour(context.metadata, hour).next(1))[0]?.row;
  if (template === undefined) throw new Error('no row');
  const { queue, slot, hour } = template;
  const task = template.task as AccessLogTask;
  const late = { ...template, id: 'late', task: { ...task, target: { ...task.target, prefix: 'p/' } } };
  await context.metadata.apply([{ at: { table: hourlyQueues, in: { queue, slot, hour } }, put: late }]);
  await leader.pass();
  expect((await logs.delivered()).length).toBe(1);
});

test('a target that refuses objects only when they are written is tried after growing pauses of at most half an hour', async () => {
  await using logs = await openLogs();
  const admin = logs.world.as({ credential: operator });
  await must(logs.world.client.put('/logs/other'));
  const path = '/admin/v1/buckets/logs/quota';
  await must(admin.put(path, { body: JSON.stringify({ maxBytes: 0, maxObjects: 1, maxBytesPerObject: 0 }) }));
  await logs.ask(50);
  const leader = lead(logs);
  const tries: number[] = [];
  for (let n = 0; n < 24; n += 1) {
    if ((await leader.pass()) > 0) tries.push(n);
    await logs.clock.advance(5 * minuteMs);
  }
  // In passes, one every five minutes: at first the rows are also read while late ones may follow.
  expect(tries.filter((n) => n > 4)).toEqual([7, 13, 19]);
  expect(logs.kept.length).toBeLessThanOrEqual(tries.length);
  await must(admin.delete(path));
  for (let n = 0; n < 7; n += 1) {
    await leader.pass();
    await logs.clock.advance(5 * minuteMs);
  }
  expect(keysIn((await logs.delivered()).filter((line) => / key-\d+ /.test(line)))).toEqual(firstKeys(50));
});

test('a target whose storage fails is tried after growing pauses too, and its lines are read for an attempt only', async () => {
  await using logs = await openLogs();
  const { client, context } = logs.world;
  await must(client.put('/second'));
  await must(client.put('/second?logging', { body: logging('', 'q/') }));
  let fails = true;
  const write: Context['bytes']['write'] = (source, options) =>
    fails && options.owner.key.startsWith('p/')
      ? Promise.reject(new Error('no answer'))
      : context.bytes.write(source, options);
  await logs.ask(50);
  const leader = lead(logs, { bytes: faulty(context.bytes, { write }) });
  const reads: number[] = [];
  for (let n = 0; n < 24; n += 1) {
    reads.push(await leader.pass());
    await logs.clock.advance(5 * minuteMs);
  }
  // In passes, one every five minutes: at first the rows are also read while late ones may follow.
  expect(reads.flatMap((rows, n) => (n > 4 && rows > 0 ? [[n, rows]] : []))).toEqual([
    [7, 50],
    [13, 50],
    [19, 50],
  ]);
  expect(logs.kept).toEqual(Array(6).fill('error'));
  // Lines of other logs do not wait, and new ones of this log follow.
  await client.get('/second/key-x');
  await logs.ask(5);
  await leader.pass();
  expect((await logs.delivered()).filter((line) => line.includes(' key-x '))).toHaveLength(1);
  fails = false;
  for (let n = 0; n < 7; n += 1) {
    await logs.clock.advance(5 * minuteMs);
    await leader.pass();
  }
  expect(keysIn((await logs.delivered()).filter((line) => / key-\d+ /.test(line)))).toEqual(firstKeys(55));
  expect(await logs.queued()).toEqual([]);
});
