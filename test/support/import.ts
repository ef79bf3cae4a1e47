/** A run of `sluice import` inside the process of a test. */
import { openBucket } from '../../src/domain/common/buckets.ts';
import { type ImportCounts, type ImportRun, importBucket } from '../../src/domain/storage/import.ts';
import type { GatewayWorld } from './gateway.ts';

/** Imports into the bucket `bucket`. @returns the counts that are not zero */
export async function imported(
  { context }: Pick<GatewayWorld, 'context'>,
  more: Partial<ImportRun> = {},
): Promise<Partial<ImportCounts>> {
  const counts = await importBucket(context, {
    bucket: await openBucket(context, 'bucket'),
    cluster: 'default',
    headers: true,
    again: false,
    rate: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    progress: () => {},
    changed: () => {},
    failed: () => {},
    ...more,
  });
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}
