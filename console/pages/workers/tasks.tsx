/** Long tasks that run or wait: a bar for each, and why one does not go on. Nothing where there are none. */
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Card } from '../../ui/tabs.tsx';
import { type Task, TaskProgress } from './task-progress.tsx';
import { w } from './words.ts';

const idleMs = 30_000;
const busyMs = 5_000;

const tones: Readonly<Record<Task['state'], Tone>> = {
  running: 'accent',
  waiting: 'warn',
  paused: 'warn',
  done: 'good',
  failed: 'bad',
};

const pace = (found: Answer<'ListTasks'> | undefined) => (found?.tasks.length ? busyMs : idleMs);

export function Tasks() {
  const tasks = useAdmin('ListTasks', { query: { state: 'active' } }, { everyMs: pace });
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

function TaskRow({ task }: { readonly task: Task }) {
  const { kind, bucket, cluster, state, why } = task;
  const label = [w.kinds[kind], bucket ?? cluster].filter((part) => part !== undefined).join(' ');
  return (
    <TaskProgress label={label} task={task}>
      <p class="quiet">
        <Chip tone={tones[state]}>{w.taskStates[state]}</Chip> {why !== undefined && <bdi>{why}</bdi>}
      </p>
    </TaskProgress>
  );
}
