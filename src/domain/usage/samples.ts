/**
 * The samples of a bucket on one day, and the usage that follows from them (spec, "Usage rollup worker").
 *
 * The formula needs only the number, the sum, the first and the last of the samples, so a day takes the same space with 24 samples as with
 * 1,440. All sums are exact: `bigint` in memory, decimal text in rows.
 */
import type { Context } from '../../context.ts';
import { findBucket, pageBuckets } from '../../metadata/buckets/buckets.ts';
import { readUsage } from '../../metadata/buckets/usage.ts';
import { inParallelTurns } from '../common/turns.ts';

export interface Counts {
  readonly bytes: number;
  readonly objects: number;
}

/** The samples of one storage class. */
export interface ClassSamples {
  readonly count: number;
  /** The sum of all samples in bytes, as a decimal number. */
  readonly bytes: string;
  readonly firstBytes: number;
  readonly lastBytes: number;
  readonly objects: number;
  readonly objectsMax: number;
}

/** The samples of a bucket. */
export interface BucketSamples {
  readonly bucketId: string;
  readonly bucket: string;
  readonly owner: string;
  /** The number of the last pass of the day that found the bucket. */
  readonly seen: number;
  /** The number of the first pass of the day that found the bucket, and how many have found it. Absent in rows of earlier versions. */
  readonly first?: number;
  readonly count?: number;
  readonly classes: Readonly<Record<string, ClassSamples>>;
  /** No pass of the day found the bucket: `classes` are its counters when the day was closed, as one sample of each. */
  readonly isUnsampled?: true;
}

export const addSample = (before: ClassSamples | undefined, { bytes, objects }: Counts): ClassSamples => ({
  count: (before?.count ?? 0) + 1,
  bytes: String(BigInt(before?.bytes ?? '0') + BigInt(bytes)),
  firstBytes: before?.firstBytes ?? bytes,
  lastBytes: bytes,
  objects: (before?.objects ?? 0) + objects,
  objectsMax: Math.max(before?.objectsMax ?? 0, objects),
});

const nothing: Counts = { bytes: 0, objects: 0 };

/**
 * The samples of a bucket after one more. A storage class without a counter held nothing, and so it did at the samples of the bucket
 * before its first byte: without them, an hour in a class would be billed as a day.
 */
export function addBucketSample(
  before: Pick<BucketSamples, 'first' | 'count' | 'classes'> | undefined,
  { pass, counted }: { readonly pass: number; readonly counted: ReadonlyMap<string, Counts> },
): Required<Pick<BucketSamples, 'first' | 'count' | 'classes'>> {
  const known = before?.classes ?? {};
  const count = countObjects(before);
  const names = new Set([...Object.keys(known), ...counted.keys()]);
  const classes = [...names].map((name) => {
    const earlier = known[name] ?? (count === 0 ? undefined : { ...emptySamples, count });
    return [name, addSample(earlier, counted.get(name) ?? nothing)] as const;
  });
  return { first: before?.first ?? pass - count, count: count + 1, classes: Object.fromEntries(classes) };
}

const emptySamples: ClassSamples = {
  count: 0,
  bytes: '0',
  firstBytes: 0,
  lastBytes: 0,
  objects: 0,
  objectsMax: 0,
};

/** Rows of earlier versions only have samples of classes. */
const countObjects = (samples: Pick<BucketSamples, 'count' | 'classes'> | undefined): number =>
  samples?.count ?? Math.max(0, ...Object.values(samples?.classes ?? {}).map(({ count }) => count));

export interface DayUsage {
  readonly byteSeconds: string;
  readonly objectCountAvg: number;
  readonly objectCountMax: number;
  readonly samples: number;
}

const daySeconds = 86_400n;

/** A bucket with at most one sample is billed as if it had held that all day. */
export const flatDay = ({ bytes, objects }: Counts, samples: number): DayUsage => ({
  byteSeconds: String(BigInt(bytes) * daySeconds),
  objectCountAvg: objects,
  objectCountMax: objects,
  samples,
});

/** The passes of a day that did not find a bucket: it held nothing then. */
export interface Absence {
  /** Before the bucket was created. */
  readonly before: number;
  /** After it was deleted. */
  readonly after: number;
}

export function closeDay(samples: ClassSamples, absence: Absence): DayUsage {
  // The specification: a bucket with one sample, for example one that was created late on the day, is billed for the whole day.
  if (samples.count + absence.after === 1)
    return flatDay({ bytes: samples.lastBytes, objects: samples.objects }, 1);
  const count = absence.before + samples.count + absence.after;
  const first = absence.before > 0 ? 0n : BigInt(samples.firstBytes);
  const last = absence.after > 0 ? 0n : BigInt(samples.lastBytes);
  // The trapezoids are the sum of all samples less half of the first and half of the last; the last sample then counts once more.
  // With dt = 86400 / count this is the specification's formula, doubled here to stay in whole numbers.
  const doubled = 2n * BigInt(samples.bytes) - first + last;
  const divisor = 2n * BigInt(count);
  return {
    byteSeconds: String((doubled * daySeconds + divisor / 2n) / divisor),
    objectCountAvg: Math.round(samples.objects / count),
    objectCountMax: samples.objectsMax,
    samples: count,
  };
}

export const isEmptyDay = ({ byteSeconds, objectCountMax }: DayUsage): boolean =>
  byteSeconds === '0' && objectCountMax === 0;

// What the buckets of an account hold now, for operators.

type Ctx = Pick<Context, 'metadata'>;

const pageMax = 100;
const readsMax = 8;

/** The bytes and objects of all buckets of an account now. @param rest of `openTurns`, parallel */
export async function sumOwned({ metadata }: Ctx, owner: string, rest: () => Promise<void>): Promise<Counts> {
  let bytes = 0;
  let objects = 0;
  let after: string | undefined;
  for (;;) {
    const page = await pageBuckets(metadata, owner, { prefix: '', after, limit: pageMax });
    await inParallelTurns({ limit: readsMax, rest }, page, async ({ name }) => {
      const found = await findBucket(metadata, name);
      // The list may lag behind the bucket's row.
      if (found?.row.owner !== owner) return;
      for (const counts of (await readUsage(metadata, found.row.id)).values()) {
        bytes += counts.bytes;
        objects += counts.objects;
      }
    });
    if (page.length < pageMax) return { bytes, objects };
    after = page.at(-1)?.name;
  }
}
