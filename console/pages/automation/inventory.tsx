/** The inventories of a bucket: what the last run wrote, and a run on demand. */
import type { Answer } from '../../app/client.ts';
import { isMissing } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Chip } from '../../ui/chip.tsx';
import { Button } from '../../ui/form.tsx';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { Failure } from '../../ui/states.tsx';
import { formatCount, Time } from '../../ui/values.tsx';
import { everyMs, type Inventory, type PartProps, Section } from './section.tsx';
import { w } from './words.ts';

interface Row {
  readonly id: string;
  readonly bucket: string;
  readonly inventory: Inventory;
  readonly mayRead: boolean;
  readonly mayRun: boolean;
}

const columns: readonly Column<Row>[] = [
  { id: 'id', head: w.name, cell: ({ id }) => <bdi class="code">{id}</bdi> },
  {
    id: 'schedule',
    head: w.schedule,
    cell: ({ inventory }) =>
      inventory.IsEnabled === false ? <Chip>{w.disabled}</Chip> : (inventory.Schedule?.Frequency ?? '–'),
    isMinor: true,
  },
  { id: 'last', head: w.last, cell: (row) => row.mayRead && <LastRun {...row} /> },
  {
    id: 'run',
    head: () => <span class="visually-hidden">{w.runNow}</span>,
    cell: (row) => row.mayRun && <Run {...row} />,
    align: 'end',
  },
];

const toneOf = { running: 'accent', done: 'good', failed: 'bad' } as const;

function LastRun({ bucket, id }: Pick<Row, 'bucket' | 'id'>) {
  const run = useAdmin('GetBucketInventoryRun', { path: { name: bucket, id } }, { everyMs });
  if (isMissing(run.error)) return <span class="quiet">{w.notWritten}</span>;
  if (run.error) return <Failure error={run.error} />;
  return run.data === undefined ? null : <Told run={run.data} />;
}

const Told = ({
  run: { state, rows, finishedAt, failure },
}: {
  readonly run: Answer<'GetBucketInventoryRun'>;
}) => (
  <div class="run-facts">
    <Chip tone={toneOf[state]} title={failure}>
      {w.states[state]}
    </Chip>{' '}
    <span class="quiet">
      {failure === undefined ? w.written(formatCount(rows)) : (w.failures[failure] ?? failure)}
      {finishedAt !== undefined && (
        <>
          {' · '}
          <Time at={finishedAt * 1_000} />
        </>
      )}
    </span>
  </div>
);

function Run({ bucket, id }: Pick<Row, 'bucket' | 'id'>) {
  const run = useChange('RunBucketInventory', ['GetBucketInventoryRun']);
  return (
    <>
      <Button kind="link" busy={run.isPending} onClick={() => run.mutate({ path: { name: bucket, id } })}>
        {w.runNow} <span class="visually-hidden">{id}</span>
      </Button>
      {run.error && <Failure error={run.error} />}
    </>
  );
}

export function Inventories({ bucket, configurations, may }: PartProps) {
  const rows = Object.entries(configurations.inventory ?? {}).map(([id, inventory]) => ({
    id,
    bucket,
    inventory,
    mayRead: may('GetBucketInventoryRun'),
    mayRun: may('RunBucketInventory'),
  }));
  return (
    <Section
      title={w.inventory}
      bucket={bucket}
      family="inventory"
      set={rows.length === 0 ? undefined : w.inventories(rows.length)}
    >
      {rows.length > 0 && (
        <ShortTable
          label={w.inventory}
          columns={columns.filter(({ id }) => id !== 'run' || may('RunBucketInventory'))}
          rows={rows}
          rowKey={({ id }) => id}
        />
      )}
    </Section>
  );
}
