/** Managed policies of an account: their documents, and to how many users, groups and roles they are attached. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../app/client.ts';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { Count, Time } from '../../ui/values.tsx';
import { type CreateProps, Frame, may, type PanelProps, Part, Remove, type TabProps } from './frame.tsx';
import { allowOf, formatDocument, readActions } from './held-policies.tsx';
import { w } from './words.ts';

type Policy = Answer<'ListIamPolicies'>['rows'][number];

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
  {
    id: 'attachments',
    head: w.attachments,
    cell: ({ attachments }) => <Count value={attachments} />,
    value: ({ attachments }) => attachments,
    align: 'end',
  },
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
  const answer = list.rows && w.answer.policies(list.rows.length, account);
  return (
    <Frame
      tab="policies"
      account={account}
      allowed={allowed}
      answer={answer && <bdi>{list.hasNextPage ? w.atLeast(answer) : answer}</bdi>}
      list={list}
      columns={columns}
      nameOf={({ name }) => name}
      filterText={({ name, description }) => `${name} ${description}`}
      create={may(allowed, 'CreateIamPolicy') ? CreatePolicy : undefined}
      panel={may(allowed, 'GetIamPolicy') ? PolicyPanel : undefined}
    />
  );
}

function CreatePolicy({ account, onClose, onDone }: CreateProps) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [document, setDocument] = useState(() => allowOf(readActions, ''));
  const create = useChange('CreateIamPolicy', ['ListIamPolicies', 'GetAccount']);
  return (
    <Form
      submit={w.create.policies}
      disabled={name === '' || document === ''}
      onSubmit={async () => {
        const body = { name, document, ...(description === '' ? {} : { description }) };
        await create.mutateAsync({ path: { account }, body });
        onDone(name);
      }}
      onCancel={onClose}
    >
      {(faultOf) => (
        <>
          <TextField label={w.name} value={name} onChange={setName} fault={faultOf('name')} required code />
          <TextField label={w.description} value={description} onChange={setDescription} />
          <TextField
            label={w.document}
            value={document}
            onChange={setDocument}
            hint={w.documentHint}
            fault={faultOf('document')}
            lines={14}
            code
          />
        </>
      )}
    </Form>
  );
}

function PolicyPanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, policy: name };
  const [document, setDocument] = useState<string>();
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
              [w.attachments, <Count key="attachments" value={data.attachments} />],
              [w.version, `v${data.defaultVersion}`],
              [w.updated, <Time key="updated" at={data.updated} />],
            ]}
          />
          <Part title={w.policy}>
            {may(allowed, 'PutIamPolicy') ? (
              <Form
                submit={t.ui.save}
                disabled={document === undefined}
                onSubmit={async () => {
                  await put.mutateAsync({ path, body: { document: document ?? data.document } });
                  setDocument(undefined);
                }}
              >
                {(faultOf) => (
                  <TextField
                    label={w.document}
                    value={document ?? formatDocument(data.document)}
                    onChange={setDocument}
                    hint={w.documentHint}
                    fault={faultOf('document')}
                    lines={16}
                    code
                  />
                )}
              </Form>
            ) : (
              <TextField
                label={w.document}
                value={formatDocument(data.document)}
                onChange={() => {}}
                lines={16}
                code
                readonly
              />
            )}
          </Part>
          {may(allowed, 'DeleteIamPolicy') && (
            <div class="part">
              <div class="actions">
                <Remove
                  tab="policies"
                  name={name}
                  onRemove={() => remove.mutateAsync({ path })}
                  onGone={onGone}
                />
              </div>
            </div>
          )}
        </>
      )}
    </Reading>
  );
}
