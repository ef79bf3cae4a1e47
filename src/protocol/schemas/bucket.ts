/** Bodies about buckets: creation, location, versioning, CORS, encryption, logging, Object Lock, request payment, website. */
import {
  atMostOne,
  bool,
  checked,
  date,
  documented,
  element,
  type Infer,
  int,
  limitedByHandler,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import { grantee } from './access.ts';
import { configuration, retentionModes } from './common.ts';
import { tag } from './object.ts';

/** Location and Bucket are of directory buckets. */
export const createBucketConfiguration = element(
  {
    LocationConstraint: optional(token),
    Tags: optional(many(tag, { name: 'Tag', ...limitedByHandler })),
  },
  { unknown: 'ignore', leftOut: ['Location', 'Bucket'] },
);
export type CreateBucketConfiguration = Infer<typeof createBucketConfiguration>;

/** The reply of GetBucketLocation is one element; empty for the default region. */
export const locationConstraint = token;

export const versioningConfiguration = configuration(
  'versioning',
  'VersioningConfiguration',
  element({
    Status: optional(oneOf('Enabled', 'Suspended')),
    MfaDelete: optional(oneOf('Enabled', 'Disabled')),
  }),
);
export type VersioningConfiguration = Infer<typeof versioningConfiguration>;

// The body of the CORS operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketCors.html

const corsRule = element({
  ID: optional(documented(text, { maxLength: 255 })),
  AllowedHeader: many(token, limitedByHandler),
  AllowedMethod: many(token, { ...limitedByHandler, min: 1 }),
  AllowedOrigin: many(token, { ...limitedByHandler, min: 1 }),
  ExposeHeader: many(token, limitedByHandler),
  MaxAgeSeconds: optional(int({ min: 0, max: 2 ** 31 - 1 })),
});

/** Root `CORSConfiguration`. */
export const corsConfiguration = configuration(
  'cors',
  'CORSConfiguration',
  element({
    CORSRule: documented(many(corsRule, { ...limitedByHandler, min: 1 }), { maxItems: 100 }),
  }),
);

// The body of the encryption operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketEncryption.html

const rule = element({
  ApplyServerSideEncryptionByDefault: optional(
    element({
      SSEAlgorithm: oneOf('AES256', 'aws:kms', 'aws:kms:dsse'),
      KMSMasterKeyID: optional(token),
    }),
  ),
  BucketKeyEnabled: optional(bool),
  BlockedEncryptionTypes: optional(
    element({ EncryptionType: many(oneOf('NONE', 'SSE-C'), { min: 1, max: 1 }) }),
  ),
});
export type ServerSideEncryptionRule = Infer<typeof rule>;

/** Root `ServerSideEncryptionConfiguration`. */
export const serverSideEncryptionConfiguration = configuration(
  'encryption',
  'ServerSideEncryptionConfiguration',
  element({ Rule: many(rule, { min: 1, max: 1 }) }),
);

/** Root `ObjectEncryption`: https://docs.aws.amazon.com/AmazonS3/latest/API/API_UpdateObjectEncryption.html */
export const objectEncryption = element({
  'SSE-KMS': element({ KMSKeyArn: token, BucketKeyEnabled: optional(bool) }),
});

// The body of the logging operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLogging.html

const targetGrant = element({ Grantee: grantee, Permission: oneOf('FULL_CONTROL', 'READ', 'WRITE') });

const targetObjectKeyFormat = atMostOne({
  SimplePrefix: optional(element({})),
  PartitionedPrefix: optional(element({ PartitionDateSource: optional(oneOf('EventTime', 'DeliveryTime')) })),
});

/** Root `BucketLoggingStatus`; without an element inside it turns logging off. */
export const bucketLoggingStatus = configuration(
  'logging',
  'BucketLoggingStatus',
  element({
    LoggingEnabled: optional(
      element({
        TargetBucket: token,
        TargetPrefix: text,
        TargetGrants: optional(many(targetGrant, { name: 'Grant', max: 100 })),
        TargetObjectKeyFormat: optional(targetObjectKeyFormat),
      }),
    ),
  }),
);

// Bodies of the Object Lock operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectLockConfiguration.html,
// …/API_PutObjectRetention.html and …/API_PutObjectLegalHold.html

const retentionMode = oneOf(...retentionModes);

/** The handler checks the limits of the period. */
const defaultRetention = checked(
  element(
    {
      Mode: retentionMode,
      Days: optional(documented(int(), { minimum: 1, maximum: 36_500 })),
      Years: optional(documented(int(), { minimum: 1, maximum: 100 })),
    },
    { leftOut: ['DefaultEventHold'] },
  ),
  ({ Days, Years }) =>
    (Days === undefined) === (Years === undefined) ? 'must hold Days or Years' : undefined,
);
export type DefaultRetention = Infer<typeof defaultRetention>;

/** Root `ObjectLockConfiguration`. */
export const objectLockConfiguration = configuration(
  'object-lock',
  'ObjectLockConfiguration',
  element({
    ObjectLockEnabled: optional(oneOf('Enabled')),
    Rule: optional(element({ DefaultRetention: defaultRetention })),
  }),
);
export type ObjectLockConfiguration = Infer<typeof objectLockConfiguration>;

/** Root `Retention`; an empty one removes the retention. */
export const retention = checked(
  element(
    { Mode: optional(retentionMode), RetainUntilDate: optional(date) },
    { leftOut: ['EventHold', 'EventHoldDuration'] },
  ),
  ({ Mode, RetainUntilDate }) =>
    (Mode === undefined) === (RetainUntilDate === undefined)
      ? undefined
      : 'must hold both Mode and RetainUntilDate, or neither',
);
export type Retention = Infer<typeof retention>;

/** Root `LegalHold`. */
export const legalHold = element({ Status: oneOf('ON', 'OFF') });
export type LegalHold = Infer<typeof legalHold>;

// The body of the operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketRequestPayment.html

/** Root `RequestPaymentConfiguration`. */
export const requestPaymentConfiguration = configuration(
  'request-payment',
  'RequestPaymentConfiguration',
  element({ Payer: oneOf('Requester', 'BucketOwner') }),
);

// The body of the website operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketWebsite.html

const redirect = element({
  Protocol: optional(token),
  HostName: optional(token),
  ReplaceKeyPrefixWith: optional(text),
  ReplaceKeyWith: optional(text),
  HttpRedirectCode: optional(token),
});

const routingRule = element({
  Condition: optional(
    element({ KeyPrefixEquals: optional(text), HttpErrorCodeReturnedEquals: optional(token) }),
  ),
  Redirect: redirect,
});

/** Root `WebsiteConfiguration`. The handler checks the rules between its elements, because each has an error of its own. */
export const websiteConfiguration = configuration(
  'website',
  'WebsiteConfiguration',
  element({
    RedirectAllRequestsTo: optional(element({ HostName: token, Protocol: optional(token) })),
    IndexDocument: optional(element({ Suffix: text })),
    ErrorDocument: optional(element({ Key: text })),
    RoutingRules: optional(
      documented(many(routingRule, { name: 'RoutingRule', ...limitedByHandler }), { maxItems: 50 }),
    ),
  }),
);
