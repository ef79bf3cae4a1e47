/** GetAccountSummary: how many there are of what is limited, and the limits. */
import { accountLimits, readCounts } from '../../../domain/iam/account.ts';
import { listDevices } from '../../../domain/iam/mfa/mfa.ts';
import { element, int, many, token } from '../../../protocol/formats/codec.ts';
import { action } from '../action.ts';

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
