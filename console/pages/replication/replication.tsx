/** Replication: what waits for each destination, peers and their checks, and versions that were given up. */
import { useState } from 'preact/hooks';
import { type Allowed, useAllowed } from '../../app/allowed.ts';
import { type Answer, call } from '../../app/client.ts';
import { useAdmin, useAdminPages, useChange } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { bytesColumn, type Column } from '../../ui/short-table.tsx';
import { conditionOn } from '../../ui/stale.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Count, formatBytes, formatDuration, Time } from '../../ui/values.tsx';
import { TargetErrors, TargetState } from '../events/events.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

type Destination = Answer<'GetReplicationStatus'>['destinations'][number];
type Peer = Answer<'ListReplicationPeers'>['peers'][number];
type Failed = Answer<'ListFailedReplications'>['failed'][number];

const columns: readonly Column<Destination>[] = [
  {
    id: 'destination',
    head: w.destination,
    cell: ({ destination }) => <span class="code cut unabridged">{destination}</span>,
    value: ({ destination }) => destination,
  },
  { id: 'state', head: w.state, cell: (row) => <TargetState {...row} />, value: ({ state }) => state },
  {
    id: 'waiting',
    head: w.waiting,
    cell: ({ waiting, isCut }) => (
      <>
        {isCut && '≥ '}
        <Count value={waiting} />
      </>
    ),
    value: ({ waiting }) => waiting,
    align: 'end',
  },
  bytesColumn('bytes', { head: w.bytes, value: ({ waitingBytes }) => waitingBytes, isMinor: true }),
  {
    id: 'lag',
    head: w.lag,
    cell: ({ waiting, oldestSeconds }) => (
      <span class="wraps">{waiting === 0 ? '–' : formatDuration(oldestSeconds * 1000)}</span>
    ),
    value: ({ oldestSeconds }) => oldestSeconds,
    align: 'end',
  },
];

const peerColumns: readonly Column<Peer>[] = [
  {
    id: 'id',
    head: w.peer,
    cell: ({ id }) => <span class="code unabridged">{id}</span>,
    value: ({ id }) => id,
  },
  {
    id: 'endpoint',
    head: w.endpoint,
    cell: ({ endpoint }) => <span class="code cut">{endpoint}</span>,
    value: ({ endpoint }) => endpoint,
  },
  { id: 'region', head: w.region, cell: ({ region }) => region, isMinor: true },
  {
    id: 'changed',
    head: w.changed,
    cell: ({ changedAt }) => <Time at={changedAt} />,
    value: ({ changedAt }) => changedAt,
    isMinor: true,
  },
];

const failedColumns: readonly Column<Failed>[] = [
  { id: 'at', head: w.givenUp, cell: ({ failedAt }) => <Time at={failedAt} /> },
  {
    id: 'version',
    head: w.version,
    cell: ({ bucket, key }) => (
      <span class="code cut" dir="auto">
        {bucket}/{key}
      </span>
    ),
  },
  { id: 'to', head: w.destination, cell: ({ destination }) => destination, isMinor: true },
  {
    id: 'error',
    head: w.error,
    cell: ({ error }) => (
      <span class="cut elastic" dir="auto" title={error}>
        {error}
      </span>
    ),
  },
];

export default function ReplicationPage() {
  const allowed = useAllowed([
    'GetReplicationStatus',
    'ListReplicationPeers',
    'GetReplicationPeer',
    'CheckReplicationPeer',
    'DeleteReplicationPeer',
    'ListFailedReplications',
    'RetryFailedReplications',
  ]);
  const may = (name: Parameters<Allowed>[0]) => allowed(name) === true;
  const status = useAdmin('GetReplicationStatus', {}, { everyMs, enabled: may('GetReplicationStatus') });
  const peers = useAdmin('ListReplicationPeers', {}, { enabled: may('ListReplicationPeers') });
  const failed = useAdminPages(
    'ListFailedReplications',
    { query: { limit: 100 } },
    { rowsOf: (page) => page.failed, everyMs, enabled: may('ListFailedReplications') },
  );
  const [search, setSearch] = useSearchState();
  const open = peers.data?.peers.find(({ id }) => id === search['peer']);
  if (allowed('GetReplicationStatus') === false)
    return <Forbidden title={t.pages.replication} operation="GetReplicationStatus" />;
  return (
    <>
      <PageHead title={t.pages.replication} answer={status.data && <Answered status={status.data} />} />
      <Card title={w.destinations}>
        <Reading query={status}>
          {({ destinations }) => (
            <>
              <DataTable
                label={w.destinations}
                name="destinations-"
                columns={columns}
                rows={destinations}
                rowKey={({ destination }) => destination}
                empty={<Empty text={w.nothingWaits} />}
              />
              <TargetErrors targets={destinations.map((each) => ({ ...each, name: each.destination }))} />
            </>
          )}
        </Reading>
      </Card>
      {may('ListReplicationPeers') && (
        <Card title={w.peers}>
          <Reading query={peers}>
            {(found) => (
              <DataTable
                label={w.peers}
                name="peers-"
                columns={peerColumns}
                rows={found.peers}
                rowKey={({ id }) => id}
                linkTo={({ id }) => ({ search: { peer: id } })}
                openKey={open?.id}
                empty={<Empty text={w.noPeers} docs={w.noPeersHint} />}
              />
            )}
          </Reading>
        </Card>
      )}
      {may('ListFailedReplications') && (
        <Card
          title={w.failed}
          actions={
            failed.rows?.length ? may('RetryFailedReplications') && <RetryAll rows={failed.rows} /> : null
          }
        >
          <DataTable
            label={w.failed}
            name="failed-"
            columns={failedColumns}
            rows={failed.rows}
            error={failed.error}
            onRetry={() => failed.refetch()}
            rowKey={({ id }) => id}
            filterText={({ bucket, key, destination, error }) => `${bucket}/${key} ${destination} ${error}`}
            more={failed.more}
            empty={<Empty icon="check" text={w.noneFailed} />}
          />
        </Card>
      )}
      {open !== undefined && (
        <Panel title={open.id} onClose={() => setSearch({ peer: undefined })}>
          <PeerDetails
            key={open.id}
            peer={open}
            allowed={allowed}
            onGone={() => setSearch({ peer: undefined })}
          />
        </Panel>
      )}
    </>
  );
}

