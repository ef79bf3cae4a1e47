/** The handlers of every action of IAM and STS; `handlers/table.ts` has them among all others. */
import * as absentKinds from './entities/absent-kinds.ts';
import * as accessKeys from './entities/access-keys.ts';
import * as groups from './entities/groups.ts';
import * as mfa from './entities/mfa.ts';
import * as roles from './entities/roles.ts';
import * as tags from './entities/tags.ts';
import * as users from './entities/users.ts';
import * as attachments from './policies/attachments.ts';
import * as inlinePolicies from './policies/inline-policies.ts';
import * as managedPolicies from './policies/managed-policies.ts';
import * as simulations from './policies/simulate.ts';
import * as sts from './sts.ts';

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
