/** The families of bucket configurations: the JSON form of each, from the schema that reads and writes its XML. */
import { jsonOf } from '../../formats/codec.ts';
import type { JsonShape } from '../../formats/json-shape.ts';
import { accessControlPolicy } from '../access/acl.ts';
import { bucketPolicyDocument } from '../access/bucket-policy.ts';
import { ownershipControls } from '../access/ownership-controls.ts';
import { publicAccessBlockConfiguration } from '../access/public-access-block.ts';
import { tagging } from '../tagging.ts';
import { versioningConfiguration } from './bucket.ts';
import { corsConfiguration } from './cors.ts';
import { serverSideEncryptionConfiguration } from './encryption.ts';
import { inventoryConfiguration } from './inventory.ts';
import { lifecycleDocument } from './lifecycle.ts';
import { bucketLoggingStatus } from './logging.ts';
import { notificationConfiguration } from './notification.ts';
import { objectLockConfiguration } from './object-lock.ts';
import { replicationConfiguration } from './replication.ts';
import { requestPaymentConfiguration } from './request-payment.ts';
import { websiteConfiguration } from './website.ts';

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

/** A bucket has several of these, each with an id. */
export const familiesWithIds: ReadonlySet<ConfigurationFamily> = new Set(['inventory']);
