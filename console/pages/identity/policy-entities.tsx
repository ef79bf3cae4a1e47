/** Who has a managed policy: users, groups and roles with links to them, and what a detachment concerns, in numbers. */
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdminPages, useChange } from '../../app/queries.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Partial, Reading } from '../../ui/states.tsx';
import { Count } from '../../ui/values.tsx';
import { may, Part, type TabProps } from './frame.tsx';
import { w } from './words.ts';

type Entity = Answer<'ListIamPolicyEntities'>['rows'][number];

/** The tab of Identity that shows a kind. */
const tabOf = { user: 'users', group: 'groups', role: 'roles' } as const;

interface EntitiesProps extends TabProps {
  readonly policy: string;
  readonly arn: string;
}

export function PolicyEntities({ account, policy, arn, allowed }: EntitiesProps) {
  const isAllowed = may(allowed, 'ListIamPolicyEntities');
  const list = useAdminPages(
    'ListIamPolicyEntities',
    { path: { account, policy } },
    { rowsOf: ({ rows }) => rows, enabled: isAllowed },
  );
  const detach = useChange('DetachIamPolicy', [
    ...(['ListIamPolicyEntities', 'ListIamPolicies', 'GetIamPolicy'] as const),
    ...(['GetIamUser', 'GetIamGroup', 'GetIamRole'] as const),
  ]);
  if (!isAllowed) return null;
  return (
    <Part title={w.usedBy}>
      <Reading query={{ data: list.rows, error: list.error, refetch: list.refetch }} rows={2}>
        {(rows) => (
          <>
            <p class="quiet">{rows.length === 0 ? w.unused : describe(rows, list.more.has)}</p>
            <ul class="entry-list">
              {rows.toSorted(byKindAndName).map((row) => (
                <li key={`${row.kind}/${row.name}/${row.use}`}>
                  <PageLink
                    page="identity"
                    params={{ _splat: tabOf[row.kind] }}
                    search={{ account, open: row.name }}
                    class="cut"
                    title={row.arn}
                  >
                    {row.name}
                  </PageLink>
                  <span class="key-actions">
                    <span class="quiet">
                      {w.kinds[row.kind]}
                      {row.users !== undefined && ` · ${w.usersIn(row.users)}`}
                    </span>
                    {row.use === 'boundary' ? (
                      <Chip tone="neutral">{w.boundary}</Chip>
                    ) : (
                      may(allowed, 'DetachIamPolicy') && (
                        <ConfirmButton
                          kind="link"
                          action={w.detach}
                          title={w.detachAsk(policy, row.name)}
                          text={w.detachText[row.kind]}
                          impact={impactOf(row, rows.length - 1)}
                          onConfirm={() =>
                            detach.mutateAsync({
                              path: { account },
                              body: { kind: row.kind, name: row.name, policy: arn },
                            })
                          }
                        />
                      )
                    )}
                  </span>
                </li>
              ))}
            </ul>
            {list.more.has && <Partial shown={rows.length} busy={list.more.busy} onMore={list.more.load} />}
          </>
        )}
      </Reading>
    </Part>
  );
}

/** Pages come in the order of ids. */
const byKindAndName = (a: Entity, b: Entity): number =>
  b.kind.localeCompare(a.kind) || a.name.localeCompare(b.name);

const impactOf = ({ users }: Entity, left: number) => [
  ...(users === undefined ? [] : [[w.usersOf, <Count key="users" value={users} />] as const]),
  [w.usesLeft, <Count key="left" value={left} />] as const,
];

/** "Attached to 2 users and 1 group with 12 users. The boundary of 1 role." */
function describe(rows: readonly Entity[], hasMore: boolean): string {
  const count = (kind: Entity['kind']) =>
    rows.filter((row) => row.kind === kind && row.use === 'policy').length;
  const inGroups = rows.reduce((sum, { users = 0 }) => sum + users, 0);
  const attached = w.attachedTo({
    users: count('user'),
    groups: count('group'),
    inGroups,
    roles: count('role'),
  });
  const boundaries = rows.filter(({ use }) => use === 'boundary').length;
  const text = [attached, boundaries === 0 ? '' : w.boundaryOf(boundaries)].filter(Boolean).join(' ');
  return hasMore ? w.firstOf(rows.length, text) : text;
}