function Answered({ status }: { readonly status: Answer<'GetReplicationStatus'> }) {
  const failing = status.destinations.filter(({ state }) => state === 'failing').length;
  const bytes = status.destinations.reduce((sum, each) => sum + each.waitingBytes, 0);
  const lag = Math.max(0, ...status.destinations.map(({ oldestSeconds }) => oldestSeconds));
  if (failing > 0) return <span class="tone-bad">{w.someFail(failing)}</span>;
  if (status.destinations.length === 0) return <>{w.nothing}</>;
  return <>{bytes === 0 ? w.caughtUp : w.behind(formatBytes(bytes), formatDuration(lag * 1000))}</>;
}

function RetryAll({ rows }: { readonly rows: readonly Failed[] }) {
  const retry = useChange('RetryFailedReplications', ['ListFailedReplications', 'GetReplicationStatus']);
  return (
    <ConfirmButton
      title={`${w.retryAll}?`}
      text={w.retryText}
      action={w.retryAll}
      onConfirm={async () => {
        for (const bucket of new Set(rows.map((row) => row.bucket)))
          await retry.mutateAsync({ body: { bucket } });
      }}
    />
  );
}

interface PeerProps {
  readonly peer: Peer;
  readonly allowed: Allowed;
  readonly onGone: () => void;
}

function PeerDetails({ peer, allowed, onGone }: PeerProps) {
  const [bucket, setBucket] = useState('');
  const [found, setFound] = useState<Answer<'CheckReplicationPeer'> | undefined>();
  const remove = useChange('DeleteReplicationPeer', ['ListReplicationPeers']);
  const path = { id: peer.id };
  return (
    <>
      <Facts
        facts={[
          [
            w.endpoint,
            <span key="endpoint" class="code">
              {peer.endpoint}
            </span>,
          ],
          [w.region, peer.region],
          [w.proxy, peer.proxy],
          [w.bandwidth, peer.bandwidth !== undefined && t.ui.rate(formatBytes(peer.bandwidth))],
          [w.tls, peer.cert === undefined ? undefined : t.ui.yes],
          [w.changed, <Time key="changed" at={peer.changedAt} />],
        ]}
      />
      {allowed('CheckReplicationPeer') === true && (
        <section>
          <h3>{w.check}</h3>
          <Form
            submit={w.check}
            disabled={bucket === ''}
            onSubmit={async () => {
              setFound(undefined);
              setFound(await call('CheckReplicationPeer', { path, body: { bucket } }));
            }}
          >
            {(faultOf) => (
              <TextField
                label={w.checkBucket}
                value={bucket}
                onChange={setBucket}
                fault={faultOf('bucket')}
                code
              />
            )}
          </Form>
          {found !== undefined && (
            <ul class="plain">
              {found.steps.map(({ step, state, found: seen, advice }) => (
                <li key={step}>
                  <Chip tone={state === 'passed' ? 'good' : state === 'failed' ? 'bad' : 'neutral'}>
                    {step}
                  </Chip>{' '}
                  <span dir="auto">{seen}</span> <span class="quiet">{advice}</span>
                </li>
              ))}
            </ul>
          )}
        </section>
      )}
      {allowed('DeleteReplicationPeer') === true && (
        <div class="actions">
          <ConfirmButton
            title={w.removeAsk(peer.id)}
            text={w.removeText}
            typed={peer.id}
            action={w.remove}
            onConfirm={async () => {
              const isSame = (now: Answer<'GetReplicationPeer'>) => now.changedAt === peer.changedAt;
              const condition =
                allowed('GetReplicationPeer') === true
                  ? await conditionOn('GetReplicationPeer', { path }, { isSame, by: 'ListReplicationPeers' })
                  : {};
              await remove.mutateAsync({ path, ...condition });
              onGone();
            }}
          />
        </div>
      )}
    </>
  );
}
