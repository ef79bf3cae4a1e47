/** The refusal of a write or a bucket that has no room under a quota: its details are for callers of the account that has the quota. */
import { fail, type Refusal } from '../../base/errors.ts';
import type { Amount } from './amounts.ts';

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
  const limitFields = {
    bytes: facts.of === 'bucket' ? 'maxBytes' : 'totalMaxBytes',
    objects: 'maxObjects',
  } as const;
  return exceeded({
    ...facts,
    limit: limitFields[kind],
    allowed: limits[kind],
    used: used[kind],
    requested: need[kind],
    reserved: reserved[kind],
  });
}
