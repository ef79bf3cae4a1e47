/**
 * A cache of bucket rows, for metadata where a read is a round trip. A change by a process of this node removes the row here, and
 * invalidates reads that are under way, before the change is answered. A change by another machine is not seen until the cached
 * row expires.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import type { Caches } from '../../base/caches.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { heedChanges } from '../shared-changes.ts';
import type { BucketRow } from '../tables.ts';

const seenMax = 1000;

/** When the read of a bucket's row began. */
export interface Look {
  /** By the monotonic clock (ms). */
  readonly at: number;
  /** The number of changes that this process had seen when the read began. */
  readonly changes: number;
}
export interface SeenBucket extends Look {
  readonly bucket: BucketRow;
}

class SeenBuckets {
  readonly rows = new BoundedCache<SeenBucket>({ name: 'buckets', entriesMax: seenMax });
  changes = 0;
  isHeeding = false;
}
interface Ctx {
  readonly caches: Caches;
  readonly metadata: Pick<MetadataStore, 'get'>;
}

function openSeen({ caches, metadata }: Ctx): SeenBuckets {
  const seen = caches.of(SeenBuckets);
  if (!seen.isHeeding) {
    seen.isHeeding = true;
    heedChanges(metadata, 'bucket', (name) => forgetBucket(seen, name));
  }
  return seen;
}

/** Call it before reading a bucket for `rememberBucket`. */
export const lookAt = (ctx: Ctx, elapsed: number): Look => ({ at: elapsed, changes: openSeen(ctx).changes });

export function rememberBucket(ctx: Ctx, bucket: BucketRow, { at, changes }: Look): void {
  const seen = openSeen(ctx);
  // A bucket changed during the read, so this row may be stale.
  if (changes === seen.changes) seen.rows.set(bucket.name, { bucket, at, changes });
}

export const seenBucket = (ctx: Ctx, name: string): SeenBucket | undefined => openSeen(ctx).rows.get(name);

function forgetBucket(seen: SeenBuckets, name: string): void {
  seen.changes += 1;
  seen.rows.delete(name);
}
