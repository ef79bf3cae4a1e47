/**
 * Who may do what. Until the policy engine is here, one rule: an account does everything with its own
 * buckets, and nobody else does anything (deny by default).
 */
import { fail } from '../errors/refusal.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Identity } from './identity.ts';

export interface Access {
  readonly action: string;
  /** Undefined at service scope and for a bucket that is about to be created. */
  readonly bucket?: BucketRow | undefined;
  /** The `expected-bucket-owner` header: a guard of the client against somebody else's bucket. */
  readonly expectedOwner?: string | undefined;
}

/** @throws AccessDenied */
export function authorize(identity: Identity, { action, bucket, expectedOwner }: Access): void {
  // ListBuckets of an anonymous principal is an empty list, not a refusal (spec "Authentication" 5).
  if (identity === undefined && action === 's3:ListAllMyBuckets') return;
  if (identity === undefined) throw fail('AccessDenied');
  if (bucket === undefined) return;
  if (expectedOwner !== undefined && expectedOwner !== bucket.owner) throw fail('AccessDenied');
  if (bucket.owner !== identity.owner) throw fail('AccessDenied');
}
