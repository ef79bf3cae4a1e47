/** Billing of an account for a month: what it stored, by bucket and class, and the requests that it pays for. */
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { type Answer, isMissing } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber, language } from '../../text/text.ts';
import { Chart } from '../../ui/chart.tsx';
import { type CsvColumns, saveCsv } from '../../ui/csv.ts';
import { Facts } from '../../ui/facts.tsx';
import { Denied } from '../../ui/forbidden.tsx';
import { Select } from '../../ui/form.tsx';
import { Meter } from '../../ui/progress.tsx';
import { bytesColumn, type Column, countColumn } from '../../ui/short-table.tsx';
import { Empty, Reading } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Bytes, Count, formatBytes, formatCount } from '../../ui/values.tsx';
import { type Feed, requestsOf } from '../usage/feed.ts';
import { ClosedDays, CutNote, ExportButton, Requests } from '../usage/parts.tsx';
import {
  averageOf,
  type BilledStorage,
  type BilledTraffic,
  listMonths,
  seriesOf,
  spanOfMonth,
  sumStorage,
  sumTraffic,
  type TrafficRow,
  type UsageRow,
  useBilledStorage,
  useBilledTraffic,
} from './bill.ts';
import { w } from './words.ts';

/** GB-hours; less is exact on hover. */
const leastShown = 0.001;
const monthFormat = new Intl.DateTimeFormat(language, { month: 'long', year: 'numeric', timeZone: 'UTC' });
const formatMonth = (month: string): string => monthFormat.format(Date.parse(`${month}-01`));

export default function BillingPage() {
  const { user = '' } = useParams({ strict: false }) as { readonly user?: string };
  const [search, setSearch] = useSearchState();
  const account = search['account'] ?? user;
  const allowed = useAllowed(['GetUserUsage', 'GetUserTraffic', 'GetUserQuota']);
  const months = useMemo(() => listMonths(), []);
  const month = months.find((each) => each === search['month']) ?? months[0] ?? '';
  const span = useMemo(() => spanOfMonth(month), [month]);
  const usage = useBilledStorage({ account, span, enabled: allowed('GetUserUsage') === true });
  const traffic = useBilledTraffic({ account, span, enabled: allowed('GetUserTraffic') === true });
  const quota = useAdmin(
    'GetUserQuota',
    { path: { user: account }, query: {} },
    { enabled: allowed('GetUserQuota') === true },
  );
  if (allowed('GetUserUsage') === false)
    return (
      <>
        <PageHead title={<bdi>{w.title(user)}</bdi>} />
        <Card>
          <Denied action="admin:GetUserUsage" />
        </Card>
      </>
    );
  const answer = usage.data && (
    <Answered month={month} usage={usage.data.rows} traffic={traffic.data?.rows} />
  );
  return (
    <>
      <PageHead
        title={<bdi>{w.title(user)}</bdi>}
        answer={answer}
        actions={
          <Select
            label={w.month}
            value={month}
            options={months.map((each) => [each, formatMonth(each)])}
            onChange={(next) => setSearch({ month: next === months[0] ? undefined : next })}
          />
        }
      />
      {account !== user && <p class="quiet">{w.ofUser(user, account)}</p>}
      {usage.data !== undefined && (
        <Card title={w.now}>
          <Now totals={usage.data.totals} quota={quota.data} hasNone={isMissing(quota.error)} />
        </Card>
      )}
      <Card title={w.storage}>
        <Reading query={usage}>
          {(feed) => <Storage key={month} feed={feed} name={`${account}-${month}`} />}
        </Reading>
      </Card>
      {allowed('GetUserTraffic') === true && usage.data !== undefined && (
        <Card title={w.traffic}>
          <Reading query={traffic}>
            {(feed) => <Traffic key={month} feed={feed} name={`${account}-${month}`} />}
          </Reading>
        </Card>
      )}
    </>
  );
}

interface AnsweredProps {
  readonly month: string;
  readonly usage: readonly UsageRow[];
  readonly traffic: readonly TrafficRow[] | undefined;
}

function Answered({ month, usage, traffic = [] }: AnsweredProps) {
  const rows = sumTraffic(traffic);
  const requests = rows.reduce((sum, row) => sum + requestsOf(row), 0);
  const sent = rows.reduce((sum, { egressBytes }) => sum + egressBytes, 0);
  return w.answer(
    formatBytes(averageOf(usage)),
    formatCount(requests),
    formatBytes(sent),
    formatMonth(month),
  );
}

interface NowProps {
  readonly totals: Answer<'GetUserUsage'>['totals'];
  readonly quota: Answer<'GetUserQuota'> | undefined;
  readonly hasNone: boolean;
}

function Now({ totals: { bytes, objects }, quota, hasNone }: NowProps) {
  const { totalMaxBytes = 0, maxBuckets = 0 } = quota ?? {};
  return (
    <div class="card-line">
      <Facts
        facts={[
          [w.holds, <Bytes key="bytes" value={bytes} />],
          [w.objects, <Count key="objects" value={objects} />],
          [
            w.quota,
            totalMaxBytes > 0 ? (
              <>
                <Meter label={w.quota} used={bytes} max={totalMaxBytes} />{' '}
                <span class="number">{formatBytes(totalMaxBytes)}</span>
              </>
            ) : (
              (hasNone && w.noQuota) || (quota !== undefined && w.unlimited)
            ),
          ],
          [w.maxBuckets, maxBuckets > 0 && <Count value={maxBuckets} />],
        ]}
      />
    </div>
  );
}

