/** The instants that the workers of a process share. */
import { expect, test } from 'vitest';
import { Pulses } from '../../../src/workers/idle-rest.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

test('workers that rest for the same interval wake up together, by one timer', async () => {
  const clock = virtualClock();
  const pulses = new Pulses(clock);
  const { signal } = new AbortController();
  const woken: number[] = [];
  const wait = () => void pulses.next(1000, signal).then(() => woken.push(clock.elapsed()));
  wait();
  await clock.advance(300);
  wait();
  await clock.advance(700);
  expect(woken).toEqual([1000, 1000]);
  expect(clock.slept).toEqual([1000]);
});

test('checks for different intervals wake up the process by one timer', async () => {
  const clock = virtualClock();
  const pulses = new Pulses(clock);
  const stop = new AbortController();
  for (const everyMs of [5_000, 2_000, 1_000]) void pulses.next(everyMs, stop.signal, () => false);
  await clock.advance(4_500);
  // The first two gave way to the shorter interval that began after them.
  expect(clock.slept).toEqual([5_000, 2_000, 1_000, 1_000, 1_000, 1_000, 1_000]);
  stop.abort();
  await clock.settle();
});

test('workers that rest for different intervals wake up at multiples of their own', async () => {
  const clock = virtualClock();
  const pulses = new Pulses(clock);
  const stop = new AbortController();
  const woken: string[] = [];
  const rest = async (everyMs: number): Promise<void> => {
    while (!stop.signal.aborted) {
      await pulses.next(everyMs, stop.signal);
      if (!stop.signal.aborted) woken.push(`${everyMs} at ${clock.elapsed()}`);
    }
  };
  for (const everyMs of [5_000, 2_000, 1_000]) void rest(everyMs);
  await clock.advance(4_500);
  expect(woken).toEqual([
    '1000 at 1000',
    '2000 at 2000',
    '1000 at 2000',
    '1000 at 3000',
    '2000 at 4000',
    '1000 at 4000',
  ]);
  stop.abort();
  await clock.settle();
});

test('a timer that fires a moment early does not fire again at the same instant', async () => {
  const clock = virtualClock();
  const pulses = new Pulses(clock);
  await clock.advance(999.5);
  let isWoken = false;
  void pulses.next(1000, new AbortController().signal).then(() => {
    isWoken = true;
  });
  await clock.advance(900);
  expect(isWoken).toBe(false);
  await clock.advance(200);
  expect(isWoken).toBe(true);
});

test('no timer is left once every waiting worker was stopped', async () => {
  const clock = virtualClock();
  const sleeping: AbortSignal[] = [];
  const pulses = new Pulses({
    elapsed: clock.elapsed,
    sleep: (ms, signal) => {
      if (signal !== undefined) sleeping.push(signal);
      return clock.sleep(ms, signal);
    },
  });
  const stop = new AbortController();
  const waiting = [pulses.next(1000, stop.signal), pulses.next(1000, stop.signal)];
  stop.abort();
  await Promise.all(waiting);
  expect(sleeping.map(({ aborted }) => aborted)).toEqual([true]);
});

test('a wait for a condition ends at the first instant at which it holds, and other waits do not end it', async () => {
  const clock = virtualClock();
  const pulses = new Pulses(clock);
  const stop = new AbortController();
  let hasCome = false;
  const woken: string[] = [];
  const wait = (name: string, isDue?: () => boolean) =>
    void pulses.next(1000, stop.signal, isDue).then(() => woken.push(`${name} ${clock.elapsed()}`));
  wait('something', () => hasCome);
  wait('nothing', () => false);
  wait('time');
  await clock.advance(2_500);
  hasCome = true;
  await clock.advance(1_000);
  expect(woken).toEqual(['time 1000', 'something 3000']);
  stop.abort();
  await clock.settle();
  expect(woken).toEqual(['time 1000', 'something 3000', 'nothing 3500']);
  wait('later');
  await clock.advance(10_000);
  // The signal has aborted, so this one does not rest.
  expect(woken.at(-1)).toBe('later 3500');
});
