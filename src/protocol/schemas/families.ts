/** The families of bucket configurations: the JSON form of each, from the schema that reads and writes its XML. */
import { jsonOf } from '../formats/codec.ts';
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
import { lifecycleDocument } from './lifecycle.ts';
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

/** A bucket has several of these, each with an id. */
export const familiesWithIds: ReadonlySet<ConfigurationFamily> = new Set(['inventory']);
