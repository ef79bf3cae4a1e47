/** Gives the metadata of a bucket more shards. */
import { useState } from 'preact/hooks';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Confirm } from '../../ui/confirm.tsx';
import { Button, SelectField } from '../../ui/form.tsx';
import { Failure } from '../../ui/states.tsx';
import { Bytes, Count, formatCount, Time } from '../../ui/values.tsx';
import type { DangerProps } from './danger.tsx';
import { Part, PartProgress } from './part.tsx';
import { w } from './words.ts';

/** Powers of two, as the gateway takes them. */
const counts = Array.from({ length: 17 }, (_, power) => 2 ** power);

/** A resharding may end before the list of tasks was read once, or the caller may not read that list. */
const everyMs = 30_000;

export function Reshard({ bucket: { name, objects, bytes, shards }, tasks, may }: DangerProps) {
  const larger = counts.filter((count) => count > shards);
  const [chosen, setChosen] = useState<string>();
  const [isAsking, setAsking] = useState(false);
  const reshard = useChange('ReshardBucket', ['GetReshardBucket', 'GetBucket', 'ListTasks']);
  const state = useAdmin(
    'GetReshardBucket',
    { path: { name } },
    { everyMs, enabled: may('GetReshardBucket') },
  );
  const task = tasks.find(({ kind }) => kind === 'reshard');
  const next = larger.find((count) => String(count) === chosen) ?? larger[0];
  const isRunning = task !== undefined || state.data?.state === 'running';
  const { from, to, rowsMoved = 0, why, finishedAt } = state.data ?? {};
  return (
    <Part
      title={w.reshard}
      text={w.reshardText(shards)}
      action={
        next !== undefined && !isRunning && <Button onClick={() => setAsking(true)}>{w.reshard}</Button>
      }
    >
      {task !== undefined && <PartProgress label={w.resharding} task={task} />}
      {!isRunning && finishedAt !== undefined && from !== undefined && to !== undefined && (
        <p class="quiet" dir="auto">
          {w.finished}: <Time at={finishedAt * 1_000} />. {w.resharded(from, to, formatCount(rowsMoved))}{' '}
          {why}
        </p>
      )}
      {state.error !== null && <Failure error={state.error} />}
      {isAsking && next !== undefined && (
        <Confirm
          title={w.reshardAsk(name, next)}
          text={
            <>
              {w.reshardDialog}
              <SelectField
                label={w.shards}
                value={String(next)}
                options={larger.map((count) => [String(count), formatCount(count)] as const)}
                onChange={setChosen}
              />
            </>
          }
          impact={[
            [w.objects, <Count key="objects" value={objects} />],
            [w.bytes, <Bytes key="bytes" value={bytes} />],
          ]}
          isReversible={false}
          action={w.reshard}
          onConfirm={() => reshard.mutateAsync({ path: { name }, body: { shards: next } })}
          onClose={() => setAsking(false)}
        />
      )}
    </Part>
  );
}
