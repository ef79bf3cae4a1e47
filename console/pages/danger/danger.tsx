/** The danger zone of a bucket: empty it, change its owner, give it more shards, delete it. */
import { useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useEffect, useState } from 'preact/hooks';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { AdminOperationName, Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { Denied } from '../../ui/forbidden.tsx';
import { Reading } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import type { Task } from '../workers/task-progress.tsx';
import { DeleteBucket } from './delete-bucket.tsx';
import { EmptyBucket } from './empty-bucket.tsx';
import { Owner } from './owner.tsx';
import { Reshard } from './reshard.tsx';

const idleMs = 30_000;
/** While a task of the bucket runs. */
const busyMs = 2_000;

const dangers = ['ForceEmptyBucket', 'PutBucketOwner', 'ReshardBucket', 'DeleteBucket'] as const;
const asked = [
  ...dangers,
  'GetBucket',
  'ListTasks',
  'GetForceEmptyBucket',
  'CancelForceEmptyBucket',
  'GetReshardBucket',
] as const;
/** Asked without the bucket. */
const askedOfAll = 'ListAccounts';
type Asked = (typeof asked)[number] | typeof askedOfAll;

export interface DangerProps {
  readonly bucket: Answer<'GetBucket'>;
  /** The long tasks of the bucket that run or wait. */
  readonly tasks: readonly Task[];
  readonly may: (name: Asked) => boolean;
}

export default function DangerPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const toAsk = (name: AdminOperationName) => (name === askedOfAll ? name : onBucket(name, bucket));
  const allowed = useAllowed([...asked.map(toAsk), askedOfAll]);
  const may = (name: Asked) => allowed(toAsk(name)) === true;
  const tasks = useTasks(bucket, may('ListTasks'));
  const found = useAdmin(
    'GetBucket',
    { path: { name: bucket } },
    { everyMs: idleMs, enabled: may('GetBucket') },
  );
  const forbidden = ['GetBucket' as const, ...dangers].filter((name) => allowed(toAsk(name)) === false);
  if (forbidden.includes('GetBucket') || forbidden.length === dangers.length)
    return <Denied action={`admin:${forbidden[0]}`} />;
  return (
    <Card class="is-danger">
      <Reading query={found} rows={4}>
        {(data) => {
          const props = { bucket: data, tasks, may };
          return (
            <div key={bucket}>
              {may('ForceEmptyBucket') && <EmptyBucket {...props} />}
              {may('PutBucketOwner') && <Owner {...props} />}
              {may('ReshardBucket') && <Reshard {...props} />}
              {may('DeleteBucket') && <DeleteBucket {...props} />}
            </div>
          );
        }}
      </Reading>
    </Card>
  );
}

/** The tasks of the bucket that have not ended: read often while there are any, and what they change is read again at their end. */
function useTasks(bucket: string, enabled: boolean): readonly Task[] {
  const client = useQueryClient();
  const [isBusy, setBusy] = useState(false);
  const list = useAdmin(
    'ListTasks',
    { query: { bucket, state: 'active' } },
    { everyMs: isBusy ? busyMs : idleMs, enabled },
  );
  const tasks = list.data?.tasks ?? [];
  const has = tasks.length > 0;
  useEffect(() => {
    if (has === isBusy) return;
    setBusy(has);
    if (has) return;
    for (const name of ['GetBucket', 'GetForceEmptyBucket', 'GetReshardBucket'])
      client.invalidateQueries({ queryKey: [name] }).catch(() => {});
  }, [has, isBusy, client]);
  return tasks;
}
