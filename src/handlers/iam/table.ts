/** The handlers of every action of IAM and STS; `handlers/table.ts` has them among all others. */
import * as absentKinds from './absent-kinds.ts';
import * as accessKeys from './access-keys.ts';
import * as attachments from './attachments.ts';
import * as groups from './groups.ts';
import * as inlinePolicies from './inline-policies.ts';
import * as managedPolicies from './managed-policies.ts';
import * as mfa from './mfa.ts';
import * as roles from './roles.ts';
import * as simulations from './simulate.ts';
import * as sts from './sts.ts';
import * as tags from './tags.ts';
import * as users from './users.ts';

export const actions = {
  ...users,
  ...accessKeys,
  ...groups,
  ...roles,
  ...inlinePolicies,
  ...managedPolicies,
  ...attachments,
  ...mfa,
  ...simulations,
  ...sts,
  ...tags,
  ...absentKinds,
};