const storageColumns: readonly Column<BilledStorage>[] = [
  {
    id: 'bucket',
    head: w.bucket,
    cell: ({ bucket }) => (
      <PageLink page="bucket" params={{ bucket }} class="cut unabridged" title={bucket}>
        {bucket}
      </PageLink>
    ),
    value: ({ bucket }) => bucket,
  },
  {
    id: 'class',
    head: w.class,
    cell: ({ storageClass }) => <bdi class="unabridged">{storageClass}</bdi>,
    value: ({ storageClass }) => storageClass,
  },
  {
    id: 'gbHours',
    head: w.gbHours,
    cell: ({ gbHours, byteSeconds }) => (
      <span class="number" title={w.gbHoursHint(formatNumber(byteSeconds))}>
        {gbHours > 0 && gbHours < leastShown
          ? `< ${formatNumber(leastShown)}`
          : formatNumber(gbHours, { maximumSignificantDigits: 6 })}
      </span>
    ),
    value: ({ gbHours }) => gbHours,
    align: 'end',
  },
  bytesColumn('average', { head: w.average, value: ({ bytes }) => bytes, isMinor: true }),
  {
    id: 'objects',
    head: w.averageObjects,
    cell: ({ objects }) => <Count value={Math.round(objects)} />,
    value: ({ objects }) => objects,
    align: 'end',
    isWideOnly: true,
  },
];

const storageCsv: CsvColumns<UsageRow> = {
  bucket: ({ bucket }) => bucket,
  day: ({ day }) => day,
  storageClass: ({ storageClass }) => storageClass,
  byteSeconds: ({ byteSeconds }) => String(byteSeconds),
  objectCountAvg: ({ objectCountAvg }) => objectCountAvg,
  objectCountMax: ({ objectCountMax }) => objectCountMax,
};

interface PartProps<Row> {
  readonly feed: Feed<Row>;
  /** Of the exported file. */
  readonly name: string;
}

function Storage({ feed, name }: PartProps<UsageRow>) {
  const { rows } = feed;
  const billed = useMemo(() => sumStorage(rows), [rows]);
  const { times, series } = useMemo(() => seriesOf(rows), [rows]);
  if (rows.length === 0) return <Empty icon="chart" text={w.none} docs={w.noneHint} />;
  return (
    <>
      {times.length > 1 && <Chart label={w.chart} unit="bytes" times={times} series={series} stacked />}
      <DataTable
        label={w.storage}
        columns={storageColumns}
        rows={billed}
        rowKey={({ bucket, storageClass }) => `${bucket} ${storageClass}`}
        filterText={({ bucket, storageClass }) => `${bucket} ${storageClass}`}
        empty={null}
        tools={<ExportButton onClick={() => saveCsv(`${name}-storage.csv`, storageCsv, rows)} />}
      />
      <ClosedDays of={feed} />
    </>
  );
}

const trafficColumns: readonly Column<BilledTraffic>[] = [
  {
    id: 'bucket',
    head: w.bucket,
    cell: ({ bucket }) =>
      bucket === '' ? <span class="quiet">{w.noBucket}</span> : <span class="cut unabridged">{bucket}</span>,
    value: ({ bucket }) => bucket,
  },
  {
    id: 'requests',
    head: w.requests,
    cell: (row) => <Requests of={row} />,
    value: requestsOf,
    align: 'end',
  },
  countColumn('writes', { head: w.writes, value: ({ requestsA }) => requestsA, isMinor: true }),
  countColumn('reads', { head: w.reads, value: ({ requestsB }) => requestsB, isMinor: true }),
  bytesColumn('received', { head: w.received, value: ({ ingressBytes }) => ingressBytes, isWideOnly: true }),
  bytesColumn('sent', { head: w.sent, value: ({ egressBytes }) => egressBytes }),
];

const trafficCsv: CsvColumns<TrafficRow> = {
  bucket: ({ bucket }) => bucket,
  day: ({ day }) => day,
  requester: ({ requester }) => requester,
  requestsA: ({ requestsA }) => requestsA,
  requestsB: ({ requestsB }) => requestsB,
  requestsFree: ({ requestsFree }) => requestsFree,
  ingressBytes: ({ ingressBytes }) => ingressBytes,
  egressBytes: ({ egressBytes }) => egressBytes,
};

function Traffic({ feed, name }: PartProps<TrafficRow>) {
  const { rows } = feed;
  const billed = useMemo(() => sumTraffic(rows), [rows]);
  return (
    <>
      <DataTable
        label={w.traffic}
        name="traffic-"
        columns={trafficColumns}
        rows={billed}
        rowKey={({ bucket }) => bucket}
        empty={<Empty icon="chart" text={w.noTraffic} />}
        tools={
          rows.length > 0 && <ExportButton onClick={() => saveCsv(`${name}-traffic.csv`, trafficCsv, rows)} />
        }
      />
      <CutNote of={feed} />
    </>
  );
}
