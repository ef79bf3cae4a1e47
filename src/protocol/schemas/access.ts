/** Bodies about access: public access block, policy status, access points, ACLs, the text of a policy, ownership controls. */

import type { Json } from '../../base/text/strict-json.ts';
import {
  attribute,
  bool,
  date,
  element,
  type Infer,
  many,
  oneOf,
  optional,
  text,
  token,
} from '../formats/codec.ts';
import { type JsonSchema, type JsonShape, showJson } from '../formats/json-shape.ts';
import { aclPermissions, configuration, owner } from './common.ts';

/** Root `PublicAccessBlockConfiguration`; what is absent is false. */
export const publicAccessBlockConfiguration = configuration(
  'public-access-block',
  'PublicAccessBlockConfiguration',
  element({
    BlockPublicAcls: optional(bool),
    IgnorePublicAcls: optional(bool),
    BlockPublicPolicy: optional(bool),
    RestrictPublicBuckets: optional(bool),
  }),
);

// The reply of GetBucketPolicyStatus: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketPolicyStatus.html

/** Root `PolicyStatus`. */
export const policyStatus = element({ IsPublic: bool });

// Bodies of the operations on access points: https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_CreateAccessPoint.html

/** Root `CreateAccessPointRequest`. A VPC is read, so that it can be refused instead of being dropped. */
export const createAccessPointRequest = element(
  {
    Bucket: token,
    VpcConfiguration: optional(element({ VpcId: optional(token) })),
    PublicAccessBlockConfiguration: optional(publicAccessBlockConfiguration),
    BucketAccountId: optional(token),
  },
  { leftOut: ['Scope', 'Tags'] },
);

/** Root `PutAccessPointPolicyRequest`. */
export const putAccessPointPolicyRequest = element({ Policy: text });

export const createAccessPointResult = element({ AccessPointArn: token, Alias: token });

export const getAccessPointResult = element({
  Name: token,
  Bucket: token,
  NetworkOrigin: token,
  PublicAccessBlockConfiguration: publicAccessBlockConfiguration,
  CreationDate: date,
  Alias: token,
  AccessPointArn: token,
  BucketAccountId: token,
});

export const accessPointsMax = 1000;
export const listAccessPointsResult = element({
  AccessPointList: many(
    element({
      Name: token,
      NetworkOrigin: token,
      Bucket: token,
      AccessPointArn: token,
      Alias: token,
      BucketAccountId: token,
    }),
    { name: 'AccessPoint', max: accessPointsMax },
  ),
  NextToken: optional(text),
});

export const getAccessPointPolicyResult = element({ Policy: text });
export const getAccessPointPolicyStatusResult = element({ PolicyStatus: policyStatus });

// The body of the ACL operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObjectAcl.html

/** The type says which of the elements names the grantee; the handler checks that they agree. */
export const grantee = element({
  type: attribute('xsi:type', oneOf('CanonicalUser', 'AmazonCustomerByEmail', 'Group')),
  ID: optional(token),
  DisplayName: optional(text),
  EmailAddress: optional(token),
  URI: optional(token),
});
export type Grantee = Infer<typeof grantee>;

const grant = element({
  Grantee: grantee,
  Permission: oneOf(...aclPermissions),
});

/** AWS keeps at most 100 grants. */
const grantsMax = 100;

/** Root `AccessControlPolicy`. */
export const accessControlPolicy = configuration(
  'acl',
  'AccessControlPolicy',
  element({
    Owner: optional(owner),
    AccessControlList: many(grant, { name: 'Grant', max: grantsMax }),
  }),
);
export type AccessControlPolicy = Infer<typeof accessControlPolicy>;

// The JSON form of a bucket policy: the document itself. The engine of policies parses it (`auth/policy/document`).

/** As `JSON.stringify` writes a value that the strict reader has read. */
const writeJson = (value: Json): string =>
  JSON.stringify(value, (_, each: unknown) => (each instanceof Map ? Object.fromEntries(each) : each));

const textOrTexts: JsonSchema = { anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'string' }] };
/** `"*"`, or callers by kind: `{"AWS": "arn:aws:iam::123456789012:root"}`. */
const principals: JsonSchema = { anyOf: [{ type: 'string', enum: ['*'] }, { type: 'object' }] };

/** For readers and editors of documents: the engine of policies applies the rules. */
const policySchema: JsonSchema = {
  type: 'object',
  description: 'A policy document: Version, Id and Statement.',
  properties: {
    Version: { type: 'string', enum: ['2012-10-17', '2008-10-17'] },
    Id: { type: 'string' },
    Statement: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        properties: {
          Sid: { type: 'string' },
          Effect: { type: 'string', enum: ['Allow', 'Deny'] },
          Principal: principals,
          NotPrincipal: principals,
          Action: textOrTexts,
          NotAction: textOrTexts,
          Resource: textOrTexts,
          NotResource: textOrTexts,
          Condition: { type: 'object' },
        },
        required: ['Effect'],
      },
    },
  },
  required: ['Statement'],
};

/** Its value is the text that is stored. */
export const bucketPolicyDocument: JsonShape<string> = {
  schema: policySchema,
  isRequired: true,
  read(value, path, report) {
    if (value instanceof Map) return writeJson(value);
    const wrong = value === undefined ? 'is missing' : `is ${showJson(value)}`;
    report({ path, wrong, right: 'must be a policy document: {"Version": "2012-10-17", "Statement": […]}' });
    return undefined;
  },
};

// The body of the ownership operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketOwnershipControls.html

/** Root `OwnershipControls`. */
export const ownershipControls = configuration(
  'ownership-controls',
  'OwnershipControls',
  element({
    Rule: many(
      element({ ObjectOwnership: oneOf('BucketOwnerPreferred', 'ObjectWriter', 'BucketOwnerEnforced') }),
      { min: 1, max: 1 },
    ),
  }),
);
