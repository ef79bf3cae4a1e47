/** The state of long background work, from which it resumes after a kill and which the operator API reports. */
import { table } from '../../ports/metadata-store.ts';

export interface TaskRow {
  /** The name of the worker or command that owns the task. */
  readonly kind: string;
  /** The subject, such as a bucket's id; '' when there is only one. */
  readonly name: string;
  readonly state: unknown;
}
export const tasks = table<TaskRow>()({
  name: 'tasks',
  kind: 'conditional',
  partition: ['kind'],
  sort: ['name'],
  columns: { kind: 'text', name: 'text', state: 'json' },
});
