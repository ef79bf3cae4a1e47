/** Rows that are collected and written in batches: within a second, all of them, in bounded memory. */
import { expect, test } from 'vitest';
import { lateWrites } from '../../src/backends/metadata/late-writes.ts';
import type { SideChange } from '../../src/ports/metadata-store.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { isWaiting } from '../support/is-waiting.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const MiB = 1024 * 1024;
const row = (n: number): SideChange => ({ at: { table: {}, in: {} }, put: { n } }) as unknown as SideChange;

function open(apply?: (changes: readonly SideChange[]) => Promise<void>) {
  const clock = virtualClock();
  const written: number[] = [];
  const losses: unknown[] = [];
  const late = lateWrites({
    clock,
    metadata: {
      async apply(changes) {
        await apply?.(changes);
        for (const change of changes) written.push((change as { put: { n: number } }).put.n);
      },
    },
    telemetry: { ...silentTelemetry, log: (_level, _message, fields) => void losses.push(fields) },
  });
  return { clock, late, written, losses };
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
