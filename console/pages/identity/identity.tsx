/** Identity: accounts, and the users, groups, roles and managed policies of one. Each tab has an address, `/iam/users?account=…`. */
import { useNavigate, useParams } from '@tanstack/react-router';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import type { AdminOperationName } from '../../app/client.ts';
import { pathOf } from '../../app/pages.ts';
import { Accounts } from './accounts.tsx';
import { operationsOf, type Tab, type TabProps, tabs, useAccount } from './frame.tsx';
import { Groups } from './groups.tsx';
import { policyOperations } from './held-policies.tsx';
import { Policies } from './policies.tsx';
import { Roles } from './roles.tsx';
import { mfaOperations } from './user-mfa.tsx';
import { Users } from './users.tsx';

const parts: Readonly<Record<Tab, ComponentType<TabProps>>> = {
  accounts: Accounts,
  users: Users,
  groups: Groups,
  roles: Roles,
  policies: Policies,
};

const operations: readonly AdminOperationName[] = [
  ...new Set<AdminOperationName>([
    ...Object.values(operationsOf).flatMap(({ list, create, get }) => [list, create, get]),
    ...policyOperations,
    ...mfaOperations,
    'PutAccount',
    'DeleteAccount',
    'CreateRootKey',
    'PutRootKey',
    'DeleteRootKey',
    'GetUserQuota',
    'PutUserQuota',
    'GetAccountLimit',
    'PutAccountLimit',
    'DeleteAccountLimit',
    'PutIamUser',
    'DeleteIamUser',
    'CreateIamAccessKey',
    'PutIamAccessKey',
    'DeleteIamAccessKey',
    'DeleteIamGroup',
    'PutIamGroupUser',
    'DeleteIamGroupUser',
    'PutIamRole',
    'DeleteIamRole',
    'PutIamPolicy',
    'DeleteIamPolicy',
    'ExplainDecision',
  ]),
];

const isTab = (text: string): text is Tab => (tabs as readonly string[]).includes(text);

export default function IdentityPage() {
  const { _splat = '' } = useParams({ strict: false }) as { readonly _splat?: string };
  const account = useAccount();
  const allowed = useAllowed(operations);
  const [tab = '', ...rest] = _splat.split('/');
  const first = tabs.find((each) => allowed(operationsOf[each].list) !== false) ?? 'accounts';
  const known = isTab(tab) ? tab : first;
  useRedirect({ tab: known, open: rest.join('/'), isNeeded: tab !== known || rest.length > 0 });
  const Part = parts[known];
  return <Part key={known} account={account} allowed={allowed} />;
}

interface Redirect {
  readonly tab: Tab;
  readonly open: string;
  readonly isNeeded: boolean;
}

/** `/iam` is its first tab; `/iam/users/bob`, the parent of a user's billing, is the panel of that user. */
function useRedirect({ tab, open, isNeeded }: Redirect): void {
  const navigate = useNavigate();
  useEffect(() => {
    if (!isNeeded) return;
    const search = (before: object) => ({ ...before, ...(open === '' ? {} : { open }) });
    // The casts: routes come from a table, so the compiler knows none of their paths.
    navigate({
      to: pathOf('identity') as '.',
      params: { _splat: tab } as never,
      search: search as never,
      replace: true,
    }).catch(() => {});
  }, [navigate, tab, open, isNeeded]);
}
