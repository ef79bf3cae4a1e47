/** Traces: failed, refused and slow requests of all gateways, the latest first. */
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { queries, useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { plural } from '../../text/plural.ts';
import { t } from '../../text/text.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Button, Select } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Duration, Time } from '../../ui/values.tsx';
import { rangeOf, TraceMatrix } from './matrix.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
/** As many as the operation lists. */
const listedMax = 500;

type Summary = Answer<'ListTraces'>['traces'][number];

const keptTones: Readonly<Record<Summary['kept'], Tone>> = {
  failed: 'bad',
  refused: 'warn',
  // The slowest of an operation may be fast.
  slow: 'neutral',
  sample: 'neutral',
  running: 'accent',
};

export const Kept = ({ kept, status, code }: Pick<Summary, 'kept' | 'status' | 'code'>) => (
  <Chip tone={keptTones[kept]} title={w.keptHints[kept]}>
    {code ?? (status === undefined ? w.kept[kept] : String(status))}
  </Chip>
);

const columns: readonly Column<Summary>[] = [
  {
    id: 'at',
    head: w.started,
    cell: ({ requestId, startedAt }) => (
      <PageLink page="trace" params={{ trace: requestId }}>
        <Time at={startedAt} />
      </PageLink>
    ),
    value: ({ startedAt }) => startedAt,
  },
  {
    id: 'operation',
    head: w.operation,
    cell: ({ operation }) => (
      <span class="unabridged" title={operation}>
        {operation}
      </span>
    ),
    value: ({ operation }) => operation,
  },
  {
    id: 'about',
    head: w.about,
    cell: ({ bucket, key }) => (
      <span class="code cut" dir="auto">
        {bucket === '' ? '–' : key === '' ? bucket : `${bucket}/${key}`}
      </span>
    ),
    value: ({ bucket, key }) => `${bucket}/${key}`,
    isWideOnly: true,
  },
  {
    id: 'result',
    head: w.result,
    cell: (row) => (
      <span class="kept" title={row.code}>
        <Kept {...row} />
      </span>
    ),
    value: ({ status = 0 }) => status,
  },
  {
    id: 'took',
    head: w.took,
    cell: ({ durationMs }) => <Duration ms={durationMs} />,
    value: ({ durationMs }) => durationMs,
    align: 'end',
  },
];

const thresholds = ['', '10', '100', '1000', '10000'] as const;
const statuses = ['', '2xx', '4xx', '5xx'] as const;

const countOf = (count: number): string =>
  count < listedMax ? plural(count, w.oneTrace, w.manyTraces) : w.latest(count);

export default function TracesPage() {
  const allowed = useAllowed(['ListTraces']);
  const [search, setSearch] = useSearchState();
  const { status, slower, operation, band, id } = search;
  const all = { limit: listedMax, ...(id === undefined ? {} : { id }) };
  const query = {
    ...all,
    ...(status === undefined ? {} : { status }),
    ...(operation === undefined ? {} : { operation }),
    ...(slower === undefined || !/^\d{1,9}$/.test(slower) ? {} : { minMs: Number(slower) }),
    ...rangeOf(band),
  };
  const options = { everyMs, enabled: allowed('ListTraces') === true };
  // The same read where nothing is filtered.
  const kept = useAdmin('ListTraces', { query: all }, options);
  const traces = useAdmin('ListTraces', { query }, { ...options, keepsLast: true });
  const { isPlaceholderData: isPrevious } = traces;
  const found = traces.data?.traces;
  // That the filter before found nothing says nothing about this one.
  const rows = isPrevious && found?.length === 0 ? undefined : found;
  const failed = rows?.filter(({ kept }) => kept === 'failed').length ?? 0;
  if (allowed('ListTraces') === false) return <Forbidden title={t.pages.traces} operation="ListTraces" />;
  return (
    <>
      <PageHead
        title={t.pages.traces}
        answer={rows && (isPrevious ? '' : `${countOf(rows.length)}${failed > 0 ? w.failed(failed) : ''}`)}
        actions={
          <Button
            icon="refresh"
            busy={traces.isFetching}
            onClick={() => queries.invalidateQueries({ queryKey: ['ListTraces'] })}
          >
            {w.readAgain}
          </Button>
        }
      />
      {traces.data !== undefined && traces.data.silent > 0 && (
        <p class="quiet" role="status">
          <Icon name="warning" /> {w.silent(traces.data.silent, traces.data.processes)}
        </p>
      )}
      {kept.data !== undefined && <TraceMatrix traces={kept.data.traces} />}
      <Card>
        <DataTable
          label={t.pages.traces}
          columns={columns}
          rows={rows}
          isPrevious={isPrevious}
          error={traces.error}
          onRetry={() => traces.refetch()}
          rowKey={({ requestId, startedAt }) => `${requestId} ${startedAt}`}
          filterText={({ requestId, operation: name, bucket, key, code = '' }) =>
            `${requestId} ${name} ${bucket}/${key} ${code}`
          }
          tools={
            <>
              <Select
                label={w.result}
                value={status ?? ''}
                options={statuses.map((each) => [each, each === '' ? w.anyResult : each])}
                onChange={(value) => setSearch({ status: value })}
              />
              <Select
                label={w.took}
                value={slower ?? ''}
                options={thresholds.map((each) => [each, each === '' ? w.anyTime : w.slower(each)])}
                onChange={(value) => setSearch({ slower: value, band: undefined })}
              />
            </>
          }
          empty={<Empty text={w.none} docs={w.noneHint} />}
        />
      </Card>
    </>
  );
}
