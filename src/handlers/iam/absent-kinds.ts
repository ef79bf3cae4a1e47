/**
 * Actions about kinds that do not exist here: instance profiles, passwords, SSH keys, certificates, aliases, identity providers.
 * Clients such as Terraform ask for them before they delete a user or role, and give up at `InvalidAction`. Lists are empty; one that
 * is named does not exist.
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { getNamed } from '../../domain/iam/entities.ts';
import { rootArn } from '../../protocol/arns.ts';
import { element, many, token } from '../../protocol/formats/codec.ts';
import { oneOf, optional, text } from '../../protocol/operations/parameters.ts';
import { pageFields } from '../../protocol/schemas/account.ts';
import { type ActionName, action } from './action.ts';
import { type ActionRequest, page, pathPrefix, roleName, userName, userOrCaller } from './fields.ts';
import { holderResource, userResource } from './resources.ts';

/** An id or a name of anything. */
const anyName = text({ max: 2_048 });
const ofUser = { UserName: optional(userName) };
const ofRole = { RoleName: roleName };
interface Holders {
  readonly UserName?: string | undefined;
  readonly RoleName?: string | undefined;
}
type Holder = 'user' | 'role' | 'account';

// The cast: which of the two a holder has is in its fields.
const holdersIn = (input: object): Holders => input as Holders;

/** The resource that the caller must be allowed the action on. */
const resourceResolver = (holder: Holder) => (ctx: Context, request: ActionRequest, input: object) => {
  const { UserName, RoleName = '' } = holdersIn(input);
  if (holder === 'account') return '*';
  if (holder === 'role') return holderResource(ctx, request, { kind: 'role', name: RoleName });
  return UserName === undefined && request.identity.root
    ? rootArn(request.identity.owner)
    : userResource(ctx, request, { UserName });
};

/** @throws NoSuchEntity for a user or role that does not exist */
async function assertHolder(
  ctx: Context,
  request: ActionRequest,
  { holder, input }: { readonly holder: Holder; readonly input: object },
): Promise<void> {
  const { UserName, RoleName = '' } = holdersIn(input);
  const { owner, root } = request.identity;
  if (holder === 'account' || (holder === 'user' && UserName === undefined && root)) return;
  const name = holder === 'role' ? RoleName : userOrCaller(request, UserName);
  await getNamed(ctx, owner, { kind: holder, name });
}

/** An action that lists entities which do not exist here. */
const emptyList = (name: ActionName, list: string, holder: Holder, fields: object = {}) =>
  action(
    name,
    { ...page, ...(holder === 'user' ? ofUser : holder === 'role' ? ofRole : {}), ...fields },
    {
      resource: resourceResolver(holder),
      result: element({ [list]: many(token, { name: 'member', max: 0 }), ...pageFields }),
      async run(ctx, request, input) {
        await assertHolder(ctx, request, { holder, input });
        return { [list]: [], IsTruncated: false };
      },
    },
  );

/** An action about one thing of a kind that does not exist. */
const absent = (name: ActionName, what: string, holder: Holder, fields: object = {}) =>
  action(
    name,
    { ...(holder === 'user' ? ofUser : holder === 'role' ? ofRole : {}), ...fields },
    {
      resource: resourceResolver(holder),
      async run(ctx, request, input) {
        await assertHolder(ctx, request, { holder, input });
        throw fail('NoSuchEntity', `The ${what} cannot be found.`);
      },
    },
  );

const byPath = { PathPrefix: optional(pathPrefix) };
const profile = { InstanceProfileName: anyName };
export const ListInstanceProfiles = emptyList('ListInstanceProfiles', 'InstanceProfiles', 'account', byPath);
export const ListInstanceProfilesForRole = emptyList(
  'ListInstanceProfilesForRole',
  'InstanceProfiles',
  'role',
);
export const GetInstanceProfile = absent('GetInstanceProfile', 'instance profile', 'account', profile);
export const DeleteInstanceProfile = absent('DeleteInstanceProfile', 'instance profile', 'account', profile);
export const RemoveRoleFromInstanceProfile = absent(
  'RemoveRoleFromInstanceProfile',
  'instance profile',
  'role',
  profile,
);

export const GetLoginProfile = absent('GetLoginProfile', 'login profile of the user', 'user');
export const DeleteLoginProfile = absent('DeleteLoginProfile', 'login profile of the user', 'user');
export const UpdateLoginProfile = absent('UpdateLoginProfile', 'login profile of the user', 'user', {
  Password: optional(anyName),
  PasswordResetRequired: optional(oneOf('true', 'false')),
});

const sshKey = { SSHPublicKeyId: anyName };
export const ListSSHPublicKeys = emptyList('ListSSHPublicKeys', 'SSHPublicKeys', 'user');
export const GetSSHPublicKey = absent('GetSSHPublicKey', 'SSH public key', 'user', {
  ...sshKey,
  Encoding: optional(anyName),
});
export const DeleteSSHPublicKey = absent('DeleteSSHPublicKey', 'SSH public key', 'user', sshKey);

export const ListSigningCertificates = emptyList('ListSigningCertificates', 'Certificates', 'user');
export const DeleteSigningCertificate = absent('DeleteSigningCertificate', 'certificate', 'user', {
  CertificateId: anyName,
});
export const ListServiceSpecificCredentials = emptyList(
  'ListServiceSpecificCredentials',
  'ServiceSpecificCredentials',
  'user',
  { ServiceName: optional(anyName), AllUsers: optional(oneOf('true', 'false')) },
);
export const DeleteServiceSpecificCredential = absent(
  'DeleteServiceSpecificCredential',
  'credential',
  'user',
  { ServiceSpecificCredentialId: anyName },
);

export const ListAccountAliases = emptyList('ListAccountAliases', 'AccountAliases', 'account');
export const DeleteAccountAlias = absent('DeleteAccountAlias', 'alias', 'account', { AccountAlias: anyName });
export const GetAccountPasswordPolicy = absent('GetAccountPasswordPolicy', 'password policy', 'account');
export const DeleteAccountPasswordPolicy = absent(
  'DeleteAccountPasswordPolicy',
  'password policy',
  'account',
);
const certificate = { ServerCertificateName: anyName };
export const ListServerCertificates = emptyList(
  'ListServerCertificates',
  'ServerCertificateMetadataList',
  'account',
  byPath,
);
export const GetServerCertificate = absent('GetServerCertificate', 'certificate', 'account', certificate);
export const DeleteServerCertificate = absent(
  'DeleteServerCertificate',
  'certificate',
  'account',
  certificate,
);
export const ListSAMLProviders = emptyList('ListSAMLProviders', 'SAMLProviderList', 'account');
export const ListOpenIDConnectProviders = emptyList(
  'ListOpenIDConnectProviders',
  'OpenIDConnectProviderList',
  'account',
);
