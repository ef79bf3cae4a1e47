/** The body of the logging operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLogging.html */
import {
  atMostOne,
  checked,
  element,
  type Infer,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../../formats/codec.ts';
import { grantee } from '../access/acl.ts';

const targetGrant = element({ Grantee: grantee, Permission: oneOf('FULL_CONTROL', 'READ', 'WRITE') });

const targetObjectKeyFormat = checked(
  element({
    SimplePrefix: optional(element({})),
    PartitionedPrefix: optional(
      element({ PartitionDateSource: optional(oneOf('EventTime', 'DeliveryTime')) }),
    ),
  }),
  atMostOne('SimplePrefix', 'PartitionedPrefix'),
);

/** Root `BucketLoggingStatus`; without an element inside it turns logging off. */
export const bucketLoggingStatus = element({
  LoggingEnabled: optional(
    element({
      TargetBucket: token,
      TargetPrefix: text,
      TargetGrants: optional(many(targetGrant, { name: 'Grant', max: 100 })),
      TargetObjectKeyFormat: optional(targetObjectKeyFormat),
    }),
  ),
});
export type BucketLoggingStatus = Infer<typeof bucketLoggingStatus>;
