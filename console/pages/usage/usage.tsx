/** Usage of a bucket: the quota and its use, stored bytes and objects by class over closed days, and requests by requester. */
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'preact/hooks';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber } from '../../text/text.ts';
import { Chart } from '../../ui/chart.tsx';
import { type CsvColumns, saveCsv } from '../../ui/csv.ts';
import { Denied } from '../../ui/forbidden.tsx';
import { Button } from '../../ui/form.tsx';
import { Segments } from '../../ui/segments.tsx';
import { bytesColumn, type Column, countColumn, ShortTable } from '../../ui/short-table.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import {
  bytesOf,
  type Feed,
  type Requester,
  requestsOf,
  seriesOf,
  spanOf,
  sumByRequester,
  type TrafficRow,
  type UsageRow,
  useTraffic,
  useUsage,
} from './feed.ts';
import { saveFocus } from './focus.ts';
import { ClosedDays, CutNote, ExportButton, Requests } from './parts.tsx';
import { Quota, QuotaForm } from './quota.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
const spans = ['7', '30', '90', '365'] as const;
const spanDefault = '30';
type SpanName = (typeof spans)[number];

const asked = [
  'GetBucket',
  'GetBucketUsage',
  'GetBucketTraffic',
  'GetBucketQuota',
  'PutBucketQuota',
] as const;

export default function UsagePage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const allowed = useAllowed(asked.map((name) => onBucket(name, bucket)));
  const may = (name: (typeof asked)[number]) => allowed(onBucket(name, bucket)) === true;
  const [search, setSearch] = useSearchState();
  const days: SpanName = spans.find((each) => each === search['days']) ?? spanDefault;
  const span = useMemo(() => spanOf(Number(days)), [days]);
  const found = useAdmin('GetBucket', { path: { name: bucket } }, { everyMs, enabled: may('GetBucket') });
  const usage = useUsage({ bucket, span, enabled: may('GetBucketUsage') });
  const traffic = useTraffic({ bucket, span, enabled: may('GetBucketTraffic') });
  if (allowed(onBucket('GetBucketUsage', bucket)) === false) return <Denied action="admin:GetBucketUsage" />;
  const close = () => setSearch({ quota: undefined });
  return (
    <>
      {may('GetBucket') && (
        <div class="cards">
          <Card
            title={w.quota}
            actions={
              may('PutBucketQuota') && (
                <Button onClick={() => setSearch({ quota: '1' }, { push: true })}>{w.setQuota}</Button>
              )
            }
          >
            <Reading query={found}>{(data) => <Quota bucket={data} />}</Reading>
          </Card>
          <Card title={w.now}>
            <Reading query={found}>{(data) => <Classes bucket={data} />}</Reading>
          </Card>
        </div>
      )}
      <Card
        title={w.storage}
        actions={
          <Segments
            label={w.span}
            value={days}
            options={spans.map((each) => [each, w.days(Number(each))] as const)}
            onChange={(next) =>
              setSearch({ days: next === spanDefault ? undefined : next }, { keepsForms: true })
            }
          />
        }
      >
        <Reading query={usage} rows={5}>
          {(feed) => (
            <Storage feed={feed} bucket={bucket} details={found.data} traffic={traffic.data?.rows} />
          )}
        </Reading>
      </Card>
      {may('GetBucketTraffic') && (
        <Card
          title={w.traffic}
          actions={
            traffic.data !== undefined &&
            traffic.data.rows.length > 0 && (
              <ExportButton
                onClick={() => saveCsv(`${bucket}-traffic.csv`, trafficCsv, traffic.data?.rows ?? [])}
              />
            )
          }
        >
          <Reading query={traffic}>{(feed) => <Traffic feed={feed} />}</Reading>
        </Card>
      )}
      {search['quota'] !== undefined && found.data !== undefined && may('PutBucketQuota') && (
        <QuotaForm key={bucket} bucket={found.data} mayGet={may('GetBucketQuota')} onClose={close} />
      )}
    </>
  );
}

const classColumns: readonly Column<Answer<'GetBucket'>['classes'][number]>[] = [
  { id: 'class', head: w.class, cell: ({ storageClass }) => <bdi class="cut">{storageClass}</bdi> },
  bytesColumn('bytes', { head: w.bytes, value: ({ bytes }) => bytes }),
  countColumn('objects', { head: w.objects, value: ({ objects }) => objects }),
];

const Classes = ({ bucket: { classes } }: { readonly bucket: Answer<'GetBucket'> }) =>
  classes.length === 0 ? (
    <Empty text={w.noClasses} />
  ) : (
    <ShortTable
      label={w.now}
      columns={classColumns}
      rows={classes}
      rowKey={({ storageClass }) => storageClass}
    />
  );

