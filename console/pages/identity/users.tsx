/** Users of an account: a new one with its policy and key in one form; keys, policies, groups, quota; disabling and deletion. */
import { useState } from 'preact/hooks';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin, useChange } from '../../app/queries.ts';
import { AccessKeys } from '../../ui/access-keys.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { CheckField, Form, SelectField, TextField } from '../../ui/form.tsx';
import { type NewKey, SecretOnce } from '../../ui/secret-once.tsx';
import { Reading } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { allowOf, DocumentField, readActions, writeActions } from './document.tsx';
import { Entities } from './entities.tsx';
import {
  Actions,
  type CreateProps,
  may,
  type PanelProps,
  Part,
  Remove,
  StatusChip,
  Switch,
  type TabProps,
} from './frame.tsx';
import { Memberships } from './groups.tsx';
import { HeldPolicies, usePolicyChoices } from './held-policies.tsx';
import { Quota } from './numbers.tsx';
import { UserMfa } from './user-mfa.tsx';
import { w } from './words.ts';

const inlineName = 'access';
const choices = ['none', 'read', 'write', 'managed', 'document'] as const;
type Choice = (typeof choices)[number];

export const Users = (props: TabProps) => (
  <Entities {...props} tab="users" create={CreateUser} panel={UserPanel} />
);

/** What is made already is not made again where a later step was refused and the form is sent once more. */
interface Steps {
  readonly user?: true;
  readonly policy?: true;
}

function CreateUser({ account, allowed, onClose, onDone }: CreateProps) {
  const [name, setName] = useState('');
  const [choice, setChoice] = useState<Choice>('none');
  const [bucket, setBucket] = useState('');
  const [arn, setArn] = useState('');
  const [document, setDocument] = useState(() => allowOf(readActions, ''));
  const mayKey = may(allowed, 'CreateIamAccessKey');
  const [hasKey, setHasKey] = useState(mayKey);
  const [steps, setSteps] = useState<Steps>({});
  const [made, setMade] = useState<NewKey>();
  const create = useChange('CreateIamUser', ['ListIamUsers', 'GetAccount']);
  const attach = useChange('AttachIamPolicy', ['ListIamPolicies', 'GetIamUser']);
  const put = useChange('PutIamUserInlinePolicy', ['GetIamUser']);
  const createKey = useChange('CreateIamAccessKey', ['GetIamUser']);
  const mayAttach = may(allowed, 'AttachIamPolicy') && may(allowed, 'ListIamPolicies');
  const managed = usePolicyChoices(account, mayAttach);
  const offered = choices.filter(
    (each) =>
      each === 'none' ||
      (each === 'managed' ? mayAttach && managed.length > 0 : may(allowed, 'PutIamUserInlinePolicy')),
  );
  if (made !== undefined) return <SecretOnce made={made} onDone={() => onDone(name)} />;
  const givePolicy = async () => {
    if (choice === 'none') return;
    if (choice === 'managed')
      await attach.mutateAsync({ path: { account }, body: { kind: 'user', name, policy: arn } });
    else
      await put.mutateAsync({
        path: { account, user: name, policy: inlineName },
        body: {
          document:
            choice === 'document'
              ? document
              : allowOf(choice === 'read' ? readActions : writeActions, bucket),
        },
      });
  };
  const submit = async () => {
    if (steps.user === undefined) await create.mutateAsync({ path: { account }, body: { name } });
    setSteps({ user: true });
    if (steps.policy === undefined) await givePolicy();
    setSteps({ user: true, policy: true });
    if (!hasKey) return onDone(name);
    const { accessKey, secretKey } = await createKey.mutateAsync({ path: { account, user: name } });
    setMade({ accessKey, secretKey });
  };
  return (
    <Form
      submit={w.create.users}
      disabled={name === '' || (choice === 'managed' && arn === '')}
      onSubmit={submit}
      onCancel={onClose}
    >
      {(faultOf) => (
        <>
          <TextField
            label={w.name}
            value={name}
            onChange={setName}
            readonly={steps.user === true}
            fault={faultOf('name')}
            hint={steps.user === true ? w.userMade(name) : undefined}
            required
            code
          />
          <SelectField
            label={w.access}
            value={choice}
            options={offered.map((each) => [each, w.accessChoices[each]])}
            onChange={setChoice}
          />
          {(choice === 'read' || choice === 'write') && (
            <TextField label={w.bucket} value={bucket} onChange={setBucket} hint={w.bucketHint} code />
          )}
          {choice === 'managed' && (
            <SelectField
              label={w.policy}
              value={arn}
              options={[['', w.chooseOne], ...managed]}
              onChange={setArn}
            />
          )}
          {choice === 'document' && (
            <DocumentField value={document} onChange={setDocument} fault={faultOf('document')} />
          )}
          {mayKey && <CheckField label={w.withKey} value={hasKey} onChange={setHasKey} />}
        </>
      )}
    </Form>
  );
}

