/** The replication of a bucket: its destinations with what waits for them, what was given up, and a resync of what is stored already. */
import { type Answer, isMissing } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin, useChange } from '../../app/queries.ts';
import { Chip } from '../../ui/chip.tsx';
import { ConfirmButton } from '../../ui/confirm.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Progress } from '../../ui/progress.tsx';
import { bytesColumn, type Column, ShortTable } from '../../ui/short-table.tsx';
import { Failure } from '../../ui/states.tsx';
import { Bytes, Count, formatCount, formatDuration, Time } from '../../ui/values.tsx';
import { TargetErrors, TargetState } from '../events/events.tsx';
import { everyMs, type PartProps, type ReplicationRule, Section } from './section.tsx';
import { w } from './words.ts';

type Destination = Answer<'GetReplicationStatus'>['destinations'][number];
type Resync = Answer<'GetReplicationResync'>;

/**
 * The name of a destination in the status, from the ARN of a rule: `arn:sluice:replication::<peer>:<bucket>`, or of a
 * bucket of the default peer.
 */
export const destinationOf = (arn: string): string => {
  const [, partition, , , peer = '', bucket = ''] = arn.split(':');
  return `${partition === 'sluice' ? peer : 'default'}/${bucket}`;
};

interface Row {
  readonly name: string;
  readonly rules: readonly ReplicationRule[];
  /** Of all buckets that replicate to it; absent where nothing waits for it. */
  readonly status: Destination | undefined;
  /** Of this bucket, or of all where only that may be read. */
  readonly backlog: Backlog | undefined;
}

type Backlog = Pick<Destination, 'waiting' | 'waitingBytes' | 'oldestSeconds'>;

const nameColumns: readonly Column<Row>[] = [
  { id: 'name', head: w.destination, cell: ({ name }) => <bdi class="code cut unabridged">{name}</bdi> },
  {
    id: 'rules',
    head: w.active,
    cell: ({ rules }) => w.activeOf(rules.filter(({ Status }) => Status === 'Enabled').length, rules.length),
    isMinor: true,
  },
];

/** A peer is of all accounts, so its state is for those who may read all. */
const stateColumns: readonly Column<Row>[] = [
  {
    id: 'state',
    head: w.state,
    cell: ({ status }) => (status === undefined ? '–' : <TargetState {...status} />),
  },
];

const backlogColumns: readonly Column<Row>[] = [
  {
    id: 'waiting',
    head: w.waiting,
    cell: ({ backlog }) => <Count value={backlog?.waiting ?? 0} />,
    align: 'end',
  },
  bytesColumn('bytes', { head: w.bytes, value: ({ backlog }) => backlog?.waitingBytes ?? 0, isMinor: true }),
  {
    id: 'behind',
    head: w.behind,
    cell: ({ backlog }) => (
      <span class="wraps">
        {backlog === undefined || backlog.waiting === 0 ? '–' : formatDuration(backlog.oldestSeconds * 1_000)}
      </span>
    ),
    align: 'end',
  },
];

const columnsFor = (may: PartProps['may']): readonly Column<Row>[] => [
  ...nameColumns,
  ...(may('GetReplicationStatus') ? stateColumns : []),
  ...(may('GetBucketReplication') || may('GetReplicationStatus') ? backlogColumns : []),
];

const failedMax = 1_000;

