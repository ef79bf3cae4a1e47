/** Rows of workers: one for each process that runs a worker, or has run it lately. */
import type { Answer } from '../../app/client.ts';
import type { Column } from '../../ui/short-table.tsx';

export type Worker = Answer<'ListWorkers'>['workers'][number];

export const workerKey = ({ worker, process = '' }: Worker): string => `${worker}@${process}`;

/** Without the rows of processes that have stopped, where another row says what the worker does now. */
export const currentRows = (workers: readonly Worker[]): readonly Worker[] =>
  workers.filter(
    (row) =>
      row.state !== 'stopped' || !workers.some((other) => other.worker === row.worker && isNewer(other, row)),
  );

const isNewer = (one: Worker, other: Worker): boolean =>
  one.state !== 'stopped' || (one.beatAt ?? 0) > (other.beatAt ?? 0);

/** The name of the worker, with the process where several run it: the name alone does not tell such rows apart. */
export const nameColumn = (head: string, rows: readonly Worker[]): Column<Worker> => ({
  id: 'worker',
  head,
  cell: ({ worker, process }) => (
    <span class="code">
      {worker}
      {rows.filter((row) => row.worker === worker).length > 1 && <bdi class="quiet"> {process}</bdi>}
    </span>
  ),
  value: workerKey,
});
