/** Lines of access logs are gathered in bounded memory, and a row beyond it does not visit all gatherings. */
import { expect, test } from 'vitest';
import { LogGatherings, nameLog } from '../../src/domain/deliveries/access-log-delivery.ts';
import type { AccessLogTask, HourlyRow } from '../../src/metadata/records/queues.ts';

const row = (n: number, log: number, line = 'x'.repeat(300)): HourlyRow => ({
  queue: 'access-log',
  slot: 0,
  hour: 0,
  due: n,
  id: String(n),
  attempts: 0,
  requestId: '',
  task: {
    bucketId: `id-${log}`,
    bucket: `bucket-${log}`,
    target: { bucket: 'logs', prefix: '' },
    line,
  } satisfies AccessLogTask,
});
const logOf = ({ task }: HourlyRow): string => nameLog(task as AccessLogTask);

test('beyond its memory, few of ten thousand rows of different logs close gatherings, and each row is delivered once', () => {
  const gatherings = new LogGatherings({ objectBytes: 1_000_000, memoryMax: 1_000_000 });
  let closings = 0;
  const delivered: string[] = [];
  for (let n = 0; n < 10_000; n += 1) {
    const each = row(n, n);
    const closed = gatherings.add(each, logOf(each));
    if (closed.length > 0) closings += 1;
    delivered.push(...closed.flatMap(({ lines }) => lines.map(({ id }) => id)));
  }
  expect(closings).toBeGreaterThan(5);
  expect(closings).toBeLessThan(50);
  delivered.push(...gatherings.closeAll().flatMap(({ lines }) => lines.map(({ id }) => id)));
  expect(delivered.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 10_000 }, (_, n) => n));
  expect(gatherings.closeAll()).toEqual([]);
});

test('the largest gathering is closed first, and one that fills an object at once', () => {
  const gatherings = new LogGatherings({ objectBytes: 5_000, memoryMax: 20_000 });
  const add = (n: number, log: number, line?: string) => {
    const each = row(n, log, line);
    return gatherings.add(each, logOf(each)).map(({ task }) => task.bucket);
  };
  expect(add(1, 1, 'x'.repeat(5_000))).toEqual(['bucket-1']);
  for (let n = 0; n < 10; n += 1) expect(add(10 + n, 2)).toEqual([]);
  let closed: readonly string[] = [];
  for (let n = 0; closed.length === 0; n += 1) closed = add(100 + n, 100 + n);
  expect(closed[0]).toBe('bucket-2');
});
