/** The entities of an account in IAM's replies: https://docs.aws.amazon.com/IAM/latest/APIReference/API_Types.html */
import { bool, date, element, int, many, optional, text, token } from '../../formats/codec.ts';

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
