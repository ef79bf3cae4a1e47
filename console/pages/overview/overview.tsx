/** Overview: is storage healthy, what does it hold, what is left to do, and what was refused last. */
import { Navigate } from '@tanstack/react-router';
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useHealth } from '../../app/health.tsx';
import { PageLink } from '../../app/page-link.tsx';
import { pathOf } from '../../app/pages.ts';
import { useAdmin } from '../../app/queries.ts';
import { useHome } from '../../app/rail.tsx';
import { t } from '../../text/text.ts';
import { type Column, ShortTable } from '../../ui/short-table.tsx';
import { ClusterState, WorkerState } from '../../ui/state-chip.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { Card, LoadingCard, PageHead } from '../../ui/tabs.tsx';
import { Bytes, Count, formatBytes, formatCount, formatDuration, Time } from '../../ui/values.tsx';
import { classWords } from '../storage/class-words.ts';
import { classColumns, classRows } from '../storage/classes.tsx';
import { currentRows, nameColumn, type Worker, workerKey } from '../workers/worker-rows.tsx';
import { Gateways } from './gateways.tsx';
import { Requests } from './requests.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
const classesEveryMs = 60_000;
const refusalsShown = 6;
const clustersShown = 8;

export default function OverviewPage() {
  const allowed = useAllowed([
    'GetStorageHealth',
    'GetStorageClasses',
    'ListClusters',
    'GetStorageData',
    'ListWorkers',
    'ListTraces',
    'GetRequestHistory',
    'GetStatus',
  ]);
  const may = (name: Parameters<typeof allowed>[0]) => allowed(name) === true;
  const health = useHealth(may('GetStorageHealth'));
  const classes = useAdmin(
    'GetStorageClasses',
    {},
    { everyMs: classesEveryMs, enabled: may('GetStorageClasses') },
  );
  const clusters = useAdmin('ListClusters', {}, { everyMs, enabled: may('ListClusters') });
  const data = useAdmin('GetStorageData', {}, { everyMs, enabled: may('GetStorageData') });
  const workers = useAdmin('ListWorkers', {}, { everyMs, enabled: may('ListWorkers') });
  const refusals = useAdmin(
    'ListTraces',
    { query: { status: '4xx', limit: refusalsShown } },
    { everyMs, enabled: may('ListTraces') },
  );
  const home = useHome();
  // The address of the console is that of this page, also for callers who may not see it.
  if (home !== undefined && home !== 'overview') return <Navigate to={pathOf(home) as '.'} replace />;
  return (
    <>
      <PageHead
        title={t.pages.overview}
        answer={<Answered health={health.data} classes={classes.data} clusters={clusters.data} />}
      />
      {allowed('GetStorageHealth') === undefined && <LoadingCard />}
      <Requests enabled={may('GetRequestHistory')} />
      <Gateways enabled={may('GetStatus')} />
      <div class="cards">
        {may('ListClusters') && (
          <Card title={w.capacity} actions={<PageLink page="clusters">{t.pages.clusters}</PageLink>}>
            <Reading query={clusters}>{(found) => <Capacity clusters={found} data={data.data} />}</Reading>
          </Card>
        )}
        {may('GetStorageClasses') && (
          <Card title={classWords.classes} actions={<PageLink page="storage">{w.storage}</PageLink>}>
            <Reading query={classes}>{(found) => <Classes classes={found} />}</Reading>
          </Card>
        )}
        {may('ListWorkers') && (
          <Card title={w.backlog} actions={<PageLink page="workers">{w.allWorkers}</PageLink>}>
            <Reading query={workers}>{(found) => <Backlog workers={found.workers} />}</Reading>
          </Card>
        )}
        {may('ListTraces') && (
          <Card title={w.refusals} actions={<PageLink page="traces">{t.pages.traces}</PageLink>}>
            <Reading query={refusals}>{(found) => <Refusals traces={found.traces} />}</Reading>
          </Card>
        )}
      </div>
    </>
  );
}

interface AnsweredProps {
  readonly health: Answer<'GetStorageHealth'> | undefined;
  readonly classes: Answer<'GetStorageClasses'> | undefined;
  readonly clusters: Answer<'ListClusters'> | undefined;
}

/** The sentence that the reader came for. */
function Answered({ health, classes, clusters }: AnsweredProps) {
  const objects = classes?.classes.reduce((sum, each) => sum + each.objects, 0);
  const bytes = classes?.classes.reduce((sum, each) => sum + each.bytes, 0);
  return (
    <>
      {health !== undefined &&
        (health.ok ? (
          `${w.healthy(clusters?.clusters.length ?? 1)} `
        ) : (
          <span class="tone-bad">{w.warnings(health.warnings.length)} </span>
        ))}
      {objects !== undefined && bytes !== undefined && classes?.sampledAt !== undefined && (
        <span title={t.ui.bytes(String(bytes))}>
          {w.holds(formatBytes(bytes), w.objects(objects, formatCount(objects)))}
        </span>
      )}
    </>
  );
}

interface ClusterRow {
  readonly id: string;
  readonly state: string;
  readonly weight: number;
  readonly used: number | undefined;
  readonly free: number | undefined;
}

