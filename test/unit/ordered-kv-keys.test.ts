/** Keys and values in TiKV: their bytes are data of installations, so they do not change from release to release. */
import { expect, test } from 'vitest';
import { compareBytes } from '../../src/backends/metadata/key-order.ts';
import { Keys } from '../../src/backends/metadata/ordered-kv/keys.ts';
import { pack } from '../../src/backends/metadata/row-codec.ts';

const keys = new Keys('p/');
const row = Uint8Array.of(1, 2, 255);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

test('keys and values in TiKV have the bytes of earlier releases', () => {
  expect({
    row: hex(keys.row(row)),
    catalog: hex(keys.catalog('objects')),
    fence: hex(keys.fence(row, 7)),
    lease: hex(keys.epoch('abc')),
    lane: hex(keys.epochLane('abc', 33)),
    expiry: hex(keys.expiry(1_767_225_600_123, row)),
    value: hex(pack(['r', undefined, 'text', 7])),
    epochs: [hex(keys.epochs().low), hex(keys.epochs().high)],
  }).toEqual({
    row: '702f0102ff',
    catalog: '702f016f626a65637473',
    fence: '702f020102ff07',
    lease: '702f0361626321',
    lane: '702f036162632e3131',
    expiry: '702f040000019b76daa87b0102ff',
    value: '94a172c0a47465787407',
    epochs: ['702f03', '702f04'],
  });
  expect(keys.expiringRow(keys.expiry(5, row))).toEqual(row);
  expect([keys.epochOf(keys.epoch('abc')), keys.epochOf(keys.epochLane('abc', 1))]).toEqual([
    'abc',
    undefined,
  ]);
});

test('the entry of a row that expires within a millisecond is due at its end, when the row has expired', () => {
  const isDue = (at: number, now: number): boolean => {
    const entry = keys.expiry(at, row);
    return compareBytes(entry, keys.expired(now).low) >= 0 && compareBytes(entry, keys.expired(now).high) < 0;
  };
  expect([isDue(10.7, 10), isDue(10.7, 11), isDue(11, 10), isDue(11, 11)]).toEqual([
    false,
    true,
    false,
    true,
  ]);
});
