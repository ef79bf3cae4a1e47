/** Managed policies of an account: their documents, and which users, groups and roles have them. */
import { type Answer, call } from '../../app/client.ts';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { type Column, countColumn } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { Count, Time } from '../../ui/values.tsx';
import { allowOf, NewDocument, readActions, StoredDocument } from './document.tsx';
import {
  Actions,
  type CreateProps,
  Frame,
  may,
  type PanelProps,
  Part,
  Remove,
  type TabProps,
} from './frame.tsx';
import { PolicyEntities } from './policy-entities.tsx';
import { w } from './words.ts';

type Policy = Answer<'ListIamPolicies'>['rows'][number];

/** The users, groups and roles that have it, as a policy or as their boundary. */
const usesOf = ({ attachments, boundaries }: Pick<Policy, 'attachments' | 'boundaries'>): number =>
  attachments + boundaries;

const columns: readonly Column<Policy>[] = [
  {
    id: 'name',
    head: w.name,
    cell: ({ name }) => <span class="cut">{name}</span>,
    value: ({ name }) => name,
  },
  {
    id: 'description',
    head: w.description,
    cell: ({ description }) => (
      <span class="cut quiet" dir="auto" title={description}>
        {description}
      </span>
    ),
    isMinor: true,
  },
  countColumn('uses', { head: w.usedBy, value: usesOf }),
  {
    id: 'updated',
    head: w.updated,
    cell: ({ updated }) => <Time at={updated} />,
    value: ({ updated }) => updated,
    align: 'end',
    isMinor: true,
  },
];

export function Policies({ account, allowed }: TabProps) {
  const list = useAdminPages(
    'ListIamPolicies',
    { path: { account } },
    { rowsOf: ({ rows }) => rows, enabled: may(allowed, 'ListIamPolicies') },
  );
  return (
    <Frame
      tab="policies"
      account={account}
      allowed={allowed}
      list={list}
      columns={columns}
      nameOf={({ name }) => name}
      filterText={({ name, description }) => `${name} ${description}`}
      create={CreatePolicy}
      panel={PolicyPanel}
    />
  );
}

function CreatePolicy({ account, onClose, onDone }: CreateProps) {
  const create = useChange('CreateIamPolicy', ['ListIamPolicies', 'GetAccount']);
  return (
    <NewDocument
      submit={w.create.policies}
      label={w.document}
      field="document"
      initial={allowOf(readActions, '')}
      onCreate={async ({ name, text, described }) => {
        await create.mutateAsync({ path: { account }, body: { name, document: text, ...described } });
        onDone(name);
      }}
      onCancel={onClose}
    />
  );
}

function PolicyPanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, policy: name };
  const found = useAdmin('GetIamPolicy', { path });
  const put = useChange('PutIamPolicy', ['GetIamPolicy', 'ListIamPolicies']);
  const remove = useChange('DeleteIamPolicy', ['ListIamPolicies', 'GetAccount']);
  return (
    <Reading query={found} rows={6}>
      {(data) => (
        <>
          <Facts
            facts={[
              [w.arn, <Copy key="arn" text={data.arn} />],
              [w.description, data.description],
              [w.usedBy, <Count key="uses" value={usesOf(data)} />],
              [w.version, `v${data.defaultVersion}`],
              [w.updated, <Time key="updated" at={data.updated} />],
            ]}
          />
          <PolicyEntities account={account} policy={name} arn={data.arn} allowed={allowed} />
          <Part title={w.policy}>
            <StoredDocument
              stored={data.document}
              field="document"
              onSave={
                may(allowed, 'PutIamPolicy')
                  ? (document) => put.mutateAsync({ path, body: { document } })
                  : undefined
              }
              readStored={async () => (await call('GetIamPolicy', { path })).document}
            />
          </Part>
          {may(allowed, 'DeleteIamPolicy') && (
            <Actions>
              <Remove
                tab="policies"
                name={name}
                impact={[
                  [w.attachedCount, <Count key="attachments" value={data.attachments} />],
                  [w.boundaryCount, <Count key="boundaries" value={data.boundaries} />],
                ]}
                onRemove={() => remove.mutateAsync({ path })}
                onGone={onGone}
              />
            </Actions>
          )}
        </>
      )}
    </Reading>
  );
}
