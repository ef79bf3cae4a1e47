/** The configurations of a bucket in the storage protocol: the parameter that names each, its actions, and whether it can be removed. */
import type { ConfigurationFamily } from '../../src/protocol/schemas/families.ts';

interface StorageFamily {
  readonly parameter: string;
  readonly reads: string;
  readonly writes: string;
  /** By DELETE, or by an empty document (`emptyDocuments`). */
  readonly isRemovable: boolean;
}

const row = (parameter: string, action: string, isRemovable = true): StorageFamily => ({
  parameter,
  reads: `s3:Get${action}`,
  writes: `s3:Put${action}`,
  isRemovable,
});

export const storageFamilies: Readonly<Record<ConfigurationFamily, StorageFamily>> = {
  acl: row('acl', 'BucketAcl', false),
  cors: row('cors', 'BucketCORS'),
  encryption: row('encryption', 'EncryptionConfiguration'),
  inventory: row('inventory', 'InventoryConfiguration'),
  lifecycle: row('lifecycle', 'LifecycleConfiguration'),
  logging: row('logging', 'BucketLogging'),
  notification: row('notification', 'BucketNotification'),
  'object-lock': row('object-lock', 'BucketObjectLockConfiguration', false),
  'ownership-controls': row('ownershipControls', 'BucketOwnershipControls'),
  policy: row('policy', 'BucketPolicy'),
  'public-access-block': row('publicAccessBlock', 'BucketPublicAccessBlock'),
  replication: row('replication', 'ReplicationConfiguration'),
  'request-payment': row('requestPayment', 'BucketRequestPayment', false),
  tagging: row('tagging', 'BucketTagging'),
  versioning: row('versioning', 'BucketVersioning', false),
  website: row('website', 'BucketWebsite'),
};

/** Those that decide who may do what. */
export const accessFamilies = ['policy', 'public-access-block', 'acl', 'ownership-controls'] as const;

/** What a bucket does by itself. */
export const automationFamilies = [
  'lifecycle',
  'replication',
  'notification',
  'inventory',
  'logging',
] as const;

export const toRead = (family: ConfigurationFamily, bucket: string) => ({
  action: storageFamilies[family].reads,
  bucket,
});
export const toWrite = (family: ConfigurationFamily, bucket: string) => ({
  action: storageFamilies[family].writes,
  bucket,
});
/** Most removals have the action of the change. */
export const toRemove = (family: ConfigurationFamily, bucket: string) =>
  family === 'policy' || family === 'website'
    ? { action: `s3:DeleteBucket${family === 'policy' ? 'Policy' : 'Website'}`, bucket }
    : toWrite(family, bucket);
