/**
 * The body of the replication operations, both versions of it: a rule of the second has a Filter.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketReplication.html
 */
import {
  documented,
  element,
  int,
  limitedByHandler,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import { configuration } from './common.ts';
import { tag } from './object.ts';
import { ruleFilter } from './rule-filter.ts';

// Every queued version has these texts of its rule, and so does its failure. They are bounded: a role as in the public API, a key as the
// ARNs of the public service. The handler checks them.
export const roleMax = 2_048;
export const keyIdMax = 2_048;
export const accountMax = 256;

const status = oneOf('Enabled', 'Disabled');
const minutes = element({ Minutes: int() });

const filter = ruleFilter(tag, {}, { leftOut: ['Not'] });

const destination = element({
  /** An ARN. */
  Bucket: token,
  Account: optional(documented(token, { maxLength: accountMax })),
  StorageClass: optional(token),
  AccessControlTranslation: optional(element({ Owner: oneOf('Destination') })),
  EncryptionConfiguration: optional(
    element(
      { ReplicaKmsKeyID: optional(documented(token, { maxLength: keyIdMax })) },
      { leftOut: ['UseSourceMultiRegionKey'] },
    ),
  ),
  ReplicationTime: optional(element({ Status: status, Time: minutes })),
  Metrics: optional(element({ Status: status, EventThreshold: optional(minutes) })),
});

const rule = element({
  ID: optional(documented(text, { maxLength: 255 })),
  Priority: optional(int({ min: 0, max: 2 ** 31 - 1 })),
  /** From the first version of the API, in place of the filter. */
  Prefix: optional(text),
  Filter: optional(filter),
  Status: status,
  SourceSelectionCriteria: optional(
    element({
      SseKmsEncryptedObjects: optional(element({ Status: status })),
      ReplicaModifications: optional(element({ Status: status })),
    }),
  ),
  ExistingObjectReplication: optional(element({ Status: status })),
  Destination: destination,
  DeleteMarkerReplication: optional(element({ Status: optional(status) })),
  // An extension, as in MinIO: permanent deletions of versions are replicated too.
  DeleteReplication: optional(element({ Status: optional(status) })),
});

/** Root `ReplicationConfiguration`. */
export const replicationConfiguration = configuration(
  'replication',
  'ReplicationConfiguration',
  element({
    Role: documented(token, { maxLength: roleMax }),
    Rule: documented(many(rule, { ...limitedByHandler, min: 1 }), { maxItems: 1 }),
  }),
);
