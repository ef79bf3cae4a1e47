/** What the background keeps of its long work, so that it goes on after a kill and reports its progress. */
import { table } from '../../ports/metadata-store.ts';

export interface TaskRow {
  /** The worker, or what else does it. */
  readonly kind: string;
  /** What it is about, such as a bucket's id; '' where there is only one. */
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
