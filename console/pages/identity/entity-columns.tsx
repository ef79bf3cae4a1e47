/** The columns that users, groups and roles share. */
import type { Answer } from '../../app/client.ts';
import type { Column } from '../../ui/short-table.tsx';
import { Time } from '../../ui/values.tsx';
import { w } from './words.ts';

export type Entity = Answer<'ListIamUsers'>['rows'][number];

export const entityColumns: readonly Column<Entity>[] = [
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
