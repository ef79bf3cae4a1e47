/** The families of bucket configurations: the XML form of each, and its JSON form from the same schema. */
import { jsonOf, type Xml } from '../formats/codec.ts';
import type { JsonShape } from '../formats/json-shape.ts';
import {
  accessControlPolicy,
  bucketPolicyDocument,
  ownershipControls,
  publicAccessBlockConfiguration,
} from './access.ts';
import {
  bucketLoggingStatus,
  corsConfiguration,
  objectLockConfiguration,
  requestPaymentConfiguration,
  serverSideEncryptionConfiguration,
  versioningConfiguration,
  websiteConfiguration,
} from './bucket.ts';
import { inventoryConfiguration } from './inventory.ts';
import { lifecycleConfiguration, lifecycleDocument } from './lifecycle.ts';
import { notificationConfiguration } from './notification.ts';
import { tagging } from './object.ts';
import { replicationConfiguration } from './replication.ts';

export const configurationShapes = {
  acl: jsonOf(accessControlPolicy),
  cors: jsonOf(corsConfiguration),
  encryption: jsonOf(serverSideEncryptionConfiguration),
  inventory: jsonOf(inventoryConfiguration),
  lifecycle: jsonOf(lifecycleDocument),
  logging: jsonOf(bucketLoggingStatus),
  notification: jsonOf(notificationConfiguration),
  'object-lock': jsonOf(objectLockConfiguration),
  'ownership-controls': jsonOf(ownershipControls),
  policy: bucketPolicyDocument,
  'public-access-block': jsonOf(publicAccessBlockConfiguration),
  replication: jsonOf(replicationConfiguration),
  'request-payment': jsonOf(requestPaymentConfiguration),
  tagging: jsonOf(tagging),
  versioning: jsonOf(versioningConfiguration),
  website: jsonOf(websiteConfiguration),
} as const satisfies Readonly<Record<string, JsonShape<unknown>>>;

export type ConfigurationFamily = keyof typeof configurationShapes;
export const configurationFamilies = Object.keys(configurationShapes) as readonly ConfigurationFamily[];

/** The root element of each in the storage protocol, and its schema; a policy is JSON there too. */
export const configurationDocuments: Readonly<
  Record<Exclude<ConfigurationFamily, 'policy'>, { readonly root: string; readonly schema: Xml<unknown> }>
> = {
  acl: { root: 'AccessControlPolicy', schema: accessControlPolicy },
  cors: { root: 'CORSConfiguration', schema: corsConfiguration },
  encryption: { root: 'ServerSideEncryptionConfiguration', schema: serverSideEncryptionConfiguration },
  inventory: { root: 'InventoryConfiguration', schema: inventoryConfiguration },
  lifecycle: { root: 'LifecycleConfiguration', schema: lifecycleConfiguration },
  logging: { root: 'BucketLoggingStatus', schema: bucketLoggingStatus },
  notification: { root: 'NotificationConfiguration', schema: notificationConfiguration },
  'object-lock': { root: 'ObjectLockConfiguration', schema: objectLockConfiguration },
  'ownership-controls': { root: 'OwnershipControls', schema: ownershipControls },
  'public-access-block': { root: 'PublicAccessBlockConfiguration', schema: publicAccessBlockConfiguration },
  replication: { root: 'ReplicationConfiguration', schema: replicationConfiguration },
  'request-payment': { root: 'RequestPaymentConfiguration', schema: requestPaymentConfiguration },
  tagging: { root: 'Tagging', schema: tagging },
  versioning: { root: 'VersioningConfiguration', schema: versioningConfiguration },
  website: { root: 'WebsiteConfiguration', schema: websiteConfiguration },
};

/** A bucket has several of these, each with an id. */
export const familiesWithIds: ReadonlySet<ConfigurationFamily> = new Set(['inventory']);
