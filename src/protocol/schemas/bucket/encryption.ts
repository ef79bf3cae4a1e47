/** The body of the encryption operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketEncryption.html */
import { bool, element, type Infer, many, oneOf, optional, token } from '../../formats/codec.ts';

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
export const serverSideEncryptionConfiguration = element({ Rule: many(rule, { min: 1, max: 1 }) });
export type ServerSideEncryptionConfiguration = Infer<typeof serverSideEncryptionConfiguration>;

/** Root `ObjectEncryption`: https://docs.aws.amazon.com/AmazonS3/latest/API/API_UpdateObjectEncryption.html */
export const objectEncryption = element({
  'SSE-KMS': element({ KMSKeyArn: token, BucketKeyEnabled: optional(bool) }),
});
