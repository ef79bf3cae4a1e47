/** Clusters: states, weights and what they hold; a panel changes them, with the impact in numbers first. */
import { useRef, useState } from 'preact/hooks';
import { type Allowed, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Confirm, ConfirmButton } from '../../ui/confirm.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Button, Field, Form } from '../../ui/form.tsx';
import { Progress } from '../../ui/progress.tsx';
import { type Column, countColumn, ShortTable } from '../../ui/short-table.tsx';
import { conditionOn } from '../../ui/stale.tsx';
import { ClusterState, wordsOfStates } from '../../ui/state-chip.tsx';
import { Empty, Failure, Reading, Skeleton } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Bytes, formatBytes, formatCount, Time } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
/** While bytes move away from a cluster. */
const busyMs = 10_000;
const isAtRest = ({ state }: Pick<Cluster, 'state'>): boolean => state === 'live' || state === 'pending';
const pace = (found: Answer<'ListClusters'> | undefined) =>
  found === undefined || found.clusters.every(isAtRest) ? everyMs : busyMs;

type Cluster = Answer<'ListClusters'>['clusters'][number];
interface Row extends Cluster {
  readonly share: number;
  readonly used: number | undefined;
  readonly free: number | undefined;
}

const percent = (share: number): string =>
  formatNumber(share, { style: 'percent', maximumFractionDigits: 1 });

/** The share of new writes that each weight gives. */
function sharesOf(
  clusters: readonly Pick<Cluster, 'id' | 'state' | 'weight'>[],
): ReadonlyMap<string, number> {
  const live = clusters.filter(({ state }) => state === 'live');
  const sum = live.reduce((all, { weight }) => all + weight, 0);
  return new Map(live.map(({ id, weight }) => [id, sum === 0 ? 0 : weight / sum]));
}

const sizeOrUnknown = (bytes: number | undefined) =>
  bytes === undefined ? <span class="quiet">–</span> : <Bytes value={bytes} />;

const columns: readonly Column<Row>[] = [
  {
    id: 'id',
    head: w.cluster,
    cell: ({ id }) => <span class="code unabridged">{id}</span>,
    value: ({ id }) => id,
  },
  {
    id: 'state',
    head: w.state,
    cell: ({ state }) => <ClusterState state={state} />,
    value: ({ state }) => state,
  },
  countColumn('weight', { head: w.weight, value: ({ weight }) => weight, isMinor: true }),
  {
    id: 'share',
    head: w.share,
    cell: ({ share }) => <span class="number">{percent(share)}</span>,
    value: ({ share }) => share,
    align: 'end',
    isMinor: true,
  },
  {
    id: 'used',
    head: w.used,
    cell: ({ used }) => sizeOrUnknown(used),
    value: ({ used = -1 }) => used,
    align: 'end',
  },
  {
    id: 'free',
    head: w.free,
    cell: ({ free }) => sizeOrUnknown(free),
    value: ({ free = -1 }) => free,
    align: 'end',
    isMinor: true,
  },
  {
    id: 'since',
    head: w.since,
    cell: ({ since }) => (since === undefined ? <span class="quiet">–</span> : <Time at={since} />),
    value: ({ since = '' }) => since,
    align: 'end',
    isWideOnly: true,
  },
];

