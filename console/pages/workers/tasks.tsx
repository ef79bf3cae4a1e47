/** Long tasks that run or wait: a bar for each, and why one does not go on. Nothing where there are none. */
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Progress } from '../../ui/progress.tsx';
import { Card } from '../../ui/tabs.tsx';
import { w } from './words.ts';

const everyMs = 5_000;

type Task = Answer<'ListTasks'>['tasks'][number];

const tones: Readonly<Record<Task['state'], Tone>> = {
  running: 'accent',
  waiting: 'warn',
  paused: 'warn',
  done: 'good',
  failed: 'bad',
};

export function Tasks() {
  const tasks = useAdmin('ListTasks', { query: { state: 'active' } }, { everyMs });
  const rows = tasks.data?.tasks ?? [];
  if (rows.length === 0) return null;
  return (
    <Card title={w.tasks}>
      <ul class="card-line stack">
        {rows.map((task) => (
          <li key={`${task.kind}/${task.name}`}>
            <TaskRow task={task} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** By bytes where the task counts them and they are known to the end. */
function TaskRow({ task }: { readonly task: Task }) {
  const { kind, bucket, cluster, state, why, done, left, perSecond, etaSeconds, lastError } = task;
  const isBytes = done.bytes !== undefined && (left?.bytes ?? 0) + done.bytes > 0;
  const of = isBytes ? ('bytes' as const) : ('count' as const);
  const amount = done[of] ?? 0;
  const rest = left?.[of];
  return (
    <>
      <Progress
        label={[w.kinds[kind], bucket ?? cluster].filter((part) => part !== undefined).join(' ')}
        unit={of}
        done={amount}
        total={rest === undefined ? undefined : amount + rest}
        perSecond={state === 'running' ? perSecond?.[of] : undefined}
        etaSeconds={etaSeconds}
      />
      <p class="quiet">
        <Chip tone={tones[state]}>{w.taskStates[state]}</Chip> {why !== undefined && <bdi>{why}</bdi>}
      </p>
      {lastError !== undefined && (
        <p class="fault" dir="auto">
          {lastError.message}
        </p>
      )}
    </>
  );
}
