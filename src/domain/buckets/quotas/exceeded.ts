/** The refusal of a write or a bucket that has no room under a quota: its details are for callers of the account that has the quota. */
import { fail, type Refusal } from '../../../base/errors.ts';

export type QuotaLimit = 'maxBytes' | 'maxObjects' | 'maxBytesPerObject' | 'totalMaxBytes' | 'maxBuckets';

export interface Exceeded {
  readonly limit: QuotaLimit;
  readonly of: 'bucket' | 'account' | 'IAM user';
  /** The bucket, the account, or the account of the IAM user. */
  readonly name: string;
  /** The account whose callers get the details. */
  readonly account: string;
  readonly allowed: number;
  /** Absent for the size of one object. */
  readonly used?: number;
  /** What the request adds. */
  readonly requested: number;
  /** What other writes have reserved. */
  readonly reserved?: number;
}

const counts: Readonly<Record<QuotaLimit, string>> = {
  maxBytes: 'bytes',
  maxObjects: 'objects',
  maxBytesPerObject: 'bytes',
  totalMaxBytes: 'bytes',
  maxBuckets: 'buckets',
};

/** `bucket` and `user` are the words of the specification; an account is a user there. */
export function exceeded(facts: Exceeded): Refusal {
  const { limit, of, name, account, allowed, used = 0, requested, reserved = 0 } = facts;
  const message = `quota exceeded for ${of === 'bucket' ? 'bucket' : 'user'}`;
  const whose = of === 'IAM user' ? `an IAM user of the account ${name}` : `the ${of} ${name}`;
  const limited = `${message}: ${limit} of ${whose} is ${allowed} ${counts[limit]}`;
  const waiting = reserved === 0 ? '' : `, other writes have reserved ${reserved}`;
  return fail('QuotaExceeded', {
    message,
    forAccount: {
      account,
      message:
        limit === 'maxBytesPerObject'
          ? `${limited}, and the object has ${requested}.`
          : `${limited}; ${used} are used${waiting}, and this request adds ${requested}.`,
      elements: {
        QuotaLimit: limit,
        Allowed: allowed,
        ...(facts.used === undefined ? {} : { Used: used }),
        Requested: requested,
      },
    },
  });
}

/** What a scope of bytes and objects has and holds. */
export interface ScopeUse {
  readonly limits: Amount;
  readonly used: Amount;
  readonly reserved: Amount;
}

type ScopeFacts = Pick<Exceeded, 'of' | 'name' | 'account'>;

/** @param need what the write adds, beside what it replaces */
export function exceededIn(facts: ScopeFacts, need: Amount, { limits, used, reserved }: ScopeUse): Refusal {
  const kind = used.bytes + reserved.bytes + need.bytes > limits.bytes ? 'bytes' : 'objects';
  const limitOf = {
    bytes: facts.of === 'bucket' ? 'maxBytes' : 'totalMaxBytes',
    objects: 'maxObjects',
  } as const;
  return exceeded({
    ...facts,
    limit: limitOf[kind],
    allowed: limits[kind],
    used: used[kind],
    requested: need[kind],
    reserved: reserved[kind],
  });
}

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
export const fits = (need: Amount, room: Amount): boolean =>
  need.bytes <= room.bytes && need.objects <= room.objects;

/** What of a change needs room: a change that removes more than it adds needs none. */
export const growth = ({ bytes, objects }: Amount): Amount => ({
  bytes: Math.max(0, bytes),
  objects: Math.max(0, objects),
});

/** The smaller amount of each; an unlimited kind (Infinity) is not counted. */
export const counted = ({ bytes, objects }: Amount, limits: Amount): Amount => ({
  bytes: limits.bytes === Number.POSITIVE_INFINITY ? 0 : bytes,
  objects: limits.objects === Number.POSITIVE_INFINITY ? 0 : objects,
});
