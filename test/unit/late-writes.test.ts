/** Rows that are collected and written in batches: within a second, all of them, in bounded memory. */
import { expect, test } from 'vitest';
import { lateWrites } from '../../src/backends/metadata/late-writes.ts';
import { RowTooLong, type SideChange, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { isWaiting } from '../support/is-waiting.ts';
import { onCount } from '../support/metric-calls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const MiB = 1024 * 1024;
const row = (n: number): SideChange => ({ at: { table: {}, in: {} }, put: { n } }) as unknown as SideChange;

function open(apply?: (changes: readonly SideChange[]) => Promise<void>) {
  const clock = virtualClock();
  const written: number[] = [];
  const losses: unknown[] = [];
  const lost: Record<string, number> = {};
  const late = lateWrites({
    clock,
    metadata: {
      async apply(changes) {
        await apply?.(changes);
        for (const change of changes) written.push((change as { put: { n: number } }).put.n);
      },
    },
    telemetry: {
      ...silentTelemetry,
      log: (_level, _message, fields) => void losses.push(fields),
      ...onCount({
        svc_late_rows_lost_total: ({ why }, by = 1) => {
          lost[why] = (lost[why] ?? 0) + by;
        },
      }),
    },
  });
  return { clock, late, written, losses, lost };
}

test('rows are written within a second, in order', async () => {
  const { clock, late, written } = open();
  for (const n of [1, 2, 3]) expect(await isWaiting(late.add(row(n), 10))).toBe(false);
  await clock.advance(999);
  expect(written).toEqual([]);
  await clock.advance(1);
  expect(written).toEqual([1, 2, 3]);
  void late.add(row(4), 10);
  await clock.advance(1000);
  expect(written).toEqual([1, 2, 3, 4]);
});

test('a flush leaves nothing waiting, and may come when nothing does', async () => {
  const { late, written } = open();
  await late.flush();
  for (let n = 0; n < 1000; n += 1) void late.add(row(n), 10);
  await late.flush();
  expect(written).toHaveLength(1000);
  void late.add(row(1000), 10);
  await late.flush();
  expect(written).toHaveLength(1001);
});

test('many rows are written without waiting for the next second, and too many make their writer wait', async () => {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { clock, late, written } = open(() => held);
  expect(await isWaiting(late.add(row(0), MiB))).toBe(false);
  await clock.advance(0);
  for (const n of [1, 2, 3]) expect(await isWaiting(late.add(row(n), MiB))).toBe(false);
  let hasRoom = false;
  const stalled = late.add(row(4), MiB).then(() => {
    hasRoom = true;
  });
  await clock.advance(5000);
  expect([hasRoom, written]).toEqual([false, []]);
  release();
  await stalled;
  expect(written).toEqual([0, 1, 2, 3, 4]);
});

test('rows that the store refuses are reported as lost, and later ones are written', async () => {
  let isDown = true;
  const { late, written, losses } = open(async () => {
    if (isDown) throw new Error('down');
  });
  void late.add(row(0), 10);
  await late.flush();
  isDown = false;
  void late.add(row(1), 10);
  await late.flush();
  expect(written).toEqual([1]);
  expect(losses).toMatchObject([{ rows: 1 }]);
});

const numberOf = (change: SideChange): number => (change as unknown as { put: { n: number } }).put.n;

test.each([
  ['the first one', [0]],
  ['the last one', [699]],
  ['some of several writes', [3, 4, 255, 256, 600]],
])('of rows that the store refuses for themselves no other row is lost: %s', async (_, refused) => {
  let calls = 0;
  const { late, written, losses, lost } = open(async (changes) => {
    calls += 1;
    if (changes.some((change) => refused.includes(numberOf(change)))) throw new RowTooLong('too long');
  });
  for (let n = 0; n < 700; n += 1) void late.add(row(n), 10);
  await late.flush();
  const expected = Array.from({ length: 700 }, (_, n) => n).filter((n) => !refused.includes(n));
  expect(written).toEqual(expected);
  expect(lost).toEqual({ row: refused.length });
  // One entry, so that refused rows do not fill the log.
  expect(losses).toMatchObject([{ rows: refused.length, cause: { message: 'too long' } }]);
  expect(calls).toBeLessThan(3 + refused.length * 2 * 9);
});

test('a store that is gone is not asked for each row', async () => {
  let calls = 0;
  const { late, written, lost } = open(async () => {
    calls += 1;
    throw new StoreUnavailable('gone');
  });
  for (let n = 0; n < 700; n += 1) void late.add(row(n), 10);
  await late.flush();
  expect({ calls, written, lost }).toEqual({ calls: 1, written: [], lost: { store: 700 } });
});

test('a store that goes away while a refused row is looked for keeps what it has written', async () => {
  const { late, written, lost } = open(async (changes) => {
    if (changes.some((change) => numberOf(change) === 5)) throw new RowTooLong('too long');
    if (changes.some((change) => numberOf(change) === 9)) throw new StoreUnavailable('gone');
  });
  for (let n = 0; n < 16; n += 1) void late.add(row(n), 10);
  await late.flush();
  expect(written).toEqual([0, 1, 2, 3, 4, 6, 7]);
  expect(lost).toEqual({ row: 1, store: 8 });
});

test('a store that fails by an error of no known kind is not asked for each row', async () => {
  let calls = 0;
  const { late, written, lost } = open(async () => {
    calls += 1;
    throw new Error('of no known kind');
  });
  for (let n = 0; n < 700; n += 1) void late.add(row(n), 10);
  await late.flush();
  expect(calls).toBeLessThan(40);
  expect(written).toEqual([]);
  expect((lost['row'] ?? 0) + (lost['store'] ?? 0)).toBe(700);
});

test('a row that is refused by an error of no known kind is lost alone', async () => {
  const { late, written, lost } = open(async (changes) => {
    if (changes.some((change) => numberOf(change) === 300)) throw new Error('of no known kind');
  });
  for (let n = 0; n < 700; n += 1) void late.add(row(n), 10);
  await late.flush();
  expect(written).toHaveLength(699);
  expect(lost).toEqual({ row: 1 });
});
