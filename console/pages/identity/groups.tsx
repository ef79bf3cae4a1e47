/** Groups of an account: their users and policies. */
import { useState } from 'preact/hooks';
import { useAdminPages, useChange } from '../../app/queries.ts';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button, Form, TextField } from '../../ui/form.tsx';
import { Failure, Partial, Reading } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { Entities } from './entities.tsx';
import { Actions, type CreateProps, may, type PanelProps, Part, Remove, type TabProps } from './frame.tsx';
import { HeldPolicies } from './held-policies.tsx';
import { w } from './words.ts';

export const Groups = (props: TabProps) => (
  <Entities {...props} tab="groups" create={CreateGroup} panel={GroupPanel} />
);

function CreateGroup({ account, onClose, onDone }: CreateProps) {
  const [name, setName] = useState('');
  const create = useChange('CreateIamGroup', ['ListIamGroups', 'GetAccount']);
  return (
    <Form
      submit={w.create.groups}
      disabled={name === ''}
      onSubmit={async () => {
        await create.mutateAsync({ path: { account }, body: { name } });
        onDone(name);
      }}
      onCancel={onClose}
    >
      {(faultOf) => (
        <TextField label={w.name} value={name} onChange={setName} fault={faultOf('name')} required code />
      )}
    </Form>
  );
}

function GroupPanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, group: name };
  const found = useAdminPages('GetIamGroup', { path }, { rowsOf: ({ users }) => users });
  const remove = useChange('DeleteIamGroup', ['ListIamGroups', 'GetAccount']);
  const head = { data: found.data?.pages[0], error: found.error, refetch: found.refetch };
  return (
    <Reading query={head} rows={6}>
      {(data) => (
        <>
          <Facts
            facts={[
              [w.arn, <Copy key="arn" text={data.arn} />],
              [w.created, <Time key="created" at={data.created} />],
            ]}
          />
          <Members account={account} name={name} allowed={allowed} users={found.rows ?? []} />
          {found.more.has && (
            <Partial shown={found.rows?.length ?? 0} busy={found.more.busy} onMore={found.more.load} />
          )}
          <HeldPolicies
            account={account}
            kind="group"
            name={name}
            policies={data.policies}
            inlinePolicies={data.inlinePolicies}
            users={`${found.more.has ? '> ' : ''}${found.rows?.length ?? 0}`}
            allowed={allowed}
          />
          {may(allowed, 'DeleteIamGroup') && (
            <Actions>
              <Remove
                tab="groups"
                name={name}
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

interface MembersProps extends TabProps {
  readonly name: string;
  readonly users: readonly string[];
}

function Members({ account, name, allowed, users }: MembersProps) {
  const [user, setUser] = useState('');
  const join = useChange('PutIamGroupUser', ['GetIamGroup', 'GetIamUser']);
  const leave = useChange('DeleteIamGroupUser', ['GetIamGroup', 'GetIamUser']);
  return (
    <Part title={w.members}>
      <Memberships
        names={users}
        none={w.noMembers}
        error={leave.error}
        onLeave={
          may(allowed, 'DeleteIamGroupUser')
            ? (each) => leave.mutate({ path: { account, group: name, user: each } })
            : undefined
        }
      />
      {may(allowed, 'PutIamGroupUser') && (
        <Form
          submit={w.addMember}
          disabled={user === ''}
          onSubmit={async () => {
            await join.mutateAsync({ path: { account, group: name, user } });
            setUser('');
          }}
        >
          {() => <TextField label={w.name} value={user} onChange={setUser} code />}
        </Form>
      )}
    </Part>
  );
}

interface MembershipsProps {
  readonly names: readonly string[];
  readonly none: string;
  readonly error: unknown;
  /** Undefined where the caller may not end one. */
  readonly onLeave: ((name: string) => void) | undefined;
}

/** The users of a group, or the groups of a user. */
export const Memberships = ({ names, none, error, onLeave }: MembershipsProps) => (
  <>
    {names.length === 0 && <p class="quiet">{none}</p>}
    <ul class="entry-list">
      {names.map((each) => (
        <li key={each}>
          <span class="code cut">{each}</span>
          {onLeave !== undefined && (
            <Button kind="link" onClick={() => onLeave(each)}>
              {w.leave}
            </Button>
          )}
        </li>
      ))}
    </ul>
    {error !== null && <Failure error={error} />}
  </>
);
