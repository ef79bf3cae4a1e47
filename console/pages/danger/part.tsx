/** A part of the danger zone: what it does, its button, and below them how far it is or how it ended. */
import type { ComponentChildren } from 'preact';
import type { Answer } from '../../app/client.ts';
import { Progress } from '../../ui/progress.tsx';

interface PartProps {
  readonly title: string;
  readonly text: ComponentChildren;
  readonly action?: ComponentChildren;
  readonly children?: ComponentChildren;
}

export const Part = ({ title, text, action, children }: PartProps) => (
  <section class="danger-part">
    <div class="danger-words">
      <h2>{title}</h2>
      <p class="quiet">{text}</p>
    </div>
    {action}
    {children !== undefined && <div class="danger-state stack">{children}</div>}
  </section>
);

export type Task = Answer<'ListTasks'>['tasks'][number];

interface TaskProgressProps {
  readonly label: string;
  readonly task: Task;
}

/** By bytes where the task counts them. */
export function TaskProgress({
  label,
  task: { done, left, perSecond, etaSeconds, state, why, lastError },
}: TaskProgressProps) {
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
      {why !== undefined && (
        <p class="quiet" dir="auto">
          {why}
        </p>
      )}
      {lastError !== undefined && (
        <p class="fault" dir="auto">
          {lastError.message}
        </p>
      )}
    </>
  );
}