export default function ClustersPage() {
  const allowed = useAllowed([
    'ListClusters',
    'GetCluster',
    'GetStorageData',
    'ActivateCluster',
    'PutClusterWeight',
    'DrainCluster',
    'UndrainCluster',
    'GetDrainProgress',
    'GetDrainImpact',
  ]);
  const clusters = useAdmin('ListClusters', {}, { everyMs: pace, enabled: allowed('ListClusters') === true });
  const data = useAdmin('GetStorageData', {}, { everyMs, enabled: allowed('GetStorageData') === true });
  const [search, setSearch] = useSearchState();
  const rows = clusters.data && toRows(clusters.data.clusters, data.data);
  const open = rows?.find(({ id }) => id === search['cluster']);
  if (allowed('ListClusters') === false)
    return <Forbidden title={t.pages.clusters} operation="ListClusters" />;
  return (
    <>
      <PageHead title={t.pages.clusters} answer={rows && <Answered rows={rows} />} />
      {rows !== undefined && data.error ? (
        <Failure error={data.error} onRetry={() => data.refetch()} />
      ) : null}
      <Card>
        <DataTable
          label={t.pages.clusters}
          columns={columns}
          rows={rows}
          error={clusters.error}
          onRetry={() => clusters.refetch()}
          rowKey={({ id }) => id}
          filterText={({ id, state }) => `${id} ${state}`}
          linkTo={({ id }) => ({ search: { cluster: id } })}
          openKey={open?.id}
          empty={<Empty text={w.none} />}
        />
      </Card>
      {open !== undefined && rows !== undefined && (
        <Panel title={open.id} onClose={() => setSearch({ cluster: undefined })}>
          <Details key={open.id} cluster={open} clusters={rows} allowed={allowed} />
        </Panel>
      )}
    </>
  );
}

function toRows(clusters: readonly Cluster[], data: Answer<'GetStorageData'> | undefined): readonly Row[] {
  const shares = sharesOf(clusters);
  return clusters.map((cluster) => {
    const pools = data?.pools.filter((pool) => pool.cluster === cluster.id && pool.state !== 'error') ?? [];
    const free = pools.flatMap(({ BytesFree }) => BytesFree ?? []);
    return {
      ...cluster,
      share: shares.get(cluster.id) ?? 0,
      used: pools.length === 0 ? undefined : pools.reduce((sum, pool) => sum + pool.BytesUsed, 0),
      free: free.length === 0 ? undefined : Math.max(...free),
    };
  });
}

/** @param used bytes of the clusters that are known */
function answerOf(count: number, used: readonly number[]): string {
  const bytes = formatBytes(used.reduce((sum, each) => sum + each, 0));
  if (used.length === count) return w.holds(count, bytes);
  return used.length === 0 ? w.count(count) : w.holdsAtLeast(count, bytes);
}

function Answered({ rows }: { readonly rows: readonly Row[] }) {
  const draining = rows.filter(({ state }) => state === 'draining_readonly' || state === 'evacuating');
  const listed = rows.filter(({ state }) => state !== 'removed');
  const used = listed.flatMap((row) => row.used ?? []);
  return (
    <>
      {answerOf(listed.length, used)}
      {draining.length > 0 && ` ${w.someDrain(draining.length)}`}
    </>
  );
}

interface DetailsProps {
  readonly cluster: Row;
  readonly clusters: readonly Row[];
  readonly allowed: Allowed;
}

function Details({ cluster, clusters, allowed }: DetailsProps) {
  const { id, state, weight, share, used, free, since, listed, emptiedAt } = cluster;
  const may = (name: Parameters<Allowed>[0]) => allowed(name) === true;
  const isDraining = state === 'draining_readonly' || state === 'evacuating';
  return (
    <>
      <p class="quiet">{wordsOfStates.clusterHints[state]}</p>
      <Facts
        facts={[
          [w.state, <ClusterState key="state" state={state} />],
          [w.since, since === undefined ? undefined : <Time key="since" at={since} />],
          [w.weight, formatNumber(weight)],
          [w.share, percent(share)],
          [w.used, used === undefined ? undefined : <Bytes value={used} />],
          [w.free, free === undefined ? undefined : <Bytes value={free} />],
          [w.listed, listed ? t.ui.yes : t.ui.no],
          [w.emptied, emptiedAt && <Time at={emptiedAt} />],
        ]}
      />
      {isDraining && may('GetDrainProgress') && <Drain id={id} />}
      {(state === 'live' || state === 'pending') &&
        may(state === 'live' ? 'PutClusterWeight' : 'ActivateCluster') && (
          <Weight cluster={cluster} clusters={clusters} mayGet={may('GetCluster')} />
        )}
      <div class="actions">
        {(state === 'live' || state === 'draining_readonly') && may('DrainCluster') && (
          <DrainButtons cluster={cluster} mayGet={may('GetCluster')} mayImpact={may('GetDrainImpact')} />
        )}
        {(isDraining || state === 'damaged') && may('UndrainCluster') && (
          <Undrain cluster={cluster} mayGet={may('GetCluster')} />
        )}
      </div>
    </>
  );
}

