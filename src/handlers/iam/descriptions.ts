/** Values as IAM's replies show them. */
import type { Context } from '../../context.ts';
import { accountOfPolicy, findPolicyById } from '../../domain/iam/managed-policies.ts';
import type { IamTag, UserRecord } from '../../metadata/iam.ts';
import { policyArn, userArn } from '../../protocol/arns.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';

export type InputTags = readonly { readonly Key: string; readonly Value: string }[];
export const toIamTags = (input: InputTags): readonly IamTag[] =>
  input.map(({ Key, Value }) => [Key, Value] as const);
export const describeTags = (present: readonly IamTag[]): InputTags =>
  present.map(([Key, Value]) => ({ Key, Value }));
/** The field of an entity that has some. */
export const tagField = (present: readonly IamTag[]) =>
  present.length === 0 ? {} : { Tags: describeTags(present) };

/** Documents travel percent-encoded (RFC 3986). */
export const encodeDocument = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

/** The condition values of the tags in a request. */
export const tagFacts = (input: InputTags) =>
  new Map<string, string | readonly string[]>([
    ['aws:TagKeys', input.map(({ Key }) => Key)],
    ...input.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value] as const),
  ]);

/** The condition keys for the tags of the resource; IAM has its own beside the global one (public API). */
export const resourceTagFacts = (tags: readonly IamTag[]): readonly (readonly [string, string])[] =>
  tags.flatMap(([key, value]) => [
    [`aws:ResourceTag/${key}`, value],
    [`iam:ResourceTag/${key}`, value],
  ]);

export const describeUser = (account: string, user: UserRecord) => ({
  Path: user.path,
  UserName: user.name,
  UserId: user.id,
  Arn: userArn(account, user),
  CreateDate: isoTime(user.created),
});

export async function boundaryArn(
  ctx: Pick<Context, 'metadata'>,
  account: string,
  boundary: string | undefined,
): Promise<string | undefined> {
  const policy = boundary === undefined ? undefined : await findPolicyById(ctx, account, boundary);
  return policy && policyArn(accountOfPolicy(account, policy), policy);
}

/** The field of a user or role that has one. */
export async function boundaryField(
  ctx: Pick<Context, 'metadata'>,
  account: string,
  boundary: string | undefined,
) {
  const PermissionsBoundaryArn = await boundaryArn(ctx, account, boundary);
  if (PermissionsBoundaryArn === undefined) return {};
  return {
    PermissionsBoundary: { PermissionsBoundaryType: 'PermissionsBoundaryPolicy', PermissionsBoundaryArn },
  };
}
