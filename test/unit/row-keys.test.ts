/** The keys of rows: what is encoded in one is read back, and a row has one hash. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { buildOrder } from '../../src/backends/metadata/key-order.ts';
import { hashKey, hashRow } from '../../src/backends/metadata/records/placement.ts';
import { heads } from '../contract/metadata-store/tables.ts';

/** Texts that decoders and comparisons treat in a way of their own. */
const text = fc
  .array(fc.constantFrom('\ufeff', '\u0001', 'é', '\u{1f600}', '\ud7ff', 'a', '/', '\uffff', '~'), {
    minLength: 1,
    maxLength: 6,
  })
  .map((pieces) => pieces.join(''));

test('a key of a row is read back as it was written, and finds the store that has the row', () => {
  fc.assert(
    fc.property(text, text, (bucket, key) => {
      const row = { bucket, key, slot: '~' };
      const encoded = buildOrder(heads).rowKey({ bucket }, row);
      expect(buildOrder(heads).columnsOf(encoded)).toMatchObject(row);
      const at = { table: heads, in: { bucket }, ways: 64 };
      expect(hashKey(heads, encoded, () => false)).toBe(hashRow(at, row));
    }),
    { examples: [['b', '\ufeffx']] },
  );
});
