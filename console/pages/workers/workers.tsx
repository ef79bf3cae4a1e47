/** Workers: who leads each, what it did last, what is left, and the last error; long tasks, and how far they are. */
import { type Allowed, useAllowed } from '../../app/allowed.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Copy } from '../../ui/copy.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { type Column, countColumn } from '../../ui/short-table.tsx';
import { WorkerState } from '../../ui/state-chip.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Count, Duration, formatCount, formatDuration, Time } from '../../ui/values.tsx';
import { Controls } from './controls.tsx';
import { Tasks } from './tasks.tsx';
import { w } from './words.ts';
import { currentRows, nameColumn, type Worker, workerKey } from './worker-rows.tsx';

const everyMs = 30_000;

const columns: readonly Column<Worker>[] = [
  {
    id: 'state',
    head: w.state,
    cell: ({ state }) => <WorkerState state={state} />,
    value: ({ state }) => state,
  },
  {
    id: 'beat',
    head: w.heartbeat,
    cell: ({ beatAt }) => (beatAt === undefined ? t.ui.never : <Time at={beatAt * 1000} />),
    value: ({ beatAt = 0 }) => -beatAt,
    isMinor: true,
  },
  {
    id: 'last',
    head: w.lastUnit,
    cell: ({ lastUnit }) => (lastUnit === undefined ? '–' : <Time at={lastUnit.endedAt * 1000} />),
    value: ({ lastUnit }) => -(lastUnit?.endedAt ?? 0),
    isWideOnly: true,
  },
  {
    id: 'backlog',
    head: w.backlog,
    cell: ({ progress }) => <Backlog progress={progress} />,
    value: ({ progress }) => progress?.backlog ?? -1,
    align: 'end',
  },
  {
    id: 'eta',
    head: w.eta,
    cell: ({ progress }) =>
      progress?.etaSeconds === undefined ? '–' : <Duration ms={progress.etaSeconds * 1000} />,
    value: ({ progress }) => progress?.etaSeconds ?? -1,
    align: 'end',
    isMinor: true,
  },
  countColumn('failures', { head: w.failures, value: ({ failures = 0 }) => failures, isMinor: true }),
];

function Backlog({ progress }: Pick<Worker, 'progress'>) {
  if (progress?.backlog === undefined) return <>–</>;
  return (
    <span class="number">
      {progress.isBacklogCut === true ? '≥ ' : ''}
      {formatCount(progress.backlog)} <span class="quiet">{w.counted[progress.of] ?? progress.of}</span>
    </span>
  );
}

export default function WorkersPage() {
  const allowed = useAllowed(['ListWorkers', 'ListTasks', 'RunWorker', 'PauseWorker', 'ResumeWorker']);
  const workers = useAdmin('ListWorkers', {}, { everyMs, enabled: allowed('ListWorkers') === true });
  const [search, setSearch] = useSearchState();
  const rows = workers.data && currentRows(workers.data.workers);
  const named = rows?.filter(({ worker }) => worker === search['worker']) ?? [];
  // A link from another page names no process, and an old one a process that has ended.
  const open = named.find(({ process }) => process === search['process']) ?? named[0];
  if (allowed('ListWorkers') === false) return <Forbidden title={t.pages.workers} operation="ListWorkers" />;
  return (
    <>
      <PageHead title={t.pages.workers} answer={rows && <Answered workers={rows} />} />
      {allowed('ListTasks') === true && <Tasks />}
      <Card>
        <DataTable
          label={t.pages.workers}
          columns={[nameColumn(w.worker, rows ?? []), ...columns]}
          rows={rows}
          error={workers.error}
          onRetry={() => workers.refetch()}
          rowKey={workerKey}
          filterText={({ worker, process = '', state }) => `${worker} ${process} ${state}`}
          linkTo={({ worker, process }) => ({ search: { worker, process } })}
          openKey={open && workerKey(open)}
          empty={<Empty text={w.none} />}
        />
      </Card>
      {open !== undefined && (
        <Panel title={open.worker} onClose={() => setSearch({ worker: undefined, process: undefined })}>
          <Details worker={open} allowed={allowed} />
        </Panel>
      )}
    </>
  );
}

function Answered({ workers }: { readonly workers: readonly Worker[] }) {
  const bad = workers.filter(({ state }) => state === 'failing' || state === 'silent');
  const paused = workers.filter(({ paused: pause }) => pause !== undefined);
  if (bad.length > 0) return <span class="tone-bad">{w.someBad(countNames(bad))}</span>;
  if (paused.length > 0) return <span class="tone-warn">{w.somePaused(countNames(paused))}</span>;
  return <>{w.allWell}</>;
}

const countNames = (rows: readonly Worker[]): number => new Set(rows.map(({ worker }) => worker)).size;

const Details = ({ worker, allowed }: { readonly worker: Worker; readonly allowed: Allowed }) => {
  const {
    paused,
    runAt,
    state,
    process,
    generation,
    since,
    units = 0,
    lastUnit,
    lastError,
    progress,
  } = worker;
  return (
    <>
      <p>{w.duties[worker.worker] ?? ''}</p>
      <Controls worker={worker} allowed={allowed} />
      <Facts
        facts={[
          [w.state, <WorkerState key="state" state={state} />],
          [w.pausedSince, paused && <Time at={paused.at * 1000} />],
          [w.pausedBy, paused && <Copy text={paused.by} />],
          [w.reason, paused?.reason && <bdi>{paused.reason}</bdi>],
          [w.askedAt, runAt && <Time at={runAt * 1000} />],
          [w.process, process && <Copy text={process} />],
          [w.generation, generation],
          [w.since, since && <Time at={since * 1000} />],
          [w.units, <Count key="units" value={units} />],
          [w.took, lastUnit && <Duration ms={lastUnit.tookMs} />],
          [w.done, progress && `${formatCount(progress.done)} ${w.counted[progress.of] ?? progress.of}`],
          [w.rate, progress && progress.perSecond > 0 && t.ui.rate(formatCount(progress.perSecond))],
          [w.backlog, progress && <Backlog progress={progress} />],
          [w.oldest, progress?.oldestSeconds && formatDuration(progress.oldestSeconds * 1000)],
          [w.eta, progress?.etaSeconds && formatDuration(progress.etaSeconds * 1000)],
        ]}
      />
      {lastError !== undefined && (
        <section>
          <h3>{w.lastError}</h3>
          <p class="fault" dir="auto">
            {lastError.message}
          </p>
          <p class="quiet">
            <Time at={lastError.at * 1000} />
          </p>
        </section>
      )}
    </>
  );
};
