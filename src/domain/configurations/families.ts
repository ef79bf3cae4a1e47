/** The families of bucket configurations that the domain itself reads; a document's shape is its XML's. */
import type { Context } from '../../context.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import { type Family, family, readDocument } from './documents.ts';
import type { Lifecycle, TagFilter } from './lifecycle-rules.ts';
import type { Notification } from './notification.ts';

export interface Tagging {
  readonly TagSet: readonly { readonly Key: string; readonly Value: string }[];
}
export const bucketTagging = family<Tagging>('tagging');

/** Grants of the bucket itself. Unset means that only its owner has access. */
export const bucketAcl = family<readonly Grant[]>('acl');

export interface OwnershipControls {
  readonly Rule: readonly {
    readonly ObjectOwnership: 'BucketOwnerEnforced' | 'BucketOwnerPreferred' | 'ObjectWriter';
  }[];
}
/** Unset means ObjectWriter. */
export const ownershipControls = family<OwnershipControls>('ownership-controls');

interface PublicAccessBlock {
  readonly BlockPublicAcls?: boolean;
  readonly IgnorePublicAcls?: boolean;
  readonly BlockPublicPolicy?: boolean;
  readonly RestrictPublicBuckets?: boolean;
}
export const publicAccessBlock: Family<PublicAccessBlock> = {
  ...family<PublicAccessBlock>('public-access-block'),
  fencesWriters: true,
};

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

export const bucketLifecycle: Family<Lifecycle> = {
  ...family<Lifecycle>('lifecycle'),
  // The worker's commits rest on the rules, and the first configuration begins the age index.
  fencesWriters: true,
};

/** The lifecycle rules of a bucket with the length of a day that the settings give, as everything evaluates them. */
export async function readRules(
  ctx: Pick<Context, 'metadata' | 'caches' | 'config'>,
  bucket: Pick<BucketRow, 'id' | 'name' | 'documents'>,
): Promise<Lifecycle | undefined> {
  const lifecycle = await readDocument(ctx, bucket, bucketLifecycle);
  return lifecycle && { ...lifecycle, dayMs: ctx.config.SVC_LIFECYCLE_DAY };
}

type Switch = 'Enabled' | 'Disabled';

export interface ReplicationRule {
  readonly ID?: string;
  readonly Priority?: number;
  /** From the first version of the API, in place of the filter. */
  readonly Prefix?: string;
  readonly Filter?: {
    readonly Prefix?: string;
    readonly Tag?: TagFilter;
    readonly And?: { readonly Prefix?: string; readonly Tag: readonly TagFilter[] };
  };
  readonly Status: Switch;
  readonly SourceSelectionCriteria?: {
    readonly SseKmsEncryptedObjects?: { readonly Status: Switch };
    readonly ReplicaModifications?: { readonly Status: Switch };
  };
  readonly ExistingObjectReplication?: { readonly Status: Switch };
  readonly Destination: {
    /** An ARN. */
    readonly Bucket: string;
    readonly Account?: string;
    readonly StorageClass?: string;
    readonly AccessControlTranslation?: { readonly Owner: 'Destination' };
    readonly EncryptionConfiguration?: { readonly ReplicaKmsKeyID?: string };
    readonly ReplicationTime?: { readonly Status: Switch; readonly Time: { readonly Minutes: number } };
    readonly Metrics?: { readonly Status: Switch; readonly EventThreshold?: { readonly Minutes: number } };
  };
  readonly DeleteMarkerReplication?: { readonly Status?: Switch };
  readonly DeleteReplication?: { readonly Status?: Switch };
}

interface Replication {
  readonly Role: string;
  /** Exactly one. */
  readonly Rule: readonly ReplicationRule[];
}
export const bucketReplication = family<Replication>('replication');

interface BucketEncryption {
  readonly Rule: readonly {
    readonly ApplyServerSideEncryptionByDefault?: {
      readonly SSEAlgorithm: 'AES256' | 'aws:kms' | 'aws:kms:dsse';
      readonly KMSMasterKeyID?: string;
    };
    readonly BucketKeyEnabled?: boolean;
    readonly BlockedEncryptionTypes?: { readonly EncryptionType: readonly ('NONE' | 'SSE-C')[] };
  }[];
}
/** Unset: objects are stored unencrypted. */
export const bucketEncryption = family<BucketEncryption>('encryption');

/** A grantee as XML names it. */
export interface NamedGrantee {
  readonly type: 'CanonicalUser' | 'AmazonCustomerByEmail' | 'Group';
  readonly ID?: string;
  readonly DisplayName?: string;
  readonly EmailAddress?: string;
  readonly URI?: string;
}

export interface Logging {
  readonly LoggingEnabled?: {
    readonly TargetBucket: string;
    readonly TargetPrefix: string;
    readonly TargetGrants?: readonly {
      readonly Grantee: NamedGrantee;
      readonly Permission: 'FULL_CONTROL' | 'READ' | 'WRITE';
    }[];
    readonly TargetObjectKeyFormat?: {
      readonly SimplePrefix?: object;
      readonly PartitionedPrefix?: { readonly PartitionDateSource?: 'EventTime' | 'DeliveryTime' };
    };
  };
}
/** Set when access to the bucket is logged. */
export const bucketLogging = family<Logging>('logging');

export interface RoutingRule {
  readonly Condition?: { readonly KeyPrefixEquals?: string; readonly HttpErrorCodeReturnedEquals?: string };
  readonly Redirect: {
    readonly Protocol?: string;
    readonly HostName?: string;
    readonly ReplaceKeyPrefixWith?: string;
    readonly ReplaceKeyWith?: string;
    readonly HttpRedirectCode?: string;
  };
}

/** Either everything is redirected, or there is an index document. */
export interface Website {
  readonly RedirectAllRequestsTo?: { readonly HostName: string; readonly Protocol?: string };
  readonly IndexDocument?: { readonly Suffix: string };
  readonly ErrorDocument?: { readonly Key: string };
  readonly RoutingRules?: readonly RoutingRule[];
}
export const bucketWebsite = family<Website>('website');

/** Set when at least one event has a target. */
export const bucketNotification = family<Notification>('notification');

export interface ObjectLockConfiguration {
  readonly ObjectLockEnabled: 'Enabled';
  /** The retention of versions whose writers name none. */
  readonly Rule?: {
    readonly DefaultRetention: {
      readonly Mode: 'GOVERNANCE' | 'COMPLIANCE';
      readonly Days?: number;
      readonly Years?: number;
    };
  };
}
/** Set by the first PutObjectLockConfiguration; a bucket may have Object Lock without it, and never loses it. */
export const objectLock = family<ObjectLockConfiguration>('object-lock');

interface RequestPayment {
  readonly Payer: 'BucketOwner' | 'Requester';
}
/** Unset means BucketOwner. */
export const requestPayment = family<RequestPayment>('request-payment');