function UserPanel({ account, name, allowed, onGone }: PanelProps) {
  const path = { account, user: name };
  const found = useAdmin('GetIamUser', { path });
  const put = useChange('PutIamUser', ['GetIamUser', 'ListIamUsers']);
  const remove = useChange('DeleteIamUser', ['ListIamUsers', 'GetAccount']);
  const createKey = useChange('CreateIamAccessKey', ['GetIamUser']);
  const putKey = useChange('PutIamAccessKey', ['GetIamUser']);
  const removeKey = useChange('DeleteIamAccessKey', ['GetIamUser']);
  return (
    <Reading query={found} rows={6}>
      {(data) => (
        <>
          <Facts
            facts={[
              [w.status, <StatusChip key="status" status={data.status} />],
              [w.arn, <Copy key="arn" text={data.arn} />],
              [w.created, <Time key="created" at={data.created} />],
              [w.mfa, !may(allowed, 'ListIamMfaDevices') && data.mfaDevices.join(', ')],
              [w.boundary, data.boundary],
            ]}
          />
          <div class="actions">
            <PageLink page="billing" params={{ user: name }} search={{ account }} class="button">
              {w.billing}
            </PageLink>
            {may(allowed, 'ExplainDecision') && data.accessKeys[0] !== undefined && (
              <PageLink page="why" search={{ accessKey: data.accessKeys[0].accessKey }} class="button">
                {w.mayDo}
              </PageLink>
            )}
          </div>
          <Part title={w.keys}>
            <AccessKeys
              keys={data.accessKeys}
              onCreate={
                may(allowed, 'CreateIamAccessKey') ? () => createKey.mutateAsync({ path }) : undefined
              }
              onPut={
                may(allowed, 'PutIamAccessKey')
                  ? (key, status) => putKey.mutateAsync({ path: { ...path, key }, body: { status } })
                  : undefined
              }
              onRemove={
                may(allowed, 'DeleteIamAccessKey')
                  ? (key) => removeKey.mutateAsync({ path: { ...path, key } })
                  : undefined
              }
            />
          </Part>
          <HeldPolicies
            account={account}
            kind="user"
            name={name}
            policies={data.policies}
            inlinePolicies={data.inlinePolicies}
            allowed={allowed}
          />
          {may(allowed, 'ListIamMfaDevices') && <UserMfa account={account} name={name} allowed={allowed} />}
          <UserGroups account={account} name={name} allowed={allowed} groups={data.groups} />
          <Quota account={account} user={name} allowed={allowed} />
          <Actions>
            {may(allowed, 'PutIamUser') && (
              <Switch
                isOn={data.status === 'Active'}
                off={w.disable}
                ask={w.disableAsk}
                on={w.enable}
                name={name}
                text={w.disableText}
                onTurn={(isOn) => put.mutateAsync({ path, body: { status: isOn ? 'Active' : 'Disabled' } })}
              />
            )}
            {may(allowed, 'DeleteIamUser') && (
              <Remove tab="users" name={name} onRemove={() => remove.mutateAsync({ path })} onGone={onGone} />
            )}
          </Actions>
        </>
      )}
    </Reading>
  );
}

interface UserGroupsProps extends TabProps {
  readonly name: string;
  readonly groups: readonly string[];
}

function UserGroups({ account, name, allowed, groups }: UserGroupsProps) {
  const [group, setGroup] = useState('');
  const mayJoin = may(allowed, 'PutIamGroupUser') && may(allowed, 'ListIamGroups');
  const all = useAdmin('ListIamGroups', { path: { account } }, { enabled: mayJoin });
  const join = useChange('PutIamGroupUser', ['GetIamUser', 'GetIamGroup']);
  const leave = useChange('DeleteIamGroupUser', ['GetIamUser', 'GetIamGroup']);
  const others = (all.data?.rows ?? []).filter((each) => !groups.includes(each.name));
  return (
    <Part title={w.groups}>
      <Memberships
        names={groups}
        none={w.noGroups}
        error={leave.error}
        onLeave={
          may(allowed, 'DeleteIamGroupUser')
            ? (each) => leave.mutate({ path: { account, group: each, user: name } })
            : undefined
        }
      />
      {mayJoin && others.length > 0 && (
        <Form
          submit={w.join}
          disabled={group === ''}
          onSubmit={async () => {
            await join.mutateAsync({ path: { account, group, user: name } });
            setGroup('');
          }}
        >
          {() => (
            <SelectField
              label={w.inGroup}
              value={group}
              options={[['', w.chooseOne], ...others.map((each) => [each.name, each.name] as const)]}
              onChange={setGroup}
            />
          )}
        </Form>
      )}
    </Part>
  );
}