interface ChangeProps extends Pick<DetailsProps, 'cluster'> {
  /** Whether the caller may read the cluster alone, with its ETag. */
  readonly mayGet: boolean;
}

/** The condition of a change of a cluster in the state that the page displays. */
const whileAs = async ({ id, state, weight, since }: Cluster, mayGet: boolean) =>
  // A cluster whose state is damaged has no row to compare.
  mayGet && state !== 'damaged'
    ? conditionOn(
        'GetCluster',
        { path: { id } },
        {
          isSame: (now) => now.state === state && now.weight === weight && now.since === since,
          by: 'ListClusters',
        },
      )
    : {};

/** The slider shows the shares that the new weight gives, before it is set. */
function Weight({ cluster, clusters, mayGet }: ChangeProps & Pick<DetailsProps, 'clusters'>) {
  const isPending = cluster.state === 'pending';
  const [weight, setWeight] = useState(isPending ? 100 : cluster.weight);
  /** What the page displayed when the form was opened, or edited after a change: a poll may display another state beside the form. */
  const opened = useRef<Row | undefined>(cluster);
  const edit = (next: number) => {
    opened.current ??= cluster;
    setWeight(next);
  };
  const put = useChange(isPending ? 'ActivateCluster' : 'PutClusterWeight', ['ListClusters']);
  const after = clusters.map((each) => (each.id === cluster.id ? { ...each, state: 'live', weight } : each));
  const shares = sharesOf(after);
  const max = Math.max(100, ...clusters.map((each) => each.weight)) * 2;
  return (
    <section>
      <h3>{isPending ? w.activate : w.weight}</h3>
      <Form
        submit={isPending ? w.activate : w.setWeight}
        disabled={!isPending && weight === cluster.weight}
        onSubmit={async () => {
          const condition = await whileAs(opened.current ?? cluster, mayGet).finally(() => {
            opened.current = undefined;
          });
          await put.mutateAsync({ path: { id: cluster.id }, ...condition, body: { weight } });
        }}
      >
        {(faultOf) => (
          <>
            <Field label={w.newWeight} fault={faultOf('weight')} hint={w.weightHint}>
              {(control) => (
                <span class="input-row">
                  <input
                    type="range"
                    min={0}
                    max={max}
                    value={weight}
                    aria-label={w.newWeight}
                    onInput={(event) => edit(Number(event.currentTarget.value))}
                  />
                  <input
                    {...control}
                    class="input number"
                    type="number"
                    min={0}
                    max={1_000_000}
                    value={weight}
                    onInput={(event) => edit(Number(event.currentTarget.value))}
                  />
                </span>
              )}
            </Field>
            <ShortTable
              label={w.sharesAfter}
              columns={[
                { id: 'id', head: w.cluster, cell: ({ id }) => <span class="code">{id}</span> },
                { id: 'now', head: w.now, cell: ({ share }) => percent(share), align: 'end' },
                { id: 'after', head: w.after, cell: ({ id }) => percent(shares.get(id) ?? 0), align: 'end' },
              ]}
              rows={clusters.filter(({ id, state }) => state === 'live' || id === cluster.id)}
              rowKey={({ id }) => id}
            />
          </>
        )}
      </Form>
    </section>
  );
}

