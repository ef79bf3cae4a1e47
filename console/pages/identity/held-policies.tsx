/** The policies of a user, group or role: managed ones that are attached, and those that are a part of it. */
import { useState } from 'preact/hooks';
import type { Allowed } from '../../app/allowed.ts';
import { type AdminOperationName, call, isMissing } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Button, Form, SelectField, TextField } from '../../ui/form.tsx';
import { Stale, useStaleCheck } from '../../ui/stale.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { formatPolicy, inline } from '../why/policies.ts';
import { allowOf, DocumentField, readActions } from './document.tsx';
import { may, Part } from './frame.tsx';
import { w } from './words.ts';

type Kind = 'user' | 'group' | 'role';

const readers = { user: 'GetIamUser', group: 'GetIamGroup', role: 'GetIamRole' } as const;

/** What an attachment changes of the policy. */
const policyReaders = ['ListIamPolicies', 'GetIamPolicy', 'ListIamPolicyEntities'] as const;

/** For `useAllowed`. */
export const policyOperations = [
  'AttachIamPolicy',
  'DetachIamPolicy',
  'ListIamPolicies',
  'ListIamPolicyEntities',
  ...Object.values(inline).flatMap(({ get, put, remove }) => [get, put, remove]),
] as const satisfies readonly AdminOperationName[];

interface HeldProps {
  readonly account: string;
  readonly kind: Kind;
  readonly name: string;
  readonly policies: readonly string[];
  readonly inlinePolicies: readonly string[];
  /** How many users of a group the policies hold for. */
  readonly users?: string;
  readonly allowed: Allowed;
}

export function HeldPolicies(props: HeldProps) {
  const { account, kind, name, policies, inlinePolicies, users, allowed } = props;
  const [editing, setEditing] = useState<string>();
  const detach = useChange('DetachIamPolicy', [readers[kind], ...policyReaders]);
  const operations = inline[kind];
  // The casts below: the operations of the three kinds differ in the name of one parameter.
  const remove = useChange(operations.remove as 'DeleteIamUserInlinePolicy', [readers[kind]]);
  const mayPut = may(allowed, operations.put);
  const impact = [
    ...(users === undefined ? [] : [[w.usersOf, users] as const]),
    [w.policiesLeft, String(policies.length + inlinePolicies.length - 1)] as const,
  ];
  return (
    <Part title={w.policies}>
      {policies.length + inlinePolicies.length === 0 && <p class="quiet">{w.noPolicies}</p>}
      <ul class="entry-list">
        {policies.map((arn) => (
          <li key={arn}>
            <PolicyName account={account} arn={arn} isLink={may(allowed, 'GetIamPolicy')} />
            <span class="key-actions">
              <span class="quiet">{w.attached}</span>
              {may(allowed, 'DetachIamPolicy') && (
                <ConfirmButton
                  kind="link"
                  action={w.detach}
                  title={w.detachAsk(nameIn(arn), name)}
                  text={w.detachText[kind]}
                  impact={impact}
                  onConfirm={() =>
                    detach.mutateAsync({ path: { account }, body: { kind, name, policy: arn } })
                  }
                />
              )}
            </span>
          </li>
        ))}
        {inlinePolicies.map((policy) => (
          <li key={`inline/${policy}`}>
            <span class="code cut" dir="auto" title={policy}>
              {policy}
            </span>
            <span class="key-actions">
              <span class="quiet">{w.inline}</span>
              {may(allowed, operations.get) && (
                <Button kind="link" onClick={() => setEditing(policy)}>
                  {mayPut ? w.edit : w.document}
                </Button>
              )}
              {may(allowed, operations.remove) && (
                <ConfirmButton
                  kind="link"
                  action={w.remove}
                  title={w.removeAsk(policy)}
                  text={w.detachText[kind]}
                  impact={impact}
                  isReversible={false}
                  onConfirm={() => remove.mutateAsync({ path: { account, [kind]: name, policy } as never })}
                />
              )}
            </span>
          </li>
        ))}
      </ul>
      {may(allowed, 'AttachIamPolicy') && may(allowed, 'ListIamPolicies') && <Attach {...props} />}
      {editing !== undefined ? (
        <InlineEditor
          key={editing}
          {...props}
          policy={editing}
          mayPut={mayPut}
          onClose={() => setEditing(undefined)}
        />
      ) : (
        mayPut && (
          <div class="actions">
            <Button icon="plus" onClick={() => setEditing('')}>
              {w.addInline}
            </Button>
          </div>
        )
      )}
    </Part>
  );
}

