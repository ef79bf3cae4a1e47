/** The actions on roles: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html and its neighbours. */
import { refuseBarePrincipals } from '../../auth/bucket-policy.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import { getNamed, listEntities, readsMax } from '../../domain/iam/entities.ts';
import { createRole, deleteRole, type RoleUpdate, readTrust, updateRole } from '../../domain/iam/roles.ts';
import type { RoleRecord } from '../../metadata/iam.ts';
import { roleArn } from '../../protocol/arns.ts';
import { element, many } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { integer, optional } from '../../protocol/operations/parameters.ts';
import { membersMax, pageFields, role } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { boundaryField, encodeDocument, tagFacts, tagField, toIamTags } from './descriptions.ts';
import {
  type ActionRequest,
  description,
  page,
  pageEnd,
  pageFrom,
  path,
  pathPrefix,
  policyArnField,
  policyDocument,
  roleName,
  tags,
} from './fields.ts';
import { holderResource, policyNamed } from './resources.ts';

const kind = 'role';
const sessionSeconds = integer({ min: 3_600, max: 43_200 });
const sessionSecondsDefault = 3_600;

const describeRole = async (ctx: Context, account: string, found: RoleRecord) => ({
  Path: found.path,
  RoleName: found.name,
  RoleId: found.id,
  Arn: roleArn(account, found),
  CreateDate: isoTime(found.created),
  AssumeRolePolicyDocument: encodeDocument(await readTrust(ctx, account, found)),
  ...(found.description === '' ? {} : { Description: found.description }),
  MaxSessionDuration: found.sessionSecondsMax,
});

const whole = async (ctx: Context, account: string, found: RoleRecord) => ({
  ...(await describeRole(ctx, account, found)),
  ...(await boundaryField(ctx, account, found.boundary)),
  ...tagField(found.tags),
});

const roleResource = (
  ctx: Context,
  request: ActionRequest,
  { RoleName }: { readonly RoleName: string },
): Promise<string> => holderResource(ctx, request, { kind, name: RoleName });

export const CreateRole = action(
  'CreateRole',
  {
    RoleName: roleName,
    Path: optional(path),
    AssumeRolePolicyDocument: policyDocument,
    Description: optional(description),
    MaxSessionDuration: optional(sessionSeconds),
    PermissionsBoundary: optional(policyArnField),
    Tags: tags,
  },
  {
    resource: (_ctx, { identity }, { RoleName, Path }) =>
      roleArn(identity.owner, { name: RoleName, path: Path }),
    facts: ({ Tags }) => tagFacts(Tags),
    result: element({ Role: role }),
    async run(ctx, request, input) {
      const { owner } = request.identity;
      const trust = parsePolicy(input.AssumeRolePolicyDocument, { kind: 'trust' });
      await refuseBarePrincipals(ctx, owner, trust);
      const { PermissionsBoundary: boundary } = input;
      const made = await createRole(ctx, owner, {
        name: input.RoleName,
        path: input.Path ?? '/',
        description: input.Description ?? '',
        sessionSecondsMax: input.MaxSessionDuration ?? sessionSecondsDefault,
        tags: toIamTags(input.Tags),
        boundary: boundary === undefined ? undefined : policyNamed(request, boundary),
        trust: input.AssumeRolePolicyDocument,
      });
      return { Role: await whole(ctx, owner, made) };
    },
  },
);

export const GetRole = action(
  'GetRole',
  { RoleName: roleName },
  {
    resource: roleResource,
    result: element({ Role: role }),
    async run(ctx, { identity: { owner } }, { RoleName }) {
      return { Role: await whole(ctx, owner, await getNamed(ctx, owner, { kind, name: RoleName })) };
    },
  },
);

export const ListRoles = action(
  'ListRoles',
  { ...page, PathPrefix: optional(pathPrefix) },
  {
    resource: () => '*',
    result: element({ Roles: many(role, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, { identity: { owner } }, input) {
      const asked = { kind, ...pageFrom(input), pathPrefix: input.PathPrefix ?? '/' } as const;
      const { items, next } = await listEntities(ctx, owner, asked);
      const Roles = await inParallel(readsMax, items, (each) => describeRole(ctx, owner, each));
      return { Roles, ...pageEnd(next) };
    },
  },
);

const update = (ctx: Context, account: string, name: string, to: RoleUpdate): Promise<void> =>
  updateRole(ctx, account, { role: name, to });

/** Its result has no members. */
export const UpdateRole = action(
  'UpdateRole',
  {
    RoleName: roleName,
    Description: optional(description),
    MaxSessionDuration: optional(sessionSeconds),
  },
  {
    resource: roleResource,
    result: element({}),
    async run(ctx, { identity }, { RoleName, Description, MaxSessionDuration }) {
      const to = { description: Description, sessionSecondsMax: MaxSessionDuration };
      await update(ctx, identity.owner, RoleName, to);
      return {};
    },
  },
);

export const UpdateRoleDescription = action(
  'UpdateRoleDescription',
  { RoleName: roleName, Description: description },
  {
    resource: roleResource,
    result: element({ Role: role }),
    async run(ctx, { identity: { owner } }, { RoleName, Description }) {
      await update(ctx, owner, RoleName, { description: Description });
      return { Role: await whole(ctx, owner, await getNamed(ctx, owner, { kind, name: RoleName })) };
    },
  },
);

export const UpdateAssumeRolePolicy = action(
  'UpdateAssumeRolePolicy',
  { RoleName: roleName, PolicyDocument: policyDocument },
  {
    resource: roleResource,
    async run(ctx, { identity }, { RoleName, PolicyDocument }) {
      const trust = parsePolicy(PolicyDocument, { kind: 'trust' });
      await refuseBarePrincipals(ctx, identity.owner, trust);
      return updateRole(ctx, identity.owner, { role: RoleName, to: { trust: PolicyDocument } });
    },
  },
);

export const DeleteRole = action(
  'DeleteRole',
  { RoleName: roleName },
  {
    resource: roleResource,
    run: (ctx, { identity }, { RoleName }) => deleteRole(ctx, identity.owner, RoleName),
  },
);
