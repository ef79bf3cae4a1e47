/** Roles of an account: who may assume them, and their policies. */
import { call } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Reading } from '../../ui/states.tsx';
import { formatDuration, Time } from '../../ui/values.tsx';
import { NewDocument, StoredDocument } from './document.tsx';
import { Entities } from './entities.tsx';
import { Actions, type CreateProps, may, type PanelProps, Part, Remove, type TabProps } from './frame.tsx';
import { HeldPolicies } from './held-policies.tsx';
import { w } from './words.ts';

export const Roles = (props: TabProps) => (
  <Entities {...props} tab="roles" create={CreateRole} panel={RolePanel} />
);

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
  const create = useChange('CreateIamRole', ['ListIamRoles', 'GetAccount']);
  return (
    <NewDocument
      submit={w.create.roles}
      label={w.trust}
      field="trust"
      initial={trustOf(account)}
      onCreate={async ({ name, text, described }) => {
        await create.mutateAsync({ path: { account }, body: { name, trust: text, ...described } });
        onDone(name);
      }}
      onCancel={onClose}
    />
  );
}

function RolePanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, role: name };
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
            <StoredDocument
              stored={data.trust}
              field="trust"
              onSave={
                may(allowed, 'PutIamRole') ? (trust) => put.mutateAsync({ path, body: { trust } }) : undefined
              }
              readStored={async () => (await call('GetIamRole', { path })).trust}
            />
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
            <Actions>
              <Remove tab="roles" name={name} onRemove={() => remove.mutateAsync({ path })} onGone={onGone} />
            </Actions>
          )}
        </>
      )}
    </Reading>
  );
}
