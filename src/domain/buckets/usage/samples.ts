/**
 * The samples of a bucket on one day, and the usage that follows from them (spec, "Usage rollup worker").
 *
 * The formula needs only the number, the sum, the first and the last of the samples, so a day takes the same space with 24 samples as with
 * 1,440. All sums are exact: `bigint` in memory, decimal text in rows.
 */

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
  readonly classes: Readonly<Record<string, ClassSamples>>;
}

export const addSample = (before: ClassSamples | undefined, { bytes, objects }: Counts): ClassSamples => ({
  count: (before?.count ?? 0) + 1,
  bytes: String(BigInt(before?.bytes ?? '0') + BigInt(bytes)),
  firstBytes: before?.firstBytes ?? bytes,
  lastBytes: bytes,
  objects: (before?.objects ?? 0) + objects,
  objectsMax: Math.max(before?.objectsMax ?? 0, objects),
});

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

/** @param absent passes of the day after the bucket was deleted: it held nothing then */
export function closeDay(samples: ClassSamples, absent: number): DayUsage {
  const count = samples.count + absent;
  if (count === 1) return flatDay({ bytes: samples.lastBytes, objects: samples.objects }, 1);
  const last = absent > 0 ? 0n : BigInt(samples.lastBytes);
  // The trapezoids are the sum of all samples less half of the first and half of the last; the last sample then counts once more.
  // With dt = 86400 / count this is the specification's formula, doubled here to stay in whole numbers.
  const doubled = 2n * BigInt(samples.bytes) - BigInt(samples.firstBytes) + last;
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
