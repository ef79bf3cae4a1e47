/** The list of users, groups or roles, which have the same columns. */
import type { ComponentChildren } from 'preact';
import type { Answer } from '../../app/client.ts';
import { useAdminPages } from '../../app/queries.ts';
import type { Column } from '../../ui/short-table.tsx';
import { Time } from '../../ui/values.tsx';
import { type CreateProps, Frame, may, operationsOf, type PanelProps, type TabProps } from './frame.tsx';
import { w } from './words.ts';

type Entity = Answer<'ListIamUsers'>['rows'][number];

const columns: readonly Column<Entity>[] = [
  {
    id: 'name',
    head: w.name,
    cell: ({ name }) => <span class="cut">{name}</span>,
    value: ({ name }) => name,
  },
  {
    id: 'arn',
    head: w.arn,
    cell: ({ arn }) => (
      <span class="code cut quiet" title={arn}>
        {arn}
      </span>
    ),
    value: ({ arn }) => arn,
    isMinor: true,
  },
  {
    id: 'created',
    head: w.created,
    cell: ({ created }) => <Time at={created} />,
    value: ({ created }) => created,
    align: 'end',
  },
];

interface EntitiesProps extends TabProps {
  readonly tab: 'users' | 'groups' | 'roles';
  readonly create: (props: CreateProps) => ComponentChildren;
  readonly panel: (props: PanelProps) => ComponentChildren;
}

export function Entities(props: EntitiesProps) {
  const { tab, account, allowed } = props;
  const operation = operationsOf[tab].list;
  const list = useAdminPages(
    operation,
    { path: { account } },
    { rowsOf: ({ rows }): readonly Entity[] => rows, enabled: may(allowed, operation) },
  );
  return <Frame {...props} list={list} columns={columns} nameOf={({ name }) => name} />;
}
