/**
 * Deletes everything in a bucket: what it concerns in numbers and the typed name before, then progress, a button that
 * ends it, the result.
 */
import { useState } from 'preact/hooks';
import { type Answer, isMissing } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Confirm } from '../../ui/confirm.tsx';
import { Button } from '../../ui/form.tsx';
import { Failure } from '../../ui/states.tsx';
import { Bytes, Count, Time } from '../../ui/values.tsx';
import type { DangerProps } from './danger.tsx';
import { Part, PartProgress } from './part.tsx';
import { w } from './words.ts';

/** An emptying may end before the list of tasks was read once, or the caller may not read that list. */
const everyMs = 30_000;

export function EmptyBucket({ bucket, tasks, may }: DangerProps) {
  const { name, objects, bytes, countedAt, objectLock } = bucket;
  const [isAsking, setAsking] = useState(false);
  const path = { name };
  const begin = useChange('ForceEmptyBucket', ['ListTasks', 'GetForceEmptyBucket']);
  const cancel = useChange('CancelForceEmptyBucket', ['ListTasks', 'GetForceEmptyBucket', 'GetBucket']);
  const last = useAdmin('GetForceEmptyBucket', { path }, { everyMs, enabled: may('GetForceEmptyBucket') });
  const task = tasks.find(({ kind }) => kind === 'force-empty');
  // The list of tasks is read more often than the result.
  const isRunning = task !== undefined || last.data?.state === 'running';
  return (
    <Part
      title={w.empty}
      text={objectLock ? `${w.emptyText} ${w.lockText}` : w.emptyText}
      action={
        !isRunning && (
          <Button kind="danger" onClick={() => setAsking(true)}>
            {w.empty}
          </Button>
        )
      }
    >
      {task !== undefined && <PartProgress label={w.emptying} task={task} />}
      {isRunning && may('CancelForceEmptyBucket') && (
        <div class="actions">
          <Button
            busy={cancel.isPending}
            title={w.cancelling}
            onClick={() => cancel.mutateAsync({ path }).catch(() => {})}
          >
            {w.cancel}
          </Button>
        </div>
      )}
      {cancel.error !== null && <Failure error={cancel.error} />}
      {last.data?.state === 'done' && !isRunning && <Result emptying={last.data} />}
      {last.error !== null && !isMissing(last.error) && <Failure error={last.error} />}
      {isAsking && (
        <Confirm
          title={w.emptyAsk(name)}
          text={objectLock ? `${w.emptyText} ${w.lockText}` : w.emptyText}
          impact={[
            [w.objects, <Count key="objects" value={objects} />],
            [w.bytes, <Bytes key="bytes" value={bytes} />],
            [w.countedAt, <Time key="counted" at={countedAt} />],
          ]}
          typed={name}
          action={w.empty}
          onConfirm={() => begin.mutateAsync({ path })}
          onClose={() => setAsking(false)}
        />
      )}
    </Part>
  );
}

function Result({
  emptying: { deleted, kept, damaged = 0, empty, isCancelled, finishedAt },
}: {
  readonly emptying: Answer<'GetForceEmptyBucket'>;
}) {
  return (
    <p class="quiet">
      {w.finished}: {finishedAt !== undefined && <Time at={finishedAt * 1_000} />}.{' '}
      {w.emptied(deleted.versions, deleted.markers, deleted.uploads)} {kept > 0 && `${w.kept(kept)} `}
      {damaged > 0 && `${w.damaged(damaged)} `}
      {isCancelled === true && w.wasCancelled}
      {empty !== undefined && (empty ? w.isEmpty : w.isNotEmpty)}
    </p>
  );
}