export function Replication({ bucket, configurations, may }: PartProps) {
  const rules = configurations.replication?.Rule ?? [];
  const isSet = rules.length > 0;
  const status = useAdmin(
    'GetReplicationStatus',
    {},
    { everyMs, enabled: isSet && may('GetReplicationStatus') },
  );
  const own = useAdmin(
    'GetBucketReplication',
    { path: { name: bucket } },
    { everyMs, enabled: isSet && may('GetBucketReplication') },
  );
  const failed = useAdmin(
    'ListFailedReplications',
    { query: { bucket, limit: failedMax } },
    { everyMs, enabled: isSet && may('ListFailedReplications') },
  );
  const nameOf = ({ Destination }: ReplicationRule) => destinationOf(Destination?.Bucket ?? '');
  const rows = [...new Set(rules.map(nameOf))].map((name) => ({
    name,
    rules: rules.filter((rule) => nameOf(rule) === name),
    status: status.data?.destinations.find(({ destination }) => destination === name),
    backlog: (own.data ?? status.data)?.destinations.find(({ destination }) => destination === name),
  }));
  // What waits for a destination that fails may be given up yet.
  const isFailing = rows.some((row) => row.status?.state === 'failing');
  const ownFailures = own.data?.destinations.reduce((sum, each) => sum + each.failed, 0);
  const failures = failed.data?.failed.length ?? ownFailures ?? 0;
  const text = failed.data?.isTruncated === true ? w.atLeast(formatCount(failures)) : formatCount(failures);
  return (
    <Section
      title={w.replication}
      bucket={bucket}
      family="replication"
      set={isSet ? w.rules(rules.length) : undefined}
      actions={
        isSet && (
          <>
            {failures > 0 && may('RetryFailedReplications') && <Retry bucket={bucket} text={text} />}
            {may('GetReplicationStatus') && (
              <PageLink page="replication" class="button">
                {w.more} <span class="visually-hidden">{w.destinations}</span>
              </PageLink>
            )}
          </>
        )
      }
    >
      {isSet && (
        <>
          <ShortTable
            label={w.destinations}
            columns={columnsFor(may)}
            rows={rows}
            rowKey={({ name }) => name}
          />
          <TargetErrors
            targets={rows.flatMap(({ name, status: found }) =>
              found === undefined ? [] : [{ ...found, name }],
            )}
          />
          <div class="card-line stack">
            {(failed.data ?? own.data) !== undefined && (
              <p>
                {failures === 0 ? (
                  <Chip tone={isFailing ? 'neutral' : 'good'}>{w.noneFailed}</Chip>
                ) : (
                  <Chip tone="bad">{w.failedCount(text)}</Chip>
                )}
              </p>
            )}
            {status.error && <Failure error={status.error} />}
            {failed.error && <Failure error={failed.error} />}
            {own.error && <Failure error={own.error} />}
            {may('GetReplicationResync') ? (
              <Resyncs bucket={bucket} may={may} />
            ) : (
              own.data?.resync !== undefined && <Told resync={own.data.resync} />
            )}
          </div>
        </>
      )}
    </Section>
  );
}

function Retry({ bucket, text }: { readonly bucket: string; readonly text: string }) {
  const retry = useChange('RetryFailedReplications', [
    'ListFailedReplications',
    'GetReplicationStatus',
    'GetBucketReplication',
  ]);
  return (
    <ConfirmButton
      title={w.retryAsk(text)}
      text={w.retryText}
      action={w.retry}
      onConfirm={() => retry.mutateAsync({ body: { bucket } })}
    />
  );
}

/** A resync is watched more often while it runs. */
const runningMs = 5_000;

function Resyncs({ bucket, may }: Pick<PartProps, 'bucket' | 'may'>) {
  const path = { bucket };
  const found = useAdmin('GetReplicationResync', { path }, { everyMs: runningMs });
  const start = useChange('StartReplicationResync', ['GetReplicationResync', 'GetReplicationStatus']);
  const cancel = useChange('CancelReplicationResync', ['GetReplicationResync']);
  const about = useAdmin('GetBucket', { path: { name: bucket } }, { enabled: may('GetBucket') });
  const resync = found.data;
  const isRunning = resync?.state === 'running';
  return (
    <>
      {resync !== undefined && <Told resync={resync} />}
      {found.error !== null && !isMissing(found.error) && <Failure error={found.error} />}
      <div class="actions">
        {!isRunning && may('StartReplicationResync') && (
          <ConfirmButton
            title={w.resyncAsk(bucket)}
            text={w.resyncText}
            impact={
              about.data === undefined
                ? []
                : [
                    [w.objects, <Count key="objects" value={about.data.objects} />],
                    [w.bytes, <Bytes key="bytes" value={about.data.bytes} />],
                  ]
            }
            action={w.resync}
            onConfirm={() => start.mutateAsync({ path, body: {} })}
          />
        )}
        {isRunning && may('CancelReplicationResync') && (
          <ConfirmButton
            title={w.cancelAsk}
            text={w.resynced(resync.queued)}
            action={w.cancel}
            onConfirm={() => cancel.mutateAsync({ path })}
          />
        )}
      </div>
    </>
  );
}

const Told = ({ resync: { state, read, versions, queued, finishedAt } }: { readonly resync: Resync }) =>
  state === 'running' ? (
    <Progress label={w.resyncing} done={read} total={versions} />
  ) : (
    <Facts
      facts={[
        [
          w.resyncing,
          <span key="resync">
            {w.resynced(queued)} {finishedAt !== undefined && <Time at={finishedAt * 1_000} />}
          </span>,
        ],
      ]}
    />
  );
