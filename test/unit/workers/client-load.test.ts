/** Background work leaves the clients most of their throughput, and does not wait where there are none. */
import { expect, test } from 'vitest';
import { ClientLoad } from '../../../src/workers/client-load.ts';

/**
 * Clients that are answered so often per ms while the worker works and while it rests, and a worker that always has work in pieces of
 * 5 ms.
 */
async function simulate(
  ms: number,
  answers: (isWorking: boolean, at: number) => number,
): Promise<{ readonly worked: number; readonly answered: number }> {
  let now = 0;
  let wake: { readonly at: number; readonly call: () => void } | undefined;
  const load = new ClientLoad({
    elapsed: () => now,
    sleep: (rest) => new Promise((call) => (wake = { at: now + rest, call })),
  });
  const stop = new AbortController();
  let worked = 0;
  let pieceEnds = 0;
  let endPiece: (() => void) | undefined;
  const working = (async () => {
    while (!stop.signal.aborted) {
      await load.yieldToClients(stop.signal);
      pieceEnds = now + 5;
      await new Promise<void>((resolve) => (endPiece = resolve));
    }
  })().catch(() => {});
  let answered = 0;
  let due = 0;
  for (; now < ms; now += 1) {
    if (wake !== undefined && now >= wake.at) {
      const { call } = wake;
      wake = undefined;
      call();
    }
    if (endPiece !== undefined && now >= pieceEnds) {
      const end = endPiece;
      endPiece = undefined;
      end();
    }
    for (let turn = 0; turn < 4; turn += 1) await Promise.resolve();
    const isWorking = endPiece !== undefined;
    worked += isWorking ? 1 : 0;
    due += answers(isWorking, now);
    for (; due >= 1; due -= 1) {
      load.answered();
      answered += 1;
    }
  }
  stop.abort();
  wake?.call();
  endPiece?.();
  await working;
  return { worked, answered };
}

test('without clients a worker works all the time', async () => {
  expect((await simulate(10_000, () => 0)).worked).toBeGreaterThan(9_900);
});

for (const cost of [0.3, 0.6, 0.9])
  test(`where work takes ${cost} of the throughput while it runs, clients keep more than 0.8 of it, and work goes on`, async () => {
    const ms = 60_000;
    const { worked, answered } = await simulate(ms, (isWorking) => (isWorking ? 2 * (1 - cost) : 2));
    expect(answered / (2 * ms)).toBeGreaterThan(0.8);
    expect(worked / ms).toBeGreaterThan(0.1);
    // What clients may lose is used.
    expect(answered / (2 * ms)).toBeLessThan(0.92);
  });

test('where work costs the clients nothing, it goes on two thirds of the time and more', async () => {
  expect((await simulate(60_000, () => 2)).worked).toBeGreaterThan(40_000);
});

test('when the clients have gone, the worker works all the time again', async () => {
  const { worked } = await simulate(60_000, (isWorking, at) => (at > 20_000 ? 0 : isWorking ? 0.2 : 2));
  expect(worked).toBeGreaterThan(39_000);
});
