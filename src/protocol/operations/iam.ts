/**
 * The operations of the public IAM and STS APIs that are implemented, as rows of the operation table. A request names its operation in
 * `Action`, by GET or POST, so the name and not the method decides what is audited.
 */
export interface ActionRow<Service extends string, Name extends string> {
  readonly on: `ANY service ?Action=${Name}`;
  readonly action: `${Service}:${Name}`;
  readonly audited: boolean;
  readonly authorization: 'each';
}
type ActionRows<Service extends string, Names extends string> = {
  readonly [N in Names]: ActionRow<Service, N>;
};

const rows = <Service extends string, const Names extends string>(
  service: Service,
  audited: boolean,
  names: readonly Names[],
) =>
  Object.fromEntries(
    names.map((name) => {
      const row: ActionRow<Service, Names> = {
        on: `ANY service ?Action=${name}`,
        action: `${service}:${name}`,
        audited,
        authorization: 'each',
      };
      return [name, row];
    }),
    // The cast: one entry was made of each name.
  ) as unknown as ActionRows<Service, Names>;

export const iamOperations = {
  ...rows('iam', true, ['CreateUser', 'UpdateUser', 'DeleteUser', 'TagUser', 'UntagUser']),
  ...rows('iam', false, ['GetUser', 'ListUsers', 'ListUserTags']),
  ...rows('iam', true, ['CreateAccessKey', 'UpdateAccessKey', 'DeleteAccessKey']),
  ...rows('iam', false, ['ListAccessKeys', 'GetAccessKeyLastUsed']),

  ...rows('iam', true, [
    'CreateGroup',
    'UpdateGroup',
    'DeleteGroup',
    'AddUserToGroup',
    'RemoveUserFromGroup',
  ]),
  ...rows('iam', false, ['GetGroup', 'ListGroups', 'ListGroupsForUser']),

  ...rows('iam', true, ['CreateRole', 'UpdateRole', 'UpdateRoleDescription', 'UpdateAssumeRolePolicy']),
  ...rows('iam', true, ['DeleteRole', 'TagRole', 'UntagRole']),
  ...rows('iam', false, ['GetRole', 'ListRoles', 'ListRoleTags']),

  ...rows('iam', true, ['PutUserPolicy', 'PutGroupPolicy', 'PutRolePolicy']),
  ...rows('iam', true, ['DeleteUserPolicy', 'DeleteGroupPolicy', 'DeleteRolePolicy']),
  ...rows('iam', false, ['GetUserPolicy', 'GetGroupPolicy', 'GetRolePolicy']),
  ...rows('iam', false, ['ListUserPolicies', 'ListGroupPolicies', 'ListRolePolicies']),

  ...rows('iam', true, ['CreatePolicy', 'DeletePolicy', 'TagPolicy', 'UntagPolicy']),
  ...rows('iam', true, ['CreatePolicyVersion', 'SetDefaultPolicyVersion', 'DeletePolicyVersion']),
  ...rows('iam', false, ['GetPolicy', 'ListPolicies', 'ListPolicyTags']),
  ...rows('iam', false, ['GetPolicyVersion', 'ListPolicyVersions']),

  ...rows('iam', true, ['AttachUserPolicy', 'AttachGroupPolicy', 'AttachRolePolicy']),
  ...rows('iam', true, ['DetachUserPolicy', 'DetachGroupPolicy', 'DetachRolePolicy']),
  ...rows('iam', false, [
    'ListAttachedUserPolicies',
    'ListAttachedGroupPolicies',
    'ListAttachedRolePolicies',
  ]),
  ...rows('iam', false, ['ListEntitiesForPolicy']),
  ...rows('iam', true, ['PutUserPermissionsBoundary', 'DeleteUserPermissionsBoundary']),
  ...rows('iam', true, ['PutRolePermissionsBoundary', 'DeleteRolePermissionsBoundary']),

  ...rows('iam', true, ['CreateVirtualMFADevice', 'DeleteVirtualMFADevice']),
  ...rows('iam', true, ['EnableMFADevice', 'DeactivateMFADevice', 'ResyncMFADevice']),
  ...rows('iam', false, ['ListMFADevices', 'ListVirtualMFADevices']),

  ...rows('iam', false, ['SimulateCustomPolicy', 'SimulatePrincipalPolicy', 'GetAccountSummary']),

  // Of kinds that do not exist here: see handlers/iam/absent-kinds.ts.
  ...rows('iam', false, ['ListInstanceProfiles', 'ListInstanceProfilesForRole', 'GetInstanceProfile']),
  ...rows('iam', true, ['RemoveRoleFromInstanceProfile', 'DeleteInstanceProfile']),
  ...rows('iam', false, ['GetLoginProfile', 'ListSSHPublicKeys', 'GetSSHPublicKey']),
  ...rows('iam', true, ['UpdateLoginProfile', 'DeleteLoginProfile', 'DeleteSSHPublicKey']),
  ...rows('iam', false, ['ListSigningCertificates', 'ListServiceSpecificCredentials']),
  ...rows('iam', true, ['DeleteSigningCertificate', 'DeleteServiceSpecificCredential']),
  ...rows('iam', false, ['ListAccountAliases', 'GetAccountPasswordPolicy', 'ListServerCertificates']),
  ...rows('iam', true, ['DeleteAccountAlias', 'DeleteAccountPasswordPolicy', 'DeleteServerCertificate']),
  ...rows('iam', false, ['GetServerCertificate', 'ListSAMLProviders', 'ListOpenIDConnectProviders']),

  ...rows('sts', true, ['AssumeRole', 'GetSessionToken']),
  ...rows('sts', false, ['GetCallerIdentity', 'GetAccessKeyInfo']),
};
