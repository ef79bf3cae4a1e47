/** Which traces are kept, and in how many bytes. */
import { expect, test } from 'vitest';
import type { TraceDocument } from '../../src/ports/trace.ts';
import { type Ended, TraceRing } from '../../src/telemetry/trace-ring.ts';

let serial = 0;

function end(ring: TraceRing, more: Partial<Ended> = {}, text = ''): string | undefined {
  serial += 1;
  const ended: Ended = {
    operation: 'GetObject',
    account: 'tenant',
    status: 200,
    code: undefined,
    durationMs: 5,
    isSampled: false,
    endedAt: serial,
    ...more,
  };
  const kept = ring.offer(ended);
  if (kept === undefined) return undefined;
  const { operation, durationMs, status = 0 } = ended;
  const document: TraceDocument = {
    requestId: `${serial}`.padStart(16, '0'),
    traceId: 'a'.repeat(32),
    kept,
    operation,
    bucket: 'bucket',
    key: text,
    status,
    ...(ended.code === undefined ? {} : { code: ended.code }),
    startedAt: '2026-11-25T00:00:00.000Z',
    durationMs,
    process: 'host:1',
    kind: 'server',
    attributes: {},
    spanId: 'b'.repeat(16),
    links: [],
    spans: [],
    leftOut: 0,
  };
  ring.add(kept, ended, document);
  return kept;
}

/** What the entries take: their texts, a key once more, and 400 bytes each. */
const bytesOf = (ring: TraceRing): number => {
  const bytes = (text: string): number => (/[\u0100-\uffff]/.test(text) ? 2 : 1) * text.length;
  return ring
    .documents({ max: 1_000_000 })
    .reduce((sum, document) => sum + bytes(JSON.stringify(document)) + bytes(document.key) + 400, 0);
};

const durations = (ring: TraceRing, operation: string): readonly number[] =>
  [...ring.entries({ operation, max: 1_000 })]
    .filter(({ kept }) => kept === 'slow')
    .map(({ durationMs }) => durationMs)
    .sort((a, b) => b - a);

test('the eight slowest of each operation and band stay, whatever comes after them', () => {
  const ring = new TraceRing();
  for (let n = 0; n < 500; n += 1) end(ring, { durationMs: 10 + ((n * 37) % 89) });
  for (let n = 0; n < 500; n += 1) end(ring, { durationMs: 0.5, operation: 'HeadObject' });
  end(ring, { durationMs: 12_000 });
  const slowest = durations(ring, 'GetObject');
  expect(slowest).toHaveLength(9);
  expect([slowest[0], slowest[1], slowest[8]]).toEqual([12_000, 98, 97]);
  expect(durations(ring, 'HeadObject')).toHaveLength(8);
});

test('after fifteen minutes a faster trace replaces an old one', () => {
  const ring = new TraceRing();
  for (let n = 0; n < 8; n += 1) end(ring, { durationMs: 90, endedAt: n });
  expect(end(ring, { durationMs: 50, endedAt: 1_000, isSampled: false })).not.toBe('slow');
  expect(end(ring, { durationMs: 50, endedAt: 16 * 60_000 })).toBe('slow');
  expect(durations(ring, 'GetObject')).toEqual([90, 90, 90, 90, 90, 90, 90, 50]);
});

test('the slow requests of one account leave those of others in the same band', () => {
  const ring = new TraceRing();
  for (let n = 0; n < 8; n += 1) end(ring, { account: 'slow', durationMs: 9_000 + n });
  expect(end(ring, { account: 'victim', durationMs: 1_100 })).toBe('slow');
  expect(end(ring, { account: 'third', durationMs: 1_001 })).toBe('slow');
  for (let n = 0; n < 500; n += 1) end(ring, { account: 'slow', durationMs: 9_100 + n });
  expect(durations(ring, 'GetObject').slice(-3)).toEqual([9_594, 1_100, 1_001]);
  for (let n = 0; n < 500; n += 1) end(ring, { account: 'victim', durationMs: 1_200 + n });
  expect(durations(ring, 'GetObject')).toEqual([9_599, 9_598, 9_597, 9_596, 1_699, 1_698, 1_697, 1_001]);
  for (let n = 0; n < 20; n += 1) end(ring, { account: `account-${n}`, durationMs: 1_001 + n });
  expect(durations(ring, 'GetObject')).toHaveLength(8);
  expect(durations(ring, 'GetObject')).toEqual(expect.arrayContaining([9_599, 1_699, 1_020]));
});

test('a flood of refused requests removes neither failures nor slow requests', () => {
  const ring = new TraceRing();
  end(ring, { status: 503, code: 'SlowDown' });
  end(ring, { durationMs: 5_000 });
  for (let n = 0; n < 20_000; n += 1) end(ring, { status: 403, code: 'AccessDenied' });
  expect([...ring.entries({ status: '503', max: 9 })]).toHaveLength(1);
  expect([...ring.entries({ minMs: 5_000, max: 9 })]).toHaveLength(1);
  expect([...ring.entries({ minMs: 5_000, belowMs: 5_000, max: 9 })]).toEqual([]);
  expect([...ring.entries({ minMs: 5_000, belowMs: 5_001, max: 9 })]).toHaveLength(1);
});

test.each([
  ['failures', { status: 503, code: 'SlowDown' }, { status: 500, code: 'InternalError' }],
  ['refusals', { status: 404, code: 'NoSuchKey' }, { status: 403, code: 'AccessDenied' }],
])('a flood of %s with one code removes none with another', (_, flood, other) => {
  const ring = new TraceRing();
  for (let n = 0; n < 5; n += 1) end(ring, other);
  for (let n = 0; n < 20_000; n += 1) end(ring, flood, 'key'.repeat(100));
  end(ring, other);
  expect([...ring.entries({ status: other.code, max: 9 })]).toHaveLength(6);
  const left = [...ring.entries({ status: flood.code, max: 99_999 })].map(({ requestId }) => requestId);
  // The latest of them, without a gap.
  expect(left.length).toBeGreaterThan(1_000);
  expect(Number(left[0]) - Number(left.at(-1))).toBe(left.length - 1);
});

test.each([
  ['failures', { status: 503, code: 'SlowDown' }],
  ['refusals', { status: 403, code: 'AccessDenied' }],
])('a flood of %s of one account removes none of another with the same code', (_, refused) => {
  const ring = new TraceRing();
  for (let n = 0; n < 5; n += 1) end(ring, { ...refused, account: 'victim', durationMs: 77 });
  for (let n = 0; n < 20_000; n += 1) end(ring, { ...refused, account: 'flood' }, 'key'.repeat(100));
  expect([...ring.entries({ minMs: 77, max: 99_999 })]).toHaveLength(5);
  for (let n = 0; n < 2_000; n += 1) end(ring, { ...refused, account: `account-${n}` }, 'key'.repeat(1_000));
  expect(bytesOf(ring)).toBeLessThanOrEqual(4 * 1024 * 1024);
});

test('16 MiB are never exceeded, whatever the length of names and the number of operations', () => {
  const ring = new TraceRing();
  const long = 'ж'.repeat(1_024);
  for (let n = 0; n < 30_000; n += 1) {
    const kinds = [{ status: 500, code: 'InternalError' }, { status: 404, code: 'NoSuchKey' }, {}];
    end(ring, { ...kinds[n % 3], operation: `operation-${n}`, durationMs: n, endedAt: n * 300 }, long);
  }
  expect(bytesOf(ring)).toBeLessThanOrEqual(14 * 1024 * 1024);
  expect(bytesOf(ring)).toBeGreaterThan(8 * 1024 * 1024);
});
