/** The clock of the running service. */
import { afterEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';

afterEach(() => void vi.useRealTimers());

const dayMs = 24 * 60 * 60_000;

test('sleep lasts as long as asked, also longer than a timer can (24.8 days)', async () => {
  vi.useFakeTimers();
  let isAwake = false;
  void systemClock.sleep(60 * dayMs).then(() => {
    isAwake = true;
  });
  await vi.advanceTimersByTimeAsync(60 * dayMs - 1);
  expect(isAwake).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(isAwake).toBe(true);
});

test('a signal ends a sleep in its second timer, and leaves none behind', async () => {
  vi.useFakeTimers();
  const ends = new AbortController();
  const sleep = systemClock.sleep(60 * dayMs, ends.signal);
  await vi.advanceTimersByTimeAsync(30 * dayMs);
  ends.abort();
  await sleep;
  expect(vi.getTimerCount()).toBe(0);
});
