/** What IAM's replies say of the entities of an account: https://docs.aws.amazon.com/IAM/latest/APIReference/API_Types.html */
import { bool, date, element, many, optional, text, token } from '../codec.ts';

const tag = element({ Key: text, Value: text });
export const tagList = many(tag, { name: 'member', max: 50 });

/** What every list says of the page that it is. */
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

export const accessKeyMetadata = element({
  UserName: token,
  AccessKeyId: token,
  Status: token,
  CreateDate: date,
});
export const accessKey = element({
  UserName: token,
  AccessKeyId: token,
  Status: token,
  SecretAccessKey: token,
  CreateDate: date,
});
/** Of a key that was never used, only that. */
export const accessKeyLastUsed = element({ LastUsedDate: optional(date), ServiceName: token, Region: token });
