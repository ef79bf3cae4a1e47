/** Accounts: what each holds, its root keys, quota and rate limits; suspension and deletion. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { AccessKeys } from '../../ui/access-keys.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { type NewKey, SecretOnce } from '../../ui/secret-once.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Reading } from '../../ui/states.tsx';
import { Bytes, Count } from '../../ui/values.tsx';
import {
  Actions,
  type CreateProps,
  Frame,
  may,
  type PanelProps,
  Part,
  Remove,
  StatusChip,
  Switch,
  type TabProps,
} from './frame.tsx';
import { Limits, Quota } from './numbers.tsx';
import { w } from './words.ts';

type Account = Answer<'ListAccounts'>['rows'][number];

const columns: readonly Column<Account>[] = [
  {
    id: 'account',
    head: w.account,
    cell: ({ account }) => <span class="code cut">{account}</span>,
    value: ({ account }) => account,
  },
  {
    id: 'displayName',
    head: w.displayName,
    cell: ({ displayName }) => (
      <div class="cut" dir="auto" title={displayName}>
        {displayName}
      </div>
    ),
    value: ({ displayName }) => displayName,
    isMinor: true,
  },
  {
    id: 'email',
    head: w.email,
    cell: ({ email = '–' }) => (
      <div class="cut" dir="auto" title={email}>
        {email}
      </div>
    ),
    value: ({ email = '' }) => email,
    isMinor: true,
  },
  {
    id: 'status',
    head: w.status,
    cell: ({ status }) => <StatusChip status={status} />,
    value: ({ status }) => status,
  },
  {
    id: 'origin',
    head: w.origin,
    cell: ({ isConfigured }) => <span class="quiet">{isConfigured ? w.configured : w.managed}</span>,
    value: ({ isConfigured }) => String(isConfigured),
    isWideOnly: true,
  },
];

export function Accounts({ account, allowed }: TabProps) {
  const list = useAdminPages(
    'ListAccounts',
    {},
    { rowsOf: ({ rows }) => rows, enabled: may(allowed, 'ListAccounts') },
  );
  return (
    <Frame
      tab="accounts"
      account={account}
      allowed={allowed}
      answerOf={(rows) =>
        w.accountsAnswer(rows.length, rows.filter(({ status }) => status === 'Suspended').length)
      }
      list={list}
      columns={columns}
      nameOf={({ account }) => account}
      filterText={({ account, displayName, email = '' }) => `${account} ${displayName} ${email}`}
      create={CreateAccount}
      panel={AccountPanel}
    />
  );
}

function CreateAccount({ onClose, onDone }: CreateProps) {
  const [account, setAccount] = useState('');
  const [displayName, setDisplayName] = useState('');
  const [email, setEmail] = useState('');
  const [made, setMade] = useState<NewKey>();
  const create = useChange('CreateAccount', ['ListAccounts']);
  if (made !== undefined) return <SecretOnce made={made} onDone={() => onDone(account)} />;
  const submit = async () => {
    const body = {
      account,
      ...(displayName === '' ? {} : { displayName }),
      ...(email === '' ? {} : { email }),
    };
    const { accessKey, secretKey } = await create.mutateAsync({ body });
    setMade({ accessKey, secretKey });
  };
  return (
    <Form submit={w.create.accounts} disabled={account === ''} onSubmit={submit} onCancel={onClose}>
      {(faultOf) => (
        <>
          <TextField
            label={w.account}
            value={account}
            onChange={setAccount}
            hint={w.accountHint}
            fault={faultOf('account')}
            required
            code
          />
          <TextField
            label={w.displayName}
            value={displayName}
            onChange={setDisplayName}
            fault={faultOf('displayName')}
          />
          <TextField label={w.email} value={email} onChange={setEmail} fault={faultOf('email')} />
        </>
      )}
    </Form>
  );
}

function AccountPanel({ name: account, allowed, onGone }: PanelProps) {
  const path = { account };
  const found = useAdmin('GetAccount', { path });
  const put = useChange('PutAccount', ['GetAccount', 'ListAccounts']);
  const remove = useChange('DeleteAccount', ['ListAccounts']);
  const createKey = useChange('CreateRootKey', ['GetAccount']);
  const putKey = useChange('PutRootKey', ['GetAccount']);
  const removeKey = useChange('DeleteRootKey', ['GetAccount']);
  return (
    <Reading query={found} rows={6}>
      {(data) => (
        <>
          <Facts
            facts={[
              [w.status, <StatusChip key="status" status={data.status} />],
              [w.displayName, data.displayName],
              [w.email, data.email],
              [w.origin, data.isConfigured ? w.configured : w.managed],
              [w.holds, <Bytes key="bytes" value={data.bytes} />],
              [w.tabs.users, <Count key="users" value={data.users} />],
              [w.tabs.groups, <Count key="groups" value={data.groups} />],
              [w.tabs.roles, <Count key="roles" value={data.roles} />],
              [w.tabs.policies, <Count key="policies" value={data.policies} />],
            ]}
          />
          <div class="actions">
            <PageLink page="identity" params={{ _splat: 'users' }} search={{ account }} class="button">
              {w.usersOf}
            </PageLink>
            <PageLink page="billing" params={{ user: account }} class="button">
              {w.billing}
            </PageLink>
          </div>
          <Part title={w.rootKeys}>
            {data.isConfigured && <p class="quiet">{w.configuredKeys}</p>}
            <AccessKeys
              keys={data.rootKeys}
              hasUse={false}
              onCreate={may(allowed, 'CreateRootKey') ? () => createKey.mutateAsync({ path }) : undefined}
              onPut={
                may(allowed, 'PutRootKey')
                  ? (key, status) => putKey.mutateAsync({ path: { account, key }, body: { status } })
                  : undefined
              }
              onRemove={
                may(allowed, 'DeleteRootKey')
                  ? (key) => removeKey.mutateAsync({ path: { account, key } })
                  : undefined
              }
            />
          </Part>
          <Quota account={account} allowed={allowed} />
          <Limits account={account} allowed={allowed} />
          <Actions>
            {may(allowed, 'PutAccount') && (
              <Switch
                isOn={data.status === 'Active'}
                off={w.suspend}
                ask={w.suspendAsk}
                on={w.activate}
                name={account}
                text={w.suspendText}
                onTurn={(isOn) => put.mutateAsync({ path, body: { status: isOn ? 'Active' : 'Suspended' } })}
              />
            )}
            {may(allowed, 'DeleteAccount') && (
              <Remove
                tab="accounts"
                name={account}
                onRemove={() => remove.mutateAsync({ path })}
                onGone={onGone}
              />
            )}
          </Actions>
        </>
      )}
    </Reading>
  );
}
