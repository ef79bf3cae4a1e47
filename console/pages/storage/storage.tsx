/** Storage: metadata nodes, data pools, classes, deletions and integrity. Polled every 30 s. */
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Icon } from '../../ui/icons.tsx';
import { bytesColumn, type Column, countColumn } from '../../ui/short-table.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, LoadingCard, PageHead } from '../../ui/tabs.tsx';
import { Bytes, formatDuration, Time } from '../../ui/values.tsx';
import { classWords } from './class-words.ts';
import { classColumns, classRows } from './classes.tsx';
import { HealthHistory } from './health-history.tsx';
import { Integrity } from './integrity.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

const reads = [
  'GetStorageMeta',
  'GetStorageData',
  'GetStorageClasses',
  'GetHealthHistory',
  'GetGcBacklog',
  'GetScrub',
  'GetFsck',
] as const;

export default function StoragePage() {
  const allowed = useAllowed([...reads, 'StartScrub', 'StartFsck', 'ListTasks']);
  const meta = useAdmin('GetStorageMeta', {}, { everyMs, enabled: allowed('GetStorageMeta') === true });
  const data = useAdmin('GetStorageData', {}, { everyMs, enabled: allowed('GetStorageData') === true });
  const classes = useAdmin(
    'GetStorageClasses',
    {},
    { everyMs, enabled: allowed('GetStorageClasses') === true },
  );
  const gc = useAdmin('GetGcBacklog', {}, { everyMs, enabled: allowed('GetGcBacklog') === true });
  if (reads.every((each) => allowed(each) === false))
    return <Forbidden title={t.pages.storage} operation="GetStorageMeta" />;
  return (
    <>
      <PageHead title={t.pages.storage} answer={<Answered meta={meta.data} data={data.data} />} />
      {allowed('GetHealthHistory') === true && <HealthHistory />}
      {allowed('GetStorageMeta') === true && (
        <Card title={w.metadata}>
          <Reading query={meta}>{(found) => <Metadata meta={found} />}</Reading>
        </Card>
      )}
      {allowed('GetStorageData') === true && (
        <Card title={w.data}>
          <Reading query={data}>{(found) => <Data data={found} />}</Reading>
        </Card>
      )}
      {allowed('GetStorageClasses') === true && (
        <Card
          title={classWords.classes}
          actions={classes.data?.sampledAt !== undefined && <Sampled at={classes.data.sampledAt} />}
        >
          <Reading query={classes}>{(found) => <Classes found={found} />}</Reading>
        </Card>
      )}
      {allowed('GetGcBacklog') === true && (
        <Card title={w.deletions}>
          <Reading query={gc}>{(found) => <Deletions backlog={found} />}</Reading>
        </Card>
      )}
      {allowed('GetStorageMeta') === undefined && <LoadingCard />}
      <Integrity allowed={allowed} hasBackups={meta.data?.backend === 'embedded'} />
      <p class="quiet foot">{w.polled}</p>
    </>
  );
}

const Sampled = ({ at }: { readonly at: number }) => (
  <span class="quiet">
    {classWords.sampled} <Time at={at * 1000} />
  </span>
);

const Classes = ({ found }: { readonly found: Answer<'GetStorageClasses'> }) => (
  <DataTable
    label={classWords.classes}
    name="classes-"
    columns={classColumns}
    rows={classRows(found)}
    rowKey={(row) => row.class}
    empty={<Empty text={found.sampledAt === undefined ? classWords.notSampled : classWords.noClasses} />}
  />
);

function Answered({
  meta,
  data,
}: {
  readonly meta: Answer<'GetStorageMeta'> | undefined;
  readonly data: Answer<'GetStorageData'> | undefined;
}) {
  if (meta === undefined && data === undefined) return null;
  const warnings = (meta?.warnings.length ?? 0) + (data?.warnings.length ?? 0);
  return warnings === 0 ? w.allHealthy : <span class="tone-bad">{w.someWarnings(warnings)}</span>;
}

const Warnings = ({ warnings }: { readonly warnings: readonly string[] }) =>
  warnings.length === 0 ? null : (
    <ul class="warnings">
      {warnings.map((warning) => (
        <li key={warning}>
          <Icon name="warning" /> <span dir="auto">{warning}</span>
        </li>
      ))}
    </ul>
  );

/** Instead of a table with one row about this process. */
const InMemory = ({ title }: { readonly title: string }) => (
  <Empty icon="info" text={<strong>{title}</strong>} docs={w.memoryText} />
);

const toneOf = (state: string): Tone =>
  /^(?:ok|up|reachable|un|normal|live|active)$/i.test(state)
    ? 'good'
    : /^(?:error|down)/i.test(state)
      ? 'bad'
      : 'warn';

type MetaNode = Answer<'GetStorageMeta'>['nodes'][number];

