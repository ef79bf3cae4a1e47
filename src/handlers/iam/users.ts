/** The actions on users: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateUser.html and its neighbours. */
import { callerOf } from '../../auth/principal.ts';
import type { Context } from '../../context.ts';
import { accountLimits, readCounts } from '../../domain/iam/account.ts';
import { getNamed, listEntities } from '../../domain/iam/entities.ts';
import { listDevices } from '../../domain/iam/mfa.ts';
import { createUser, deleteUser, type UserUpdate, updateUser } from '../../domain/iam/users.ts';
import type { UserRecord } from '../../metadata/iam.ts';
import { userArn } from '../../protocol/arns.ts';
import { element, int, many, token } from '../../protocol/formats/codec.ts';
import { optional } from '../../protocol/operations/parameters.ts';
import { membersMax, pageFields, user } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { boundaryField, describeUser, tagFacts, tagField, toIamTags } from './descriptions.ts';
import {
  type ActionRequest,
  page,
  pageEnd,
  pageFrom,
  path,
  pathPrefix,
  policyArnField,
  tags,
  userName,
  userOrCaller,
} from './fields.ts';
import { movedResource, policyNamed, userResource } from './resources.ts';

const userNamed = (ctx: Context, request: ActionRequest, name: string | undefined): Promise<UserRecord> =>
  getNamed(ctx, request.identity.owner, { kind: 'user', name: userOrCaller(request, name) });

const whole = async (ctx: Context, account: string, found: UserRecord) => ({
  ...describeUser(account, found),
  ...(await boundaryField(ctx, account, found.boundary)),
  ...tagField(found.tags),
});

export const CreateUser = action(
  'CreateUser',
  {
    UserName: userName,
    Path: optional(path),
    Tags: tags,
    PermissionsBoundary: optional(policyArnField),
  },
  {
    resource: (_ctx, { identity }, { UserName, Path }) =>
      userArn(identity.owner, { name: UserName, path: Path }),
    facts: ({ Tags }) => tagFacts(Tags),
    result: element({ User: user }),
    async run(ctx, request, { UserName, Path = '/', Tags, PermissionsBoundary }) {
      const { owner } = request.identity;
      const made = await createUser(ctx, owner, {
        name: UserName,
        path: Path,
        tags: toIamTags(Tags),
        boundary: PermissionsBoundary === undefined ? undefined : policyNamed(request, PermissionsBoundary),
      });
      return { User: await whole(ctx, owner, made) };
    },
  },
);

export const GetUser = action(
  'GetUser',
  { UserName: optional(userName) },
  {
    resource: (ctx, request, input) =>
      isSelf(request, input) ? callerOf(request.identity).arn : userResource(ctx, request, input),
    result: element({ User: user }),
    async run(ctx, request, input) {
      if (isSelf(request, input)) return { User: describeCaller(request) };
      const found = await userNamed(ctx, request, input.UserName);
      return { User: await whole(ctx, request.identity.owner, found) };
    },
  },
);

/** The root of an account, and a configured user, are not among IAM's records. */
const isSelf = (
  { identity }: ActionRequest,
  { UserName }: { readonly UserName?: string | undefined },
): boolean => UserName === undefined && identity.iam === undefined;

function describeCaller({ identity }: ActionRequest) {
  const { username, userid, arn } = callerOf(identity);
  return { Path: '/', ...(username === undefined ? {} : { UserName: username }), UserId: userid, Arn: arn };
}

export const ListUsers = action(
  'ListUsers',
  { ...page, PathPrefix: optional(pathPrefix) },
  {
    resource: () => '*',
    result: element({ Users: many(user, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, { identity: { owner } }, input) {
      const asked = { kind: 'user', ...pageFrom(input), pathPrefix: input.PathPrefix ?? '/' } as const;
      const { items, next } = await listEntities(ctx, owner, asked);
      // Lists leave tags and boundaries out, as the public API does.
      return { Users: items.map((each) => describeUser(owner, each)), ...pageEnd(next) };
    },
  },
);

export const UpdateUser = action(
  'UpdateUser',
  { UserName: userName, NewPath: optional(path), NewUserName: optional(userName) },
  {
    resource: userResource,
    becomes: (ctx, request, { UserName, NewPath, NewUserName }) =>
      movedResource(ctx, request, {
        from: { kind: 'user', name: UserName },
        to: { name: NewUserName, path: NewPath },
      }),
    run: (ctx, { identity }, { UserName, NewPath, NewUserName }) =>
      update(ctx, identity.owner, UserName, { name: NewUserName, path: NewPath }),
  },
);

const update = (ctx: Context, account: string, name: string, to: UserUpdate): Promise<void> =>
  updateUser(ctx, account, { user: name, to });

export const DeleteUser = action(
  'DeleteUser',
  { UserName: userName },
  {
    resource: userResource,
    run: (ctx, { identity }, { UserName }) => deleteUser(ctx, identity.owner, UserName),
  },
);

// GetAccountSummary: how many there are of what is limited, and the limits.

const summary = many(element({ key: token, value: int() }), { name: 'entry', max: 50 });

export const GetAccountSummary = action(
  'GetAccountSummary',
  {},
  {
    resource: () => '*',
    result: element({ SummaryMap: summary }),
    async run(ctx, { identity: { owner } }) {
      const counts = await readCounts(ctx, owner);
      const inUse = await listDevices(ctx, owner, {
        after: undefined,
        max: accountLimits.devices,
        keep: ({ user }) => user !== undefined,
      });
      const values: Readonly<Record<string, number>> = {
        Users: counts.users,
        UsersQuota: accountLimits.users,
        Groups: counts.groups,
        GroupsQuota: accountLimits.groups,
        Roles: counts.roles,
        RolesQuota: accountLimits.roles,
        Policies: counts.policies,
        PoliciesQuota: accountLimits.policies,
        MFADevices: counts.devices,
        MFADevicesInUse: inUse.items.length,
        AccountMFAEnabled: Number(inUse.items.some(({ user }) => user === '')),
        AccountAccessKeysPresent: 1,
        AccessKeysPerUserQuota: 2,
        AttachedPoliciesPerUserQuota: 10,
        AttachedPoliciesPerGroupQuota: 10,
        AttachedPoliciesPerRoleQuota: 10,
        GroupsPerUserQuota: 10,
        PolicySizeQuota: 6_144,
        UserPolicySizeQuota: 2_048,
        GroupPolicySizeQuota: 5_120,
        RolePolicySizeQuota: 10_240,
        AssumeRolePolicySizeQuota: 2_048,
        VersionsPerPolicyQuota: 5,
        GlobalEndpointTokenVersion: 2,
      };
      return { SummaryMap: Object.entries(values).map(([key, value]) => ({ key, value })) };
    },
  },
);
