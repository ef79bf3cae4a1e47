/** How far a long task is, and its last error. */
import type { ComponentChildren } from 'preact';
import type { Answer } from '../../app/client.ts';
import { Progress } from '../../ui/progress.tsx';

export type Task = Answer<'ListTasks'>['tasks'][number];

interface TaskProgressProps {
  readonly label: string;
  readonly task: Task;
  /** Below the bar. */
  readonly children?: ComponentChildren;
}

/** By bytes where the task counts them. */
export function TaskProgress({ label, task, children }: TaskProgressProps) {
  const { done, left, perSecond, etaSeconds, state, lastError } = task;
  const isBytes = done.bytes !== undefined && done.bytes + (left?.bytes ?? 0) > 0;
  const unit = isBytes ? ('bytes' as const) : ('count' as const);
  const amount = done[unit] ?? 0;
  const rest = left?.[unit];
  return (
    <>
      <Progress
        label={label}
        unit={unit}
        done={amount}
        total={rest === undefined ? undefined : amount + rest}
        perSecond={state === 'running' ? perSecond?.[unit] : undefined}
        etaSeconds={etaSeconds}
      />
      {children}
      {lastError !== undefined && (
        <p class="fault" dir="auto">
          {lastError.message}
        </p>
      )}
    </>
  );
}
