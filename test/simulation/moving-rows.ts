/** Reads the rows of a bucket directly from the store while they move into new shards. */
import { setTimeout as sleep } from 'node:timers/promises';
import { configWith } from '../../src/config/read-config.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import type { SharedStore } from './shared-store.ts';

/** Waits until the first rows of a bucket are stored in one of its new shards. */
export async function untilRowsMove(
  { env, dataDir }: SharedStore,
  { bucket, forMs }: { readonly bucket: string; readonly forMs: number },
): Promise<void> {
  const { context, close } = await compose(configWith({ ...env, SVC_DATA_DIR: dataDir }), {
    credentials: [],
  });
  const { metadata } = context;
  try {
    for (const until = performance.now() + forMs; performance.now() < until; await sleep(10)) {
      const found = await findBucket(metadata, bucket);
      if (found?.row.splittingTo === undefined) continue;
      const { shards, splittingTo: ways } = found.row;
      const fresh = Array.from({ length: ways - shards }, (_, each) => shards + each);
      const first = await Promise.all(
        fresh.map((shard) => metadata.scan({ ...objectsAt(found.row), ways }, { shard }).next(1)),
      );
      if (first.some((rows) => rows.length > 0)) return;
    }
  } finally {
    await close();
  }
  throw new Error(`no row of ${bucket} moves`);
}
