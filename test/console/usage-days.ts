/** Closed days of a bucket's usage, written into the store of a gateway that runs: a day would have to pass otherwise. */
import { closeBucketDay } from '../../src/metadata/buckets/usage.ts';
import type { TestServer } from '../support/server.ts';
import { withBucketRow } from './bucket-rows.ts';

const dayMs = 86_400_000;

export interface ClosedDay {
  /** Days before today. */
  readonly ago: number;
  readonly storageClass: string;
  readonly byteSeconds: string;
  readonly objects: number;
}

/** The day so many days ago, as `YYYY-MM-DD` in UTC. */
export const dayBefore = (ago: number): string =>
  new Date(Date.now() - ago * dayMs).toISOString().slice(0, 10);

/** A gateway in memory has no store that a second process can open: nothing is written. */
export async function closeDays(
  server: TestServer,
  bucket: string,
  days: readonly ClosedDay[],
): Promise<void> {
  await withBucketRow(server, bucket, async (metadata, { id, name, owner }) => {
    for (const [ago, rows] of Map.groupBy(days, (day) => day.ago))
      await closeBucketDay(
        metadata,
        id,
        rows.map(({ storageClass, byteSeconds, objects }) => ({
          bucketId: id,
          day: dayBefore(ago),
          storageClass,
          bucket: name,
          owner,
          byteSeconds,
          objectCountAvg: objects,
          objectCountMax: objects + 1,
          samples: 24,
          computedAt: Date.now(),
        })),
      );
  });
}

const classes = ['STANDARD', 'STANDARD_IA', 'GLACIER'];

/** Three weeks in three classes that grow and shrink. */
export const threeWeeks: readonly ClosedDay[] = Array.from({ length: 21 }, (_, at) => 21 - at).flatMap(
  (ago) =>
    classes.map((storageClass, index) => ({
      ago,
      storageClass,
      byteSeconds: String(86_400 * 1024 ** 3 * (3 + index + Math.round(2 * Math.sin(ago / (2 + index))))),
      objects: 1_000 * (index + 1) + 37 * (21 - ago),
    })),
);
