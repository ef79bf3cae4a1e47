/** Bodies of IAM, of STS and of the listings at service scope. */
import { bool, date, element, int, many, optional, text, token } from '../formats/codec.ts';
import { owner } from './common.ts';

const tag = element({ Key: text, Value: text });
export const tagList = many(tag, { name: 'member', max: 50 });

/** The paging fields of every list. */
export const pageFields = { IsTruncated: bool, Marker: optional(token) };
/** More than any page has. */
export const membersMax = 1_000;

const boundary = element({ PermissionsBoundaryType: token, PermissionsBoundaryArn: token });

export const user = element({
  Path: token,
  UserName: optional(token),
  UserId: token,
  Arn: token,
  CreateDate: optional(date),
  PermissionsBoundary: optional(boundary),
  Tags: optional(tagList),
});

/** A key of the root has no user. */
export const accessKeyMetadata = element({
  UserName: optional(token),
  AccessKeyId: token,
  Status: token,
  CreateDate: date,
});
export const accessKey = element({
  UserName: optional(token),
  AccessKeyId: token,
  Status: token,
  SecretAccessKey: token,
  CreateDate: date,
});
/** A key that was never used has neither. */
export const accessKeyLastUsed = element({ LastUsedDate: optional(date), ServiceName: token, Region: token });

export const group = element({ Path: token, GroupName: token, GroupId: token, Arn: token, CreateDate: date });

/** Documents are percent-encoded. */
export const role = element({
  Path: token,
  RoleName: token,
  RoleId: token,
  Arn: token,
  CreateDate: date,
  AssumeRolePolicyDocument: optional(token),
  Description: optional(text),
  MaxSessionDuration: optional(int()),
  PermissionsBoundary: optional(boundary),
  Tags: optional(tagList),
});

export const policy = element({
  PolicyName: token,
  PolicyId: token,
  Arn: token,
  Path: token,
  DefaultVersionId: token,
  AttachmentCount: int(),
  PermissionsBoundaryUsageCount: int(),
  IsAttachable: bool,
  Description: optional(text),
  CreateDate: date,
  UpdateDate: date,
  Tags: optional(tagList),
});

export const policyVersion = element({
  Document: optional(token),
  VersionId: token,
  IsDefaultVersion: bool,
  CreateDate: date,
});

export const attachedPolicies = many(element({ PolicyName: token, PolicyArn: token }), {
  name: 'member',
  max: membersMax,
});
export const policyNames = many(token, { name: 'member', max: membersMax });

export const mfaDevice = element({ UserName: token, SerialNumber: token, EnableDate: date });
/** The seed is base64 of its base32. */
export const virtualDevice = element({
  SerialNumber: token,
  Base32StringSeed: optional(token),
  User: optional(user),
  EnableDate: optional(date),
});

// The bodies of the operators' listings at service scope, which are this service's own.

/** Entries of one page. */
export const recordsMax = 1000;
const paging = { IsTruncated: bool, NextContinuationToken: optional(text) };

export const auditResult = element({
  Entries: many(
    element({
      Time: date,
      RequestId: token,
      Action: token,
      Resource: text,
      Key: optional(text),
      Status: int(),
      Error: optional(token),
      Principal: optional(text),
      AccessKeyId: optional(text),
      Account: optional(text),
      SourceIp: text,
      Count: optional(int()),
      Page: optional(int()),
      Keys: optional(
        many(
          element({
            Key: text,
            VersionId: optional(token),
            Status: optional(int()),
            Error: optional(token),
          }),
          { name: 'Item', max: recordsMax },
        ),
      ),
    }),
    { name: 'Entry', max: recordsMax },
  ),
  ...paging,
});

export const deadLettersResult = element({
  Entries: many(
    element({
      Time: date,
      Since: date,
      RequestId: token,
      Sink: text,
      /** Names the letter in a redrive. */
      Id: text,
      Attempts: int(),
      Error: text,
      /** The JSON that was to be delivered. */
      Message: text,
    }),
    { name: 'Entry', max: recordsMax },
  ),
  ...paging,
});

// The body of ListBuckets: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListBuckets.html

export const listAllMyBucketsResult = element({
  Owner: optional(owner),
  Buckets: many(element({ Name: token, CreationDate: date, BucketRegion: optional(token) }), {
    name: 'Bucket',
    max: 10_000,
  }),
  ContinuationToken: optional(text),
  Prefix: optional(text),
});

// The replies of STS: https://docs.aws.amazon.com/STS/latest/APIReference/API_Types.html

export const credentials = element({
  AccessKeyId: token,
  SecretAccessKey: token,
  SessionToken: token,
  Expiration: date,
});

export const assumeRoleResult = element({
  AssumedRoleUser: element({ AssumedRoleId: token, Arn: token }),
  Credentials: credentials,
  PackedPolicySize: optional(int()),
});