const sizeOrUnknown = (bytes: number | undefined) =>
  bytes === undefined ? <span class="quiet">{w.unknown}</span> : <Bytes value={bytes} />;

const clusterColumns: readonly Column<ClusterRow>[] = [
  { id: 'id', head: w.cluster, cell: ({ id }) => <span class="unabridged">{id}</span> },
  {
    id: 'state',
    head: w.state,
    cell: ({ state }) => <ClusterState state={state} />,
    isMinor: true,
  },
  {
    id: 'weight',
    head: w.weight,
    align: 'end',
    cell: ({ weight }) => <Count value={weight} />,
    isMinor: true,
  },
  { id: 'used', head: w.used, align: 'end', cell: ({ used }) => sizeOrUnknown(used) },
  { id: 'free', head: w.free, align: 'end', cell: ({ free }) => sizeOrUnknown(free) },
];

/** Sorts clusters that take no writes first, then the fullest. */
const compareClusters = (one: ClusterRow, other: ClusterRow): number =>
  Number(one.state === 'live') - Number(other.state === 'live') || fullness(other) - fullness(one);
const fullness = ({ used, free }: ClusterRow): number =>
  used === undefined || free === undefined ? 0 : used / Math.max(1, used + free);

function Capacity({
  clusters,
  data,
}: {
  readonly clusters: Answer<'ListClusters'>;
  readonly data: Answer<'GetStorageData'> | undefined;
}) {
  const rows = clusters.clusters.map(({ id, state, weight }) => {
    const pools = data?.pools.filter(({ cluster }) => cluster === id) ?? [];
    // Pools of one cluster share its free space.
    const free = pools.flatMap(({ BytesFree }) => BytesFree ?? []);
    return {
      ...{ id, state, weight },
      used: pools.length === 0 ? undefined : pools.reduce((sum, { BytesUsed }) => sum + BytesUsed, 0),
      free: free.length === 0 ? undefined : Math.max(...free),
    };
  });
  const shown = rows.toSorted(compareClusters).slice(0, clustersShown);
  return (
    <>
      <ShortTable label={w.capacity} columns={clusterColumns} rows={shown} rowKey={({ id }) => id} />
      {rows.length > shown.length && (
        <p class="quiet card-line foot">{w.moreClusters(rows.length - shown.length)}</p>
      )}
    </>
  );
}

function Classes({ classes }: { readonly classes: Answer<'GetStorageClasses'> }) {
  const rows = classRows(classes);
  if (rows.length === 0)
    return <Empty text={classes.sampledAt === undefined ? classWords.notSampled : classWords.noClasses} />;
  return (
    <ShortTable label={classWords.classes} columns={classColumns} rows={rows} rowKey={(row) => row.class} />
  );
}

const workerColumns: readonly Column<Worker>[] = [
  {
    id: 'state',
    head: w.state,
    cell: ({ state, lastError }) => <WorkerState state={state} title={lastError?.message} />,
  },
  {
    id: 'left',
    head: w.left,
    align: 'end',
    cell: ({ progress }) => (progress?.backlog === undefined ? '–' : <Count value={progress.backlog} />),
  },
  {
    id: 'eta',
    head: w.eta,
    align: 'end',
    cell: ({ progress }) =>
      progress?.etaSeconds === undefined ? '–' : formatDuration(progress.etaSeconds * 1000),
  },
];

/** Workers that have something left, or a problem. */
function Backlog({ workers }: { readonly workers: readonly Worker[] }) {
  const rows = currentRows(workers).filter(
    ({ state, progress }) => /failing|silent|busy/.test(state) || (progress?.backlog ?? 0) > 0,
  );
  if (rows.length === 0) return <Empty icon="check" text={w.idle} />;
  const columns = [nameColumn(w.worker, rows), ...workerColumns];
  return <ShortTable label={w.backlog} columns={columns} rows={rows} rowKey={workerKey} />;
}

type Refusal = Answer<'ListTraces'>['traces'][number];

const refusalColumns: readonly Column<Refusal>[] = [
  { id: 'time', head: w.time, cell: ({ startedAt }) => <Time at={startedAt} />, isMinor: true },
  {
    id: 'operation',
    head: w.operation,
    cell: ({ operation, requestId }) => (
      <PageLink page="trace" params={{ trace: requestId }}>
        {operation}
      </PageLink>
    ),
  },
  {
    id: 'place',
    head: w.place,
    cell: ({ bucket, key }) => <bdi class="cut">{key === '' ? bucket : `${bucket}/${key}`}</bdi>,
    isMinor: true,
  },
  {
    id: 'code',
    head: w.code,
    cell: ({ code, status }) => (
      <span class="code" title={code}>
        {code ?? status}
      </span>
    ),
  },
];

const Refusals = ({ traces }: { readonly traces: readonly Refusal[] }) =>
  traces.length === 0 ? (
    <Empty icon="check" text={w.noRefusals} />
  ) : (
    <ShortTable
      label={w.refusals}
      columns={refusalColumns}
      rows={traces}
      rowKey={({ requestId }) => requestId}
    />
  );