const nodeColumns: readonly Column<MetaNode>[] = [
  {
    id: 'name',
    head: w.node,
    cell: ({ name }) => <span class="code">{name}</span>,
    value: ({ name }) => name,
  },
  {
    id: 'state',
    head: w.state,
    cell: ({ state }) => <Chip tone={toneOf(state)}>{state}</Chip>,
    value: ({ state }) => state,
  },
  {
    id: 'dc',
    head: w.dataCenter,
    cell: ({ dataCenter }) => dataCenter || '–',
    value: ({ dataCenter }) => dataCenter,
    isMinor: true,
  },
  { id: 'rack', head: w.rack, cell: ({ rack }) => rack || '–', value: ({ rack }) => rack, isMinor: true },
  {
    id: 'version',
    head: w.version,
    cell: ({ releaseVersion }) => releaseVersion || '–',
    value: ({ releaseVersion }) => releaseVersion,
  },
  {
    id: 'schema',
    head: w.schema,
    cell: ({ schemaVersion }) => <span class="code cut">{schemaVersion || '–'}</span>,
    isMinor: true,
  },
];

function Metadata({ meta }: { readonly meta: Answer<'GetStorageMeta'> }) {
  if (meta.backend === 'memory') return <InMemory title={w.memoryMetadata} />;
  return (
    <>
      <p class="quiet card-line">
        {w.backend(meta.backend)}
        {meta.replicationFactor !== undefined && ` · ${w.factor(meta.replicationFactor)}`}
      </p>
      <Warnings warnings={meta.warnings} />
      <DataTable
        label={w.metadata}
        name="nodes-"
        columns={nodeColumns}
        rows={meta.nodes}
        rowKey={({ name }) => name}
        empty={<Empty text={w.noNodes} />}
      />
    </>
  );
}

type Pool = Answer<'GetStorageData'>['pools'][number];

const poolColumns: readonly Column<Pool>[] = [
  {
    id: 'cluster',
    head: w.cluster,
    cell: ({ cluster }) => <span class="unabridged">{cluster}</span>,
    value: ({ cluster }) => cluster,
  },
  {
    id: 'pool',
    head: w.pool,
    cell: ({ pool }) => <span class="code cut">{pool || '–'}</span>,
    value: ({ pool }) => pool,
  },
  {
    id: 'namespace',
    head: w.namespace,
    cell: ({ namespace }) => <span class="code cut">{namespace || '–'}</span>,
    isMinor: true,
  },
  {
    id: 'state',
    head: w.state,
    cell: ({ state, error }) => (
      <Chip tone={toneOf(state)} title={error}>
        {state}
      </Chip>
    ),
    value: ({ state }) => state,
  },
  bytesColumn('used', { head: w.used, value: ({ BytesUsed }) => BytesUsed }),
  {
    id: 'free',
    head: w.free,
    align: 'end',
    cell: ({ BytesFree }) => (BytesFree === undefined ? '–' : <Bytes value={BytesFree} />),
    value: ({ BytesFree = -1 }) => BytesFree,
    isMinor: true,
  },
  countColumn('chunks', { head: w.chunks, value: ({ ChunkCount }) => ChunkCount, isMinor: true }),
];

function Data({ data }: { readonly data: Answer<'GetStorageData'> }) {
  if (data.backend === 'memory') return <InMemory title={w.memoryData} />;
  return (
    <>
      <p class="quiet card-line">{w.backend(data.backend)}</p>
      <Warnings warnings={data.warnings} />
      <DataTable
        label={w.data}
        name="pools-"
        columns={poolColumns}
        rows={data.pools}
        rowKey={({ cluster, pool, namespace }) => `${cluster}/${pool}/${namespace}`}
        empty={<Empty text={w.noPools} />}
      />
      {data.clusters.length > 0 && (
        <ul class="chip-list" aria-label={w.clusterStatus}>
          <li class="quiet" aria-hidden="true">
            {w.clusterStatus}
          </li>
          {data.clusters.map(({ cluster, status }) => (
            <li key={cluster}>
              <span class="quiet">{cluster}</span>{' '}
              <Chip tone={/(?:^|_)OK$/i.test(status) ? 'good' : 'warn'}>{status}</Chip>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

type GcCluster = Answer<'GetGcBacklog'>['clusters'][number];

const gcColumns: readonly Column<GcCluster>[] = [
  { id: 'cluster', head: w.cluster, cell: ({ cluster }) => cluster, value: ({ cluster }) => cluster },
  countColumn('extents', { head: w.extents, value: ({ extents }) => extents }),
  {
    id: 'oldest',
    head: w.oldest,
    align: 'end',
    cell: ({ extents, oldestSeconds }) => (extents === 0 ? '–' : formatDuration(oldestSeconds * 1000)),
    value: ({ oldestSeconds }) => oldestSeconds,
  },
];

const Deletions = ({ backlog }: { readonly backlog: Answer<'GetGcBacklog'> }) =>
  backlog.clusters.every(({ extents }) => extents === 0) ? (
    <p class="quiet card-line">{w.noDeletions}</p>
  ) : (
    <>
      <DataTable
        label={w.deletions}
        name="gc-"
        columns={gcColumns}
        rows={backlog.clusters}
        rowKey={({ cluster }) => cluster}
        empty={<Empty text={w.noDeletions} />}
      />
      {backlog.isCut && <p class="quiet card-line">{w.more}</p>}
    </>
  );
