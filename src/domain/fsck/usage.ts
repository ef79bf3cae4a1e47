/** fsck on the counters: what a bucket is said to hold is the sum over its versions. */
import type { BucketRow } from '../../metadata/tables.ts';
import { readUsage, type UsageDelta } from '../../metadata/usage.ts';
import { type FsckRun, versionsIn } from './findings.ts';
import { correctUsage } from './mend.ts';

type Usage = ReadonlyMap<string, { readonly bytes: number; readonly objects: number }>;

/** How often a bucket is summed before its writers are left in peace, unjudged. */
const looksMax = 4;
const none = { bytes: 0, objects: 0 };

/**
 * A difference counts only when two looks in a row saw the same: a write between them moves the counter,
 * and a version that moves between head and history meanwhile is counted twice.
 */
export async function checkUsage(run: FsckRun, bucket: BucketRow): Promise<void> {
  let former = '';
  for (let look = 0; look < looksMax; look += 1) {
    const differences = await differencesOf(run, bucket);
    if (differences.length === 0) return;
    const seen = JSON.stringify(differences);
    if (seen === former) {
      for (const { detail, delta } of differences)
        await run.find({ kind: 'usage', bucket: bucket.name, detail }, () =>
          correctUsage(run, bucket, delta),
        );
      return;
    }
    former = seen;
  }
}

interface Difference {
  readonly detail: string;
  readonly delta: UsageDelta;
}

async function differencesOf(run: FsckRun, bucket: BucketRow): Promise<readonly Difference[]> {
  const counted: Usage = await readUsage(run.metadata, bucket.id);
  const sums = new Map<string, { bytes: number; objects: number }>();
  for await (const { storageClass, size } of versionsIn(run, bucket)) {
    const { bytes, objects } = sums.get(storageClass) ?? none;
    sums.set(storageClass, { bytes: bytes + size, objects: objects + 1 });
  }
  return [...new Set([...counted.keys(), ...sums.keys()])].flatMap((storageClass) => {
    const said = counted.get(storageClass) ?? none;
    const is = sums.get(storageClass) ?? none;
    if (said.bytes === is.bytes && said.objects === is.objects) return [];
    const detail =
      `${storageClass} is counted as ${said.bytes} bytes in ${said.objects} objects, ` +
      `and is ${is.bytes} bytes in ${is.objects} objects`;
    const delta = { storageClass, bytes: is.bytes - said.bytes, objects: is.objects - said.objects };
    return [{ detail, delta }];
  });
}
