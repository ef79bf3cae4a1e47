/** A part of the danger zone: what it does, its button, and below them how far it is or how it ended. */
import type { ComponentChildren } from 'preact';
import { type Task, TaskProgress } from '../workers/task-progress.tsx';

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

/** The progress of a task, and why it does not go on. */
export const PartProgress = ({ label, task }: { readonly label: string; readonly task: Task }) => (
  <TaskProgress label={label} task={task}>
    {task.why !== undefined && (
      <p class="quiet" dir="auto">
        {task.why}
      </p>
    )}
  </TaskProgress>
);