function DrainButtons({ cluster, mayGet, mayImpact }: ChangeProps & { readonly mayImpact: boolean }) {
  const [mode, setMode] = useState<'readonly' | 'evacuate' | undefined>();
  const drain = useChange('DrainCluster', ['ListClusters', 'GetDrainProgress']);
  return (
    <>
      {cluster.state === 'live' && <Button onClick={() => setMode('readonly')}>{w.drain}</Button>}
      <Button onClick={() => setMode('evacuate')}>{w.evacuate}</Button>
      {mode !== undefined && (
        <Confirm
          title={mode === 'readonly' ? w.drainAsk(cluster.id) : w.evacuateAsk(cluster.id)}
          text={
            <>
              {mode === 'readonly' ? w.drainText : w.evacuateText}
              {mayImpact && <Impact id={cluster.id} />}
            </>
          }
          impact={[[w.used, sizeOrUnknown(cluster.used)]]}
          action={mode === 'readonly' ? w.drain : w.evacuate}
          onConfirm={async () => {
            const condition = await whileAs(cluster, mayGet);
            await drain.mutateAsync({ path: { id: cluster.id }, ...condition, body: { mode } });
          }}
          onClose={() => setMode(undefined)}
        />
      )}
    </>
  );
}

/** Which buckets it concerns: those that would refuse writes come first. */
function Impact({ id }: { readonly id: string }) {
  const impact = useAdminPages('GetDrainImpact', { path: { id } }, { rowsOf: ({ buckets }) => buckets });
  const rows = impact.rows;
  if (rows === undefined) return impact.error ? <Failure error={impact.error} /> : <Skeleton rows={1} />;
  const refusing = rows.filter(({ refusesWrites }) => refusesWrites);
  return (
    <span class={refusing.length > 0 ? 'fault' : 'quiet'}>
      {' '}
      {w.concerns(rows.length, impact.hasNextPage)}{' '}
      {refusing.length > 0 && (
        <>
          {w.refuse}{' '}
          <bdi>
            {refusing
              .slice(0, 5)
              .map(({ bucket }) => bucket)
              .join(', ')}
          </bdi>
          {refusing.length > 5 && ` ${w.andMore(refusing.length - 5)}`}.
        </>
      )}
    </span>
  );
}

function Undrain({ cluster, mayGet }: ChangeProps) {
  const { id } = cluster;
  const undrain = useChange('UndrainCluster', ['ListClusters']);
  return (
    <ConfirmButton
      title={w.undrainAsk(id)}
      text={w.undrainText}
      action={w.undrain}
      onConfirm={async () => undrain.mutateAsync({ path: { id }, ...(await whileAs(cluster, mayGet)) })}
    />
  );
}

function Drain({ id }: { readonly id: string }) {
  const progress = useAdmin('GetDrainProgress', { path: { id } }, { everyMs: 5_000 });
  return (
    <section>
      <h3>{w.progress}</h3>
      <Reading query={progress} rows={2}>
        {({ bytes, manifests, stuck, failed, openUploads, chunks, gcQueue, slots, slotsSeen, ...found }) => (
          <>
            <Progress label={w.counted} done={slotsSeen} total={slots} isDone={found.deregisterReady} />
            <Facts
              facts={[
                [w.left, `${formatBytes(bytes)} · ${w.versions(manifests)}`],
                [w.stuck, stuck > 0 && formatCount(stuck)],
                [w.failed, failed > 0 && formatCount(failed)],
                [w.openUploads, openUploads > 0 && formatCount(openUploads)],
                [w.chunks, chunks !== undefined && formatCount(chunks)],
                [w.gcQueue, gcQueue > 0 && formatCount(gcQueue)],
              ]}
            />
            <p class={found.deregisterReady ? 'tone-good' : 'quiet'}>
              {found.deregisterReady ? w.ready : found.reasons.join(' ')}
            </p>
          </>
        )}
      </Reading>
    </section>
  );
}
