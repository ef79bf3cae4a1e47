/** Roles and their trust policies. */
import { refuseBarePrincipals } from '../../../../auth/authorization/bare-principals.ts';
import { parsePolicy } from '../../../../auth/policy/document/document.ts';
import type { Context } from '../../../../context.ts';
import { getNamed } from '../../../../domain/iam/entities.ts';
import { createRole, deleteRole, readTrust, updateRole } from '../../../../domain/iam/roles.ts';
import { roleArn } from '../../../../protocol/request/arns.ts';
import { type AdminHandler, jsonReply, nameIn } from '../../call.ts';
import {
  boundaryJson,
  deleteReply,
  entityJson,
  listReply,
  openAccount,
  policiesJson,
  tagsJson,
  toTags,
} from './entities.ts';

const sessionSecondsDefault = 3_600;

export const ListIamRoles: AdminHandler<'ListIamRoles'> = (ctx, call) =>
  listReply(ctx, call, { kind: 'role', toJson: (account, role) => entityJson(account, 'role', role) });

async function roleReply(ctx: Context, account: string, name: string) {
  const role = await getNamed(ctx, account, { kind: 'role', name });
  return jsonReply({
    ...entityJson(account, 'role', role),
    ...(await policiesJson(ctx, account, { kind: 'role', name })),
    description: role.description,
    sessionSeconds: role.sessionSecondsMax,
    trust: await readTrust(ctx, account, role),
    ...(await boundaryJson(ctx, account, role.boundary)),
    ...tagsJson(role.tags),
  });
}

/** @throws MalformedPolicyDocument */
async function assertTrust(ctx: Context, account: string, text: string): Promise<void> {
  await refuseBarePrincipals(ctx, account, parsePolicy(text, { kind: 'trust' }));
}

export const CreateIamRole: AdminHandler<'CreateIamRole'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { name, path = '/', trust, description = '', sessionSeconds, tags } = call.body;
  call.record?.about(roleArn(account, { name, path }));
  await assertTrust(ctx, account, trust);
  const sessionSecondsMax = sessionSeconds ?? sessionSecondsDefault;
  const wanted = {
    name,
    path,
    trust,
    description,
    sessionSecondsMax,
    tags: toTags(tags),
    boundary: undefined,
  };
  await createRole(ctx, account, wanted);
  return roleReply(ctx, account, name);
};

export const GetIamRole: AdminHandler<'GetIamRole'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  return roleReply(ctx, account, nameIn(call, 'role'));
};

export const PutIamRole: AdminHandler<'PutIamRole'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const role = nameIn(call, 'role');
  const { trust, description, sessionSeconds, tags } = call.body;
  call.record?.about(roleArn(account, { name: role }));
  if (trust !== undefined) await assertTrust(ctx, account, trust);
  const to = {
    trust,
    description,
    sessionSecondsMax: sessionSeconds,
    ...(tags === undefined ? {} : { tags: () => toTags(tags) }),
  };
  await updateRole(ctx, account, { role, to });
  return roleReply(ctx, account, role);
};

export const DeleteIamRole: AdminHandler<'DeleteIamRole'> = (ctx, call) =>
  deleteReply(ctx, call, { kind: 'role', remove: deleteRole });
