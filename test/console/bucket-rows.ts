/** Rows of a bucket, written into the store of a gateway that runs: what would take days, or a million requests. */
import { join } from 'node:path';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { liveHeadAt, objectsAt } from '../../src/metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../src/metadata/tables.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { TestServer } from '../support/server.ts';

/** A gateway in memory has no store that a second process can open: nothing is done. */
export async function withBucketRow(
  { dataDir }: TestServer,
  bucket: string,
  write: (metadata: MetadataStore, row: BucketRow) => Promise<void>,
): Promise<void> {
  if (dataDir === '') return;
  const metadata = embeddedStore({
    directory: join(dataDir, 'metadata'),
    clock: systemClock,
    random: systemRandom(),
    durable: false,
  });
  try {
    const found = await findBucket(metadata, bucket);
    if (found === undefined) throw new Error(`there is no bucket ${bucket}`);
    await write(metadata, found.row);
  } finally {
    await metadata.close();
  }
}

const commitsAtOnce = 512;

/** Empty objects with these keys, which must not exist. */
export async function fillKeys(
  server: TestServer,
  bucket: string,
  { count, keyOf }: { readonly count: number; readonly keyOf: (number: number) => string },
): Promise<void> {
  await withBucketRow(server, bucket, async (metadata, row) => {
    const at = objectsAt(row);
    for (let first = 0; first < count; first += commitsAtOnce) {
      const numbers = Array.from(
        { length: Math.min(commitsAtOnce, count - first) },
        (_, each) => first + each,
      );
      const outcomes = await Promise.all(
        numbers.map((number) =>
          metadata.commit(at, [{ put: emptyObject(row, keyOf(number)), expect: 'absent' }]),
        ),
      );
      for (const outcome of outcomes) if (!outcome.applied) throw new Error(outcome.because);
    }
  });
}

const emptyObject = ({ id, owner }: BucketRow, key: string): ObjectRow => ({
  ...liveHeadAt(key),
  bucketId: id,
  version: `0${'1'.repeat(20)}`,
  isNull: true,
  marker: false,
  modified: Date.now(),
  size: 0,
  etag: 'd41d8cd98f00b204e9800998ecf8427e',
  storageClass: 'STANDARD',
  manifest: { extents: [] },
  headers: { system: { 'content-type': 'application/octet-stream' } },
  owner,
  requestId: '0'.repeat(32),
});
