/** A request without a tracer costs nothing: nothing is read of it, and so nothing is made of it. */
import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import type { Context } from '../../src/context.ts';
import { beginTrace } from '../../src/gateway/report.ts';
import { buckets } from '../../src/metadata/tables.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { RequestContext } from '../../src/request/request.ts';
import { createTracer } from '../../src/telemetry/tracer.ts';

const options = { clock: systemClock, random: systemRandom(), process: 'here:1', sample: 1 };
/** Throws whatever is read. What a trace begins with is made from the header of the request. */
const untouchable = new Proxy({} as RequestContext, {
  get: (_, name) => {
    throw new Error(`${String(name)} was read`);
  },
});

test('without the browser and an exporter there is no tracer, and a request is not touched', () => {
  expect(createTracer({ ...options, browser: false })).toBeUndefined();
  expect(beginTrace({} as Context, untouchable)).toBeUndefined();
});

test('with either of them it is', () => {
  for (const more of [{ browser: true }, { browser: false, export: () => undefined }]) {
    const tracer = createTracer({ ...options, ...more });
    if (tracer === undefined) throw new Error('no tracer');
    expect(() => beginTrace({ tracer } as Context, untouchable)).toThrow(' was read');
  }
});

test('running traces are listed with the latest first, and the oldest beyond 4,096 are left out', () => {
  const tracer = createTracer({ ...options, browser: true });
  if (tracer === undefined) throw new Error('no tracer');
  const begin = (n: number) =>
    tracer.begin({
      subject: { requestId: `${n}`, operation: 'GetObject' },
      kind: 'server',
      describe: () => ({}),
    });
  const running = () => tracer.list({ running: true, max: 10_000 }).map(({ requestId }) => Number(requestId));
  const traces = Array.from({ length: 4_100 }, (_, n) => begin(n));
  expect(running()).toEqual(Array.from({ length: 4_096 }, (_, n) => 4_099 - n));
  // From the middle, both ends, and one that is no longer listed.
  for (const n of [2_000, 4_099, 4, 0]) traces[n]?.end({ status: 200 });
  expect(running()).toEqual(
    Array.from({ length: 4_096 }, (_, n) => 4_099 - n).filter((n) => ![2_000, 4_099, 4].includes(n)),
  );
  for (const trace of traces) trace?.end({ status: 200 });
  expect(running()).toEqual([]);
});

test('a trace names its first 96 calls in their order, and counts the others', async () => {
  let now = 0;
  const clock = { ...systemClock, elapsed: () => now };
  const tracer = createTracer({ ...options, clock, browser: true });
  const trace = tracer?.begin({
    subject: { requestId: 'calls', operation: 'GetObject' },
    kind: 'server',
    describe: () => ({}),
  });
  const metadata = memoryStore({ clock, random: options.random });
  const view = trace?.view({ metadata });
  const tables = Array.from({ length: 100 }, (_, n) => ({ ...buckets, name: `table-${n}` }));
  for (const table of tables) {
    await view?.metadata.get({ table, in: { name: 'bench' } }, {});
    now += 1;
  }
  trace?.end({ status: 500 });
  const found = tracer?.find('calls', 1)[0];
  expect(found?.spans.map(({ about }) => about)).toEqual(tables.slice(0, 96).map(({ name }) => name));
  expect(found?.leftOut).toBe(4);
});
