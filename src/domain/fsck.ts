/** Compares metadata and data, both ways, and reports what does not match. Changes nothing. */
import { everyBucket, findBucket } from '../metadata/buckets.ts';
import { checkStored } from './fsck-bytes.ts';
import { type FsckContext, type FsckReport, type FsckSummary, openRun } from './fsck-findings.ts';
import { checkUploads, checkVersions } from './fsck-rows.ts';
import { checkUsage } from './fsck-usage.ts';

export type { FsckContext, FsckFinding, FsckReport, FsckSummary } from './fsck-findings.ts';

/**
 * May run beside a working gateway: what changes while it is looked at is looked at again. Only bytes that
 * are being written at that moment have no owner yet and are reported, as `unowned`.
 * @param report called for each finding as it is found
 */
export async function runFsck(
  context: FsckContext,
  report: FsckReport,
  signal: AbortSignal = new AbortController().signal,
): Promise<FsckSummary> {
  const run = openRun(context, report, signal);
  for await (const name of everyBucket(context.metadata)) {
    const found = await findBucket(context.metadata, name);
    if (found === undefined) continue;
    run.count('buckets');
    await checkVersions(run, found.row);
    await checkUploads(run, found.row);
    await checkUsage(run, found.row);
  }
  for (const cluster of context.bytes.clusters) await checkStored(run, cluster);
  return run.summary();
}
