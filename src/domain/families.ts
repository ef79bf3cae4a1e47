/** The families of bucket configurations that the domain itself reads; a document's shape is its XML's. */
import type { Grant } from '../metadata/tables.ts';
import { family } from './documents.ts';

export interface Tagging {
  readonly TagSet: readonly { readonly Key: string; readonly Value: string }[];
}
export const bucketTagging = family<Tagging>('tagging');

/** Grants of the bucket itself; unset means that its owner alone has any. */
export const bucketAcl = family<readonly Grant[]>('acl');

export interface OwnershipControls {
  readonly Rule: readonly {
    readonly ObjectOwnership: 'BucketOwnerEnforced' | 'BucketOwnerPreferred' | 'ObjectWriter';
  }[];
}
/** Unset means ObjectWriter. */
export const ownershipControls = family<OwnershipControls>('ownership-controls');

export interface PublicAccessBlock {
  readonly BlockPublicAcls?: boolean;
  readonly IgnorePublicAcls?: boolean;
  readonly BlockPublicPolicy?: boolean;
  readonly RestrictPublicBuckets?: boolean;
}
export const publicAccessBlock = family<PublicAccessBlock>('public-access-block');

export interface CorsRule {
  readonly ID?: string;
  readonly AllowedHeader: readonly string[];
  readonly AllowedMethod: readonly string[];
  readonly AllowedOrigin: readonly string[];
  readonly ExposeHeader: readonly string[];
  readonly MaxAgeSeconds?: number;
}
export interface Cors {
  readonly CORSRule: readonly CorsRule[];
}
export const bucketCors = family<Cors>('cors');
