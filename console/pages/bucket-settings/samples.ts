/** A document of each family to begin with, where a bucket has none. */
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';

/** An ACL is always set. */
export const samples: Readonly<
  Record<Exclude<ConfigurationFamily, 'acl'>, (bucket: string, id: string) => object>
> = {
  cors: () => ({
    CORSRule: [
      { AllowedOrigin: ['https://app.example.com'], AllowedMethod: ['GET', 'HEAD'], MaxAgeSeconds: 3_600 },
    ],
  }),
  encryption: () => ({ Rule: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }] }),
  inventory: (bucket, Id) => ({
    Id,
    IsEnabled: true,
    Destination: {
      S3BucketDestination: { Bucket: `arn:aws:s3:::${bucket}`, Format: 'CSV', Prefix: 'inventory' },
    },
    Schedule: { Frequency: 'Daily' },
    IncludedObjectVersions: 'All',
  }),
  lifecycle: () => ({
    Rule: [{ ID: 'old-logs', Status: 'Enabled', Filter: { Prefix: 'logs/' }, Expiration: { Days: 90 } }],
  }),
  logging: (bucket) => ({ LoggingEnabled: { TargetBucket: bucket, TargetPrefix: 'access-log/' } }),
  notification: () => ({
    TopicConfiguration: [
      { Id: 'new-objects', Event: ['s3:ObjectCreated:*'], Topic: 'arn:aws:sns:us-east-1:123456789012:topic' },
    ],
  }),
  'object-lock': () => ({
    ObjectLockEnabled: 'Enabled',
    Rule: { DefaultRetention: { Mode: 'GOVERNANCE', Days: 30 } },
  }),
  'ownership-controls': () => ({ Rule: [{ ObjectOwnership: 'BucketOwnerEnforced' }] }),
  policy: (bucket) => ({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: 'arn:aws:iam::123456789012:root' },
        Action: ['s3:GetObject'],
        Resource: [`arn:aws:s3:::${bucket}/*`],
      },
    ],
  }),
  'public-access-block': () => ({
    BlockPublicAcls: true,
    IgnorePublicAcls: true,
    BlockPublicPolicy: true,
    RestrictPublicBuckets: true,
  }),
  replication: () => ({
    Role: '',
    Rule: [
      {
        ID: 'all',
        Priority: 1,
        Status: 'Enabled',
        Filter: { Prefix: '' },
        DeleteMarkerReplication: { Status: 'Disabled' },
        Destination: { Bucket: 'arn:aws:s3:::copy' },
      },
    ],
  }),
  'request-payment': () => ({ Payer: 'Requester' }),
  tagging: () => ({ TagSet: [{ Key: 'team', Value: 'web' }] }),
  versioning: () => ({ Status: 'Enabled' }),
  website: () => ({ IndexDocument: { Suffix: 'index.html' }, ErrorDocument: { Key: 'error.html' } }),
};
