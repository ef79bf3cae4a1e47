/** The encoders of inventory files, apart from a bucket. */
import { expect, test } from 'vitest';
import { type InventoryFacts, listColumns } from '../../src/domain/inventory/rows.ts';
import { csvGzip, parquet } from '../../src/domain/inventory/write-inventory.ts';
import { headSlot, type ObjectRow } from '../../src/metadata/tables.ts';

const columns = listColumns({
  Id: 'i',
  IsEnabled: true,
  Destination: { S3BucketDestination: { Bucket: 'arn:aws:s3:::b', Format: 'CSV' } },
  Schedule: { Frequency: 'Daily' },
  IncludedObjectVersions: 'Current',
  OptionalFields: ['Size'],
});
// The casts: the fields read no more of a row and of a bucket.
const facts = { bucket: { name: 'b' } } as InventoryFacts;
const row = (n: number) => ({ key: `key-${n}`, slot: headSlot, marker: false, size: n }) as ObjectRow;

/** @param pages that are read before the source fails; undefined: it never does */
async function* rows(count: number, failure?: Error): AsyncGenerator<readonly ObjectRow[]> {
  for (let page = 0; page < count; page += 1)
    yield Array.from({ length: 200 }, (_, n) => row(page * 200 + n));
  if (failure !== undefined) throw failure;
}

const encoders = { csvGzip, parquet } as const;

test.each(['csvGzip', 'parquet'] as const)('%s fails with the error of its source', async (name) => {
  const failure = new Error('the source failed');
  const read = async () => {
    for await (const bytes of encoders[name](rows(50, failure), { columns, facts }))
      expect(bytes).toBeInstanceOf(Uint8Array);
  };
  await expect(read()).rejects.toBe(failure);
});

test.each(['csvGzip', 'parquet'] as const)('%s ends its source when its reader stops', async (name) => {
  let isEnded = false;
  async function* watched() {
    try {
      yield* rows(1_000_000);
    } finally {
      isEnded = true;
    }
  }
  for await (const bytes of encoders[name](watched(), { columns, facts })) if (bytes.length > 0) break;
  expect(isEnded).toBe(true);
});
