/**
 * fsck on the usage counters: compares the counters of a bucket with the sum over its versions. A difference is reported and
 * mended only when all of the following hold:
 *
 * 1. The counters have the same revisions before and after all else, so nothing was added to them in between.
 * 2. Afterwards no commit that has applied still has to add to them. The additions of a gateway that was killed between a
 *    commit and its side changes are missing until its attempt is settled. With 1: no commit that changes them applied in between.
 * 3. Two scans find the same rows with the same revisions, so none moved out of the way of a scan. A version moves between
 *    head and history without a change of the counters.
 * 4. No other run of fsck has corrected counters since before 1: the correction is a commit that says so (`correctUsage`).
 */

import { fnv32a } from '../../../../base/shard.ts';
import {
  hasPendingUsage,
  readUsage,
  type UsageDelta,
  usageRevisions,
} from '../../../../metadata/buckets/usage.ts';
import { objectsAt } from '../../../../metadata/objects/objects.ts';
import type { BucketRow } from '../../../../metadata/tables.ts';
import { type FsckRun, type Mended, pageRows } from '../findings.ts';
import { correctUsage, lastCorrection } from '../mend.ts';

type Usage = ReadonlyMap<string, { readonly bytes: number; readonly objects: number }>;

/** Attempts to count a bucket that is being written to. */
const looksMax = 4;
const none = { bytes: 0, objects: 0 };

export async function checkUsage(run: FsckRun, bucket: BucketRow): Promise<void> {
  if (await agreesWithRows(run, bucket)) return;
  const found = await proveUsage(run, bucket);
  if (found === undefined) run.count('unjudged');
  else {
    const { proven, correction } = found;
    const deltas = proven.map(({ delta }) => delta);
    let mending: Promise<Mended> | undefined;
    // One commit corrects all storage classes.
    const mend = () => {
      mending ??= correctUsage(run, bucket, { deltas, correction });
      return mending;
    };
    for (const { detail } of proven) await run.find({ kind: 'usage', bucket: bucket.name, detail }, mend);
  }
}

type Walk = Pick<FsckRun, 'metadata' | 'signal'>;

/**
 * What a bucket's counters lack, and the last correction before it was proven, which `correctUsage` must state. Undefined when writers
 * did not let the walk prove anything.
 */
export async function proveUsage(
  walk: Walk,
  bucket: BucketRow,
): Promise<
  | {
      readonly proven: readonly Difference[];
      readonly correction: Awaited<ReturnType<typeof lastCorrection>>;
    }
  | undefined
> {
  for (let look = 0; look < looksMax; look += 1) {
    const correction = await lastCorrection(walk);
    const proven = await provenDifferences(walk, bucket);
    if (proven !== undefined) return { proven, correction };
  }
  return undefined;
}

/** Whether the counters of a bucket equal one walk over its rows: then they need no proof. */
export const agreesWithRows = async (walk: Walk, bucket: BucketRow): Promise<boolean> =>
  differencesBetween(await readUsage(walk.metadata, bucket.id), (await summed(walk, bucket)).sums).length ===
  0;

export interface Difference {
  readonly detail: string;
  readonly delta: UsageDelta;
}

/** Undefined when concurrent writers, or a commit that is not settled, could explain the difference. */
async function provenDifferences(run: Walk, bucket: BucketRow): Promise<readonly Difference[] | undefined> {
  const before = await usageRevisions(run.metadata, bucket.id);
  const first = await summed(run, bucket);
  const second = await summed(run, bucket);
  if (first.digest !== second.digest || (await hasPendingUsage(run.metadata, bucket.id))) return undefined;
  const counted = await readUsage(run.metadata, bucket.id);
  if ((await usageRevisions(run.metadata, bucket.id)) !== before) return undefined;
  return differencesBetween(counted, second.sums);
}

interface Summed {
  readonly sums: Usage;
  /** A digest of the places and revisions of all rows. */
  readonly digest: string;
}

async function summed(run: Walk, bucket: BucketRow): Promise<Summed> {
  const sums = new Map<string, { bytes: number; objects: number }>();
  let digest = '';
  const columns = ['storageClass', 'size', 'marker'] as const;
  const rows = run.metadata.scan(objectsAt(bucket), { columns });
  for (let page = await rows.next(pageRows); page.length > 0; page = await rows.next(pageRows)) {
    run.signal.throwIfAborted();
    for (const { row, revision } of page) {
      const place = `${row.space} ${row.key} ${row.slot} ${revision}`;
      digest = `${fnv32a(`a${digest}${place}`)}.${fnv32a(`${place}${digest}b`)}`;
      if (row.marker) continue;
      const { bytes, objects } = sums.get(row.storageClass) ?? none;
      sums.set(row.storageClass, { bytes: bytes + row.size, objects: objects + 1 });
    }
  }
  return { sums, digest };
}

function differencesBetween(counted: Usage, sums: Usage): readonly Difference[] {
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
