/**
 * fsck on the usage counters: compares the counters of a bucket with the sum over its versions, and those of the parts of its open uploads
 * with the sum over these. A difference is reported and repaired only when all of the following hold:
 *
 * 1. The counters have the same revisions before and after all else, so nothing was added to them in between.
 * 2. Afterwards no commit that has applied still has to add to them. The additions of a gateway that was killed between a
 *    commit and its side changes are missing until its attempt is settled. With 1: no commit that changes them applied in between.
 * 3. Two scans find the same rows with the same revisions, so none moved out of the way of a scan. A version moves between
 *    head and history without a change of the counters.
 * 4. No other run of fsck has corrected counters since before 1: the correction is a commit that says so (`correctUsage`).
 */
import { fnv32a } from '../../base/shard.ts';
import {
  hasPendingUsage,
  partUsage,
  readUsage,
  type UsageDelta,
  usageRevisions,
} from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { everyPart, findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { type FsckRun, pageRows, type Repaired } from './findings.ts';
import { correctUsage, lastCorrection } from './repairs.ts';

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
    let repairing: Promise<Repaired> | undefined;
    // One commit corrects all storage classes.
    const repair = () => {
      repairing ??= correctUsage(run, bucket, { proven, correction });
      return repairing;
    };
    for (const { detail } of proven) await run.find({ kind: 'usage', bucket: bucket.name, detail }, repair);
  }
}

interface Walk extends Pick<FsckRun, 'metadata' | 'signal'> {
  /** Called after each whole page of rows: a bucket may have millions. */
  pause?(): Promise<void>;
}

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
    const ofObjects = await provenDifferences(walk, countedObjects(bucket));
    const ofParts = ofObjects && (await provenDifferences(walk, countedParts(bucket)));
    if (ofObjects !== undefined && ofParts !== undefined)
      return { proven: [...ofObjects, ...ofParts], correction };
  }
  return undefined;
}

/** Whether the counters of a bucket equal one walk over its rows: then they need no proof. */
export async function agreesWithRows(walk: Walk, bucket: BucketRow): Promise<boolean> {
  for (const counted of [countedObjects(bucket), countedParts(bucket)]) {
    const usage = await readUsage(walk.metadata, counted.usageId);
    if (differencesBetween(usage, await counted.sum(walk), counted).length > 0) return false;
  }
  return true;
}

export interface Difference {
  readonly detail: string;
  readonly delta: UsageDelta;
  readonly of: Counted['of'];
}

/** What counters count, and the sum over its rows. */
interface Counted {
  readonly of: 'objects' | 'parts';
  readonly usageId: string;
  sum(walk: Walk): Promise<Summed>;
}

const countedObjects = (bucket: BucketRow): Counted => ({
  of: 'objects',
  usageId: bucket.id,
  sum: (walk) => sumObjects(walk, bucket),
});

const countedParts = ({ id }: BucketRow): Counted => ({
  of: 'parts',
  usageId: partUsage(id),
  sum: (walk) => sumParts(walk, id),
});

/** Undefined when concurrent writers, or a commit that is not settled, could explain the difference. */
async function provenDifferences(run: Walk, counters: Counted): Promise<readonly Difference[] | undefined> {
  const { usageId } = counters;
  const before = await usageRevisions(run.metadata, usageId);
  const first = await counters.sum(run);
  const second = await counters.sum(run);
  if (first.digest !== second.digest || (await hasPendingUsage(run.metadata, usageId))) return undefined;
  const counted = await readUsage(run.metadata, usageId);
  if ((await usageRevisions(run.metadata, usageId)) !== before) return undefined;
  return differencesBetween(counted, second, counters);
}

interface Summed {
  readonly sums: Usage;
  /** A digest of the places and revisions of all rows. */
  readonly digest: string;
}

const digestPlace = (digest: string, place: string): string =>
  `${fnv32a(`a${digest}${place}`)}.${fnv32a(`${place}${digest}b`)}`;

async function sumObjects(run: Walk, bucket: BucketRow): Promise<Summed> {
  const sums = new Map<string, { bytes: number; objects: number }>();
  let digest = '';
  const columns = ['storageClass', 'size', 'marker'] as const;
  const rows = run.metadata.scan(objectsAt(bucket), { columns });
  for (let page = await rows.next(pageRows); page.length > 0; page = await rows.next(pageRows)) {
    run.signal.throwIfAborted();
    for (const { row, revision } of page) {
      const place = `${row.space} ${row.key} ${row.slot} ${revision}`;
      digest = digestPlace(digest, place);
      if (row.marker) continue;
      const { bytes, objects } = sums.get(row.storageClass) ?? none;
      sums.set(row.storageClass, { bytes: bytes + row.size, objects: objects + 1 });
    }
    if (page.length === pageRows) await run.pause?.();
  }
  return { sums, digest };
}

/** The parts of the uploads in the list: an upload leaves it in the commit that frees its parts. */
async function sumParts(run: Walk, bucketId: string): Promise<Summed> {
  let bytes = 0;
  let digest = '';
  const open = run.metadata.scan(uploadsIn(bucketId));
  for (let page = await open.next(pageRows); page.length > 0; page = await open.next(pageRows)) {
    for (const { row } of page) {
      run.signal.throwIfAborted();
      const session = await findSession(run.metadata, row.uploadId);
      if (session === undefined || session.row.session.isFreed === true) continue;
      digest = digestPlace(digest, `${row.uploadId} ${session.revision}`);
      for await (const { row: part, revision, stored } of everyPart(run.metadata, row.uploadId)) {
        digest = digestPlace(digest, `${part.part} ${revision}`);
        bytes += stored.counted?.bytes ?? 0;
      }
    }
    if (page.length === pageRows) await run.pause?.();
  }
  return { sums: new Map([['', { bytes, objects: 0 }]]), digest };
}

function differencesBetween(
  counted: Usage,
  { sums }: Pick<Summed, 'sums'>,
  { of }: Pick<Counted, 'of'>,
): readonly Difference[] {
  return [...new Set([...counted.keys(), ...sums.keys()])].flatMap((storageClass) => {
    const said = counted.get(storageClass) ?? none;
    const is = sums.get(storageClass) ?? none;
    if (said.bytes === is.bytes && said.objects === is.objects) return [];
    const what = of === 'parts' ? 'open parts' : storageClass;
    const detail =
      `${what} is counted as ${said.bytes} bytes in ${said.objects} objects, ` +
      `and is ${is.bytes} bytes in ${is.objects} objects`;
    const delta = { storageClass, bytes: is.bytes - said.bytes, objects: is.objects - said.objects };
    return [{ detail, delta, of }];
  });
}
