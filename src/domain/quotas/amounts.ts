/** Bytes and objects, as quotas count them. */

import type { UploadPart } from '../../metadata/tables.ts';

/** Bytes and objects, as quotas count them. */
export interface Amount {
  readonly bytes: number;
  readonly objects: number;
}

/** Bytes of parts that leave the counters in the commit that adds their object: those of the bucket, and of accounts by their epoch. */
export interface Freed {
  readonly bucket: number;
  readonly accounts: ReadonlyMap<string, number>;
}

export const nothing: Amount = { bytes: 0, objects: 0 };

export const add = (a: Amount, b: Amount): Amount => ({
  bytes: a.bytes + b.bytes,
  objects: a.objects + b.objects,
});

export const subtract = (a: Amount, b: Amount): Amount => ({
  bytes: a.bytes - b.bytes,
  objects: a.objects - b.objects,
});

export const sum = (amounts: Iterable<Amount>): Amount => {
  let total = nothing;
  for (const amount of amounts) total = add(total, amount);
  return total;
};

export const fits = (need: Amount, available: Amount): boolean =>
  need.bytes <= available.bytes && need.objects <= available.objects;

export const smaller = (a: Amount, b: Amount): Amount => ({
  bytes: Math.min(a.bytes, b.bytes),
  objects: Math.min(a.objects, b.objects),
});

/** The smaller amount of each; an unlimited kind (Infinity) is not counted. */
export const counted = ({ bytes, objects }: Amount, limits: Amount): Amount => ({
  bytes: limits.bytes === Number.POSITIVE_INFINITY ? 0 : bytes,
  objects: limits.objects === Number.POSITIVE_INFINITY ? 0 : objects,
});

/** What the counters lose with these parts. Parts of earlier versions were not counted. */
export function freedBy(parts: Iterable<UploadPart>): Freed {
  let bucket = 0;
  const accounts = new Map<string, number>();
  for (const { counted } of parts) {
    if (counted === undefined) continue;
    bucket += counted.bytes;
    for (const epoch of counted.holders ?? [])
      accounts.set(epoch, (accounts.get(epoch) ?? 0) + counted.bytes);
  }
  return { bucket, accounts };
}
