/** Roles of an account: who may assume them, and their policies. */
import { useState } from 'preact/hooks';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { Reading } from '../../ui/states.tsx';
import { formatDuration, Time } from '../../ui/values.tsx';
import { entityColumns } from './entity-columns.tsx';
import { type CreateProps, Frame, may, type PanelProps, Part, Remove, type TabProps } from './frame.tsx';
import { formatDocument, HeldPolicies } from './held-policies.tsx';
import { w } from './words.ts';

export function Roles({ account, allowed }: TabProps) {
  const list = useAdminPages(
    'ListIamRoles',
    { path: { account } },
    { rowsOf: ({ rows }) => rows, enabled: may(allowed, 'ListIamRoles') },
  );
  const answer = list.rows && w.answer.roles(list.rows.length, account);
  return (
    <Frame
      tab="roles"
      account={account}
      allowed={allowed}
      answer={answer && <bdi>{list.hasNextPage ? w.atLeast(answer) : answer}</bdi>}
      list={list}
      columns={entityColumns}
      nameOf={({ name }) => name}
      create={may(allowed, 'CreateIamRole') ? CreateRole : undefined}
      panel={may(allowed, 'GetIamRole') ? RolePanel : undefined}
    />
  );
}

/** Everyone in the account whose own policies allow to assume the role. */
const trustOf = (account: string): string =>
  JSON.stringify(
    {
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${account}:root` }, Action: 'sts:AssumeRole' },
      ],
    },
    null,
    2,
  );

function CreateRole({ account, onClose, onDone }: CreateProps) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [trust, setTrust] = useState(() => trustOf(account));
  const create = useChange('CreateIamRole', ['ListIamRoles', 'GetAccount']);
  return (
    <Form
      submit={w.create.roles}
      disabled={name === '' || trust === ''}
      onSubmit={async () => {
        const body = { name, trust, ...(description === '' ? {} : { description }) };
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
            label={w.trust}
            value={trust}
            onChange={setTrust}
            hint={w.documentHint}
            fault={faultOf('trust')}
            lines={12}
            code
          />
        </>
      )}
    </Form>
  );
}

function RolePanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, role: name };
  const [trust, setTrust] = useState<string>();
  const found = useAdmin('GetIamRole', { path });
  const put = useChange('PutIamRole', ['GetIamRole']);
  const remove = useChange('DeleteIamRole', ['ListIamRoles', 'GetAccount']);
  return (
    <Reading query={found} rows={6}>
      {(data) => (
        <>
          <Facts
            facts={[
              [w.arn, <Copy key="arn" text={data.arn} />],
              [w.description, data.description],
              [w.sessionSeconds, formatDuration(data.sessionSeconds * 1_000)],
              [w.created, <Time key="created" at={data.created} />],
              [w.boundary, data.boundary],
            ]}
          />
          <Part title={w.trust}>
            {may(allowed, 'PutIamRole') ? (
              <Form
                submit={t.ui.save}
                disabled={trust === undefined}
                onSubmit={async () => {
                  await put.mutateAsync({ path, body: { trust: trust ?? data.trust } });
                  setTrust(undefined);
                }}
              >
                {(faultOf) => (
                  <TextField
                    label={w.document}
                    value={trust ?? formatDocument(data.trust)}
                    onChange={setTrust}
                    hint={w.documentHint}
                    fault={faultOf('trust')}
                    lines={10}
                    code
                  />
                )}
              </Form>
            ) : (
              <TextField
                label={w.document}
                value={formatDocument(data.trust)}
                onChange={() => {}}
                lines={10}
                code
                readonly
              />
            )}
          </Part>
          <HeldPolicies
            account={account}
            kind="role"
            name={name}
            policies={data.policies}
            inlinePolicies={data.inlinePolicies}
            allowed={allowed}
          />
          {may(allowed, 'DeleteIamRole') && (
            <div class="part">
              <div class="actions">
                <Remove
                  tab="roles"
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