const nameIn = (arn: string): string => arn.split('/').at(-1) ?? arn;

interface PolicyNameProps {
  readonly account: string;
  readonly arn: string;
  readonly isLink: boolean;
}

/** A policy of the account is a link to it; a built-in one has no page. */
const PolicyName = ({ account, arn, isLink }: PolicyNameProps) =>
  isLink && arn.split(':')[4] === account ? (
    <PageLink
      page="identity"
      params={{ _splat: 'policies' }}
      search={{ account, open: nameIn(arn) }}
      class="code cut"
      title={arn}
    >
      {nameIn(arn)}
    </PageLink>
  ) : (
    <span class="code cut" dir="auto" title={arn}>
      {nameIn(arn)}
    </span>
  );

/** The managed policies of the account, as choices by their ARN. */
export function usePolicyChoices(account: string, isEnabled: boolean, without: readonly string[] = []) {
  const { data } = useAdmin('ListIamPolicies', { path: { account } }, { enabled: isEnabled });
  return (data?.rows ?? [])
    .filter(({ arn }) => !without.includes(arn))
    .map(({ arn, name }) => [arn, name] as const);
}

function Attach({ account, kind, name, policies }: HeldProps) {
  const [arn, setArn] = useState('');
  const attach = useChange('AttachIamPolicy', [readers[kind], ...policyReaders]);
  const choices = usePolicyChoices(account, true, policies);
  if (choices.length === 0) return null;
  return (
    <Form
      submit={w.attach}
      disabled={arn === ''}
      onSubmit={async () => {
        await attach.mutateAsync({ path: { account }, body: { kind, name, policy: arn } });
        setArn('');
      }}
    >
      {() => (
        <SelectField
          label={w.policy}
          value={arn}
          options={[['', w.chooseOne], ...choices]}
          onChange={setArn}
        />
      )}
    </Form>
  );
}

interface InlineEditorProps extends HeldProps {
  /** '' for a new one. */
  readonly policy: string;
  readonly mayPut: boolean;
  readonly onClose: () => void;
}

function InlineEditor({ account, kind, name, policy, mayPut, allowed, onClose }: InlineEditorProps) {
  const operations = inline[kind];
  const mayGet = may(allowed, operations.get);
  const [newName, setNewName] = useState(policy);
  const [text, setText] = useState<string | undefined>(policy === '' ? allowOf(readActions, '') : undefined);
  const pathOf = (of: string) => ({ account, [kind]: name, policy: of }) as never;
  const stored = useAdmin(
    operations.get as 'GetIamUserInlinePolicy',
    { path: pathOf(policy) },
    { enabled: policy !== '' },
  );
  const put = useChange(operations.put as 'PutIamUserInlinePolicy', [readers[kind], operations.get]);
  const check = useStaleCheck(
    stored.data === undefined ? '' : formatPolicy(stored.data.document),
    text !== undefined,
  );
  /** '' where the name is free. */
  const readStored = async (): Promise<string> => {
    try {
      const ask = { path: pathOf(newName) };
      return formatPolicy((await call(operations.get as 'GetIamUserInlinePolicy', ask)).document);
    } catch (cause) {
      if (isMissing(cause)) return '';
      throw cause;
    }
  };
  const current = text ?? (stored.data && formatPolicy(stored.data.document));
  if (current === undefined) return stored.error ? <Failure error={stored.error} /> : <Skeleton rows={4} />;
  if (!mayPut) return <DocumentField label={policy} value={current} onChange={undefined} />;
  return (
    <Form
      submit={t.ui.save}
      disabled={newName === ''}
      onCancel={onClose}
      onSubmit={async () => {
        if (mayGet && !(await check.isCurrent(readStored))) return false;
        await put.mutateAsync({ path: pathOf(newName), body: { document: current } });
        onClose();
        return true;
      }}
    >
      {(faultOf) => (
        <>
          <TextField label={w.name} value={newName} onChange={setNewName} readonly={policy !== ''} code />
          <DocumentField value={current} onChange={setText} fault={faultOf('document')} />
          <Stale check={check} text={current} onReload={setText} />
        </>
      )}
    </Form>
  );
}
