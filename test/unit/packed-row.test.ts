/** Single values read from packed rows equal those that the packing library reads. */
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { expect, test } from 'vitest';
import { decodeRowText as decodeText, readSome } from '../../src/backends/metadata/row-codec.ts';

const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true });
const pack = (row: unknown): Uint8Array => new Uint8Array(packr.pack(row));
const read = (row: readonly unknown[], requested: readonly boolean[]): unknown[] =>
  readSome(pack(row), { requested, decode: decodeText });

const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false),
    fc.maxSafeInteger(),
    fc.integer({ min: -300, max: 300 }),
    fc.double({ noNaN: true }),
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.constantFrom('', 'x'.repeat(31), 'x'.repeat(32), 'x'.repeat(300), 'é'.repeat(40_000)),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Uint8Array.from(bytes)),
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(
      fc.string({ minLength: 1 }).filter((name) => name !== '__proto__'),
      tie('value'),
      { noNullPrototype: true },
    ),
  ),
}));

test('returns the packed values at the requested positions only', () => {
  const places = fc.array(fc.tuple(value, fc.boolean()), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(places, (all) => {
      const row = all.map(([each]) => each);
      const requested = all.map(([, isWanted]) => isWanted);
      const found = read(row, requested);
      const expected = packr.unpack(pack(row)) as unknown[];
      expected.forEach((each, place) => {
        if (requested[place])
          expect(found[place]).toEqual(each instanceof Uint8Array ? Uint8Array.from(each) : each);
        else expect(place in found).toBe(false);
      });
    }),
    { numRuns: 300 },
  );
});

test('has nothing at places that a row of an earlier release does not reach', () => {
  expect(read(['a', 1], [true, false, true])).toEqual(['a', undefined]);
});

test('reads arrays and maps of every length', () => {
  for (const count of [0, 15, 16, 65_535, 65_536]) {
    const list = Array.from({ length: count }, (_, i) => i);
    // The library cannot pack larger maps.
    const map = Object.fromEntries(list.slice(0, 65_535).map((each) => [`n${each}`, each]));
    expect(read([list, map, 'end'], [true, true, true])).toEqual([list, map, 'end']);
    expect(read([list, map, 'end'], [false, false, true])[2]).toBe('end');
  }
});

test('refuses what is not a row, and values that rows do not hold', () => {
  expect(() => readSome(pack({ a: 1 }), { requested: [true], decode: decodeText })).toThrow(
    'a row is an array',
  );
  expect(() => readSome(Uint8Array.of(0x91, 0xc1), { requested: [true], decode: decodeText })).toThrow(
    '0xc1',
  );
});

test('an array of the caller has the values of the last row only', () => {
  const into: unknown[] = [];
  const readInto = (row: readonly unknown[], requested: readonly boolean[]): unknown =>
    readSome(pack(row), { requested, decode: decodeText, into });
  expect(readInto(['a', 1, 'c'], [true, true, true])).toBe(into);
  expect(into).toEqual(['a', 1, 'c']);
  expect(readInto(['b', 2], [false, true, true])).toEqual([undefined, 2]);
  expect(readInto(['c', 3, 'd'], [true, false, true])).toEqual(['c', undefined, 'd']);
});
