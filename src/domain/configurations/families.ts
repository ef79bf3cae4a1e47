/** The families of bucket configurations that the domain itself reads. The type of a document is that of its XML schema. */
import type { Context } from '../../context.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import type { ConfigurationOf, XmlFamily } from '../../protocol/schemas/families.ts';
import { type Family, family, readDocument } from './documents.ts';
import type { Lifecycle } from './lifecycle-rules.ts';

/** A family whose document is stored as its XML is read. */
const schemaFamily = <F extends XmlFamily>(name: F): Family<ConfigurationOf<F>> => family(name);

export interface Tagging extends ConfigurationOf<'tagging'> {}
export const bucketTagging = schemaFamily('tagging');

/** Grants of the bucket itself, with accounts in place of the names that the XML has. Unset means that only its owner has access. */
export const bucketAcl = family<readonly Grant[]>('acl' satisfies XmlFamily);

export interface OwnershipControls extends ConfigurationOf<'ownership-controls'> {}
/** Unset means ObjectWriter. */
export const ownershipControls = schemaFamily('ownership-controls');

export const publicAccessBlock = { ...schemaFamily('public-access-block'), fencesWriters: true };

export interface Cors extends ConfigurationOf<'cors'> {}
export type CorsRule = Cors['CORSRule'][number];
export const bucketCors = schemaFamily('cors');

/** Its document has the minimum size too, which XML clients send in a header. */
export const bucketLifecycle: Family<Lifecycle> = {
  ...family<Lifecycle>('lifecycle' satisfies XmlFamily),
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

export type ReplicationRule = ConfigurationOf<'replication'>['Rule'][number];
export const bucketReplication = {
  ...schemaFamily('replication'),
  // A write that read the bucket before a rule, and commits behind the rule's resync, would never be sent.
  fencesWriters: true,
};

/** Unset: objects are stored unencrypted. */
export const bucketEncryption = schemaFamily('encryption');

export interface Logging extends ConfigurationOf<'logging'> {}
type LoggingTarget = NonNullable<Logging['LoggingEnabled']>;
/** A grantee as XML names it. */
export type NamedGrantee = NonNullable<LoggingTarget['TargetGrants']>[number]['Grantee'];
/** Set when access to the bucket is logged. */
export const bucketLogging = schemaFamily('logging');

export interface Website extends ConfigurationOf<'website'> {}
export type RoutingRule = NonNullable<Website['RoutingRules']>[number];
export const bucketWebsite = schemaFamily('website');

/** Set when at least one event has a target. */
export const bucketNotification = schemaFamily('notification');

export interface ObjectLockConfiguration extends ConfigurationOf<'object-lock'> {}
/** Set by the first PutObjectLockConfiguration; a bucket may have Object Lock without it, and never loses it. */
export const objectLock = { ...schemaFamily('object-lock'), fencesWriters: true };

/** Unset means BucketOwner. */
export const requestPayment = schemaFamily('request-payment');