const usageColumns: readonly Column<UsageRow>[] = [
  {
    id: 'day',
    head: w.day,
    cell: ({ day }) => <span class="number">{day}</span>,
    value: ({ day }) => day,
  },
  {
    id: 'class',
    head: w.class,
    cell: ({ storageClass }) => <bdi class="cut">{storageClass}</bdi>,
    value: ({ storageClass }) => storageClass,
  },
  bytesColumn('bytes', { head: w.average, value: bytesOf }),
  {
    id: 'byte-seconds',
    head: w.byteSeconds,
    cell: ({ byteSeconds }) => <span class="number">{formatNumber(byteSeconds)}</span>,
    value: ({ byteSeconds }) => Number(byteSeconds),
    align: 'end',
    isWideOnly: true,
  },
  countColumn('objects', {
    head: w.averageObjects,
    value: ({ objectCountAvg }) => objectCountAvg,
    isMinor: true,
  }),
  countColumn('most', { head: w.mostObjects, value: ({ objectCountMax }) => objectCountMax, isMinor: true }),
];

interface StorageProps {
  readonly feed: Feed<UsageRow>;
  readonly bucket: string;
  /** Undefined where policies forbid it, or while it is read. */
  readonly details: Answer<'GetBucket'> | undefined;
  readonly traffic: readonly TrafficRow[] | undefined;
}

function Storage({ feed, bucket, details, traffic }: StorageProps) {
  const { rows } = feed;
  const { times, classes } = useMemo(() => seriesOf(rows), [rows]);
  const newestFirst = useMemo(() => rows.toReversed(), [rows]);
  const sizes = useMemo(() => classes.map(({ name, bytes }) => ({ name, values: bytes })), [classes]);
  const counts = useMemo(() => classes.map(({ name, objects }) => ({ name, values: objects })), [classes]);
  if (rows.length === 0) return <Empty icon="chart" text={w.none} docs={w.noneHint} />;
  const columns: CsvColumns<UsageRow> = { bucket: () => bucket, ...usageCsv };
  return (
    <>
      {times.length > 1 && (
        <div class="cards">
          <Chart label={w.sizeChart} unit="bytes" times={times} series={sizes} stacked />
          <Chart label={w.objectsChart} unit="count" times={times} series={counts} stacked />
        </div>
      )}
      <DataTable
        label={w.storage}
        columns={usageColumns}
        rows={newestFirst}
        rowKey={({ day, storageClass }) => `${day} ${storageClass}`}
        filterText={({ day, storageClass }) => `${day} ${storageClass}`}
        empty={null}
        tools={
          <>
            <ExportButton onClick={() => saveCsv(`${bucket}-usage.csv`, columns, rows)} />
            {details !== undefined && (
              <Button icon="download" title={w.focusHint} onClick={() => saveFocus(details, rows, traffic)}>
                {w.focus}
              </Button>
            )}
          </>
        }
      />
      <ClosedDays of={feed} />
    </>
  );
}

const usageCsv: CsvColumns<UsageRow> = {
  day: ({ day }) => day,
  storageClass: ({ storageClass }) => storageClass,
  byteSeconds: ({ byteSeconds }) => String(byteSeconds),
  objectCountAvg: ({ objectCountAvg }) => objectCountAvg,
  objectCountMax: ({ objectCountMax }) => objectCountMax,
};

const trafficCsv: CsvColumns<TrafficRow> = {
  day: ({ day }) => day,
  requester: ({ requester }) => requester,
  payer: ({ payer }) => payer,
  requestsA: ({ requestsA }) => requestsA,
  requestsB: ({ requestsB }) => requestsB,
  requestsFree: ({ requestsFree }) => requestsFree,
  ingressBytes: ({ ingressBytes }) => ingressBytes,
  egressBytes: ({ egressBytes }) => egressBytes,
};

const requesterColumns: readonly Column<Requester>[] = [
  {
    id: 'requester',
    head: w.requester,
    cell: ({ requester }) =>
      requester === '' ? <span class="quiet">{w.anonymous}</span> : <bdi>{requester}</bdi>,
    value: ({ requester }) => requester,
  },
  {
    id: 'payer',
    head: w.payer,
    cell: ({ payer }) => <bdi>{payer}</bdi>,
    value: ({ payer }) => payer,
    isMinor: true,
  },
  {
    id: 'requests',
    head: w.requests,
    cell: (row) => <Requests of={row} />,
    value: requestsOf,
    align: 'end',
  },
  bytesColumn('received', { head: w.received, value: ({ ingressBytes }) => ingressBytes, isMinor: true }),
  bytesColumn('sent', { head: w.sent, value: ({ egressBytes }) => egressBytes }),
];

function Traffic({ feed }: { readonly feed: Feed<TrafficRow> }) {
  const requesters = useMemo(() => sumByRequester(feed.rows), [feed]);
  return (
    <>
      <DataTable
        label={w.traffic}
        name="traffic-"
        columns={requesterColumns}
        rows={requesters}
        rowKey={({ requester, payer }) => `${requester} ${payer}`}
        empty={<Empty text={w.noTraffic} />}
      />
      <CutNote of={feed} />
    </>
  );
}
