/** Gives a bucket to another account. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { Panel } from '../../ui/dialog.tsx';
import { Button, CheckField, Form, SelectField, TextField } from '../../ui/form.tsx';
import { formatBytes, formatCount } from '../../ui/values.tsx';
import type { DangerProps } from './danger.tsx';
import { Part } from './part.tsx';
import { w } from './words.ts';

type Transfer = Answer<'PutBucketOwner'> & { readonly owner: string };

export function Owner({ bucket, may }: DangerProps) {
  const [search, setSearch] = useSearchState();
  const [transfer, setTransfer] = useState<Transfer>();
  return (
    <Part
      title={w.owner}
      text={<bdi>{w.ownerNow(bucket.ownerName || bucket.owner)}</bdi>}
      action={<Button onClick={() => setSearch({ owner: '1' }, { push: true })}>{w.owner}</Button>}
    >
      {transfer !== undefined && (
        <p role="status" dir="auto">
          {w.ownerDone(transfer.owner)} {transfer.policy === 'kept' && w.policyKept}
          {transfer.policy === 'dropped' && w.policyDropped}
        </p>
      )}
      {transfer?.policyText !== undefined && <pre class="code document">{transfer.policyText}</pre>}
      {search['owner'] !== undefined && (
        <OwnerForm
          bucket={bucket}
          mayList={may('ListAccounts')}
          onDone={setTransfer}
          onClose={() => setSearch({ owner: undefined })}
        />
      )}
    </Part>
  );
}

interface OwnerFormProps extends Pick<DangerProps, 'bucket'> {
  readonly mayList: boolean;
  readonly onDone: (transfer: Transfer) => void;
  readonly onClose: () => void;
}

function OwnerForm({ bucket, mayList, onDone, onClose }: OwnerFormProps) {
  const { name, owner, ownerName, objects, bytes } = bucket;
  const [next, setNext] = useState('');
  const [isMoving, setMoving] = useState(true);
  const [isDropping, setDropping] = useState(false);
  const accounts = useAdmin('ListAccounts', { query: { limit: 1_000 } }, { enabled: mayList });
  const put = useChange('PutBucketOwner', ['GetBucket', 'ListBuckets']);
  const submit = async () => {
    const transfer = await put.mutateAsync({
      path: { name },
      query: { policy: isDropping ? 'drop' : 'keep' },
      body: { owner: next, objects: isMoving ? 'move' : 'stay' },
    });
    onDone({ ...transfer, owner: next });
    onClose();
  };
  // An account that the list does not have must be named by its id.
  const isListed = mayList && accounts.error === null && accounts.data?.next === undefined;
  return (
    <Panel title={w.owner} onClose={onClose}>
      <Form submit={w.owner} kind="danger" disabled={next === ''} onSubmit={submit} onCancel={onClose}>
        {(faultOf) => (
          <>
            <p dir="auto">{w.ownerImpact(ownerName || owner, formatCount(objects), formatBytes(bytes))}</p>
            {isListed ? (
              <SelectField
                label={w.newOwner}
                value={next}
                options={[
                  ['', '–'],
                  ...(accounts.data?.rows ?? [])
                    .filter((row) => row.account !== owner)
                    .map(({ account, displayName }) => [account, `${displayName} (${account})`] as const),
                ]}
                onChange={setNext}
                fault={faultOf('owner')}
              />
            ) : (
              <TextField
                label={w.newOwner}
                hint={w.newOwnerHint}
                value={next}
                onChange={setNext}
                fault={faultOf('owner')}
                code
              />
            )}
            <CheckField label={w.objectsToo} value={isMoving} onChange={setMoving} />
            <CheckField label={w.dropPolicy} value={isDropping} onChange={setDropping} />
          </>
        )}
      </Form>
    </Panel>
  );
}
