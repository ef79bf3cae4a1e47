/** Traces: failed, refused and slow requests of all gateways, the latest first. */
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { plural } from '../../text/plural.ts';
import { t } from '../../text/text.ts';
import { Chip, type Tone } from '../../ui/chip.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Select } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Duration, Time } from '../../ui/values.tsx';
import { w } from './words.ts';

const everyMs = 10_000;
const shown = 200;

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
    cell: ({ operation }) => operation,
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
    isMinor: true,
  },
  { id: 'result', head: w.result, cell: (row) => <Kept {...row} />, value: ({ status = 0 }) => status },
  {
    id: 'took',
    head: w.took,
    cell: ({ durationMs }) => <Duration ms={durationMs} />,
    value: ({ durationMs }) => durationMs,
    align: 'end',
  },
];

const bands = ['', '10', '100', '1000', '10000'] as const;
const statuses = ['', '2xx', '4xx', '5xx'] as const;

export default function TracesPage() {
  const allowed = useAllowed(['ListTraces']);
  const [search, setSearch] = useSearchState();
  const { status, slower, operation, id } = search;
  const query = {
    limit: shown,
    ...(status === undefined ? {} : { status }),
    ...(operation === undefined ? {} : { operation }),
    ...(id === undefined ? {} : { id }),
    ...(slower === undefined || !/^\d{1,9}$/.test(slower) ? {} : { minMs: Number(slower) }),
  };
  const traces = useAdmin('ListTraces', { query }, { everyMs, enabled: allowed('ListTraces') === true });
  const rows = traces.data?.traces;
  const failed = rows?.filter(({ kept }) => kept === 'failed').length ?? 0;
  if (allowed('ListTraces') === false) return <Forbidden title={t.pages.traces} operation="ListTraces" />;
  return (
    <>
      <PageHead
        title={t.pages.traces}
        answer={
          rows && `${plural(rows.length, w.oneTrace, w.manyTraces)}${failed > 0 ? w.failed(failed) : ''}`
        }
      />
      {traces.data !== undefined && traces.data.silent > 0 && (
        <p class="quiet" role="status">
          <Icon name="warning" /> {w.silent(traces.data.silent, traces.data.processes)}
        </p>
      )}
      <Card>
        <DataTable
          label={t.pages.traces}
          columns={columns}
          rows={rows}
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
                options={bands.map((each) => [each, each === '' ? w.anyTime : w.slower(each)])}
                onChange={(value) => setSearch({ slower: value })}
              />
            </>
          }
          empty={<Empty text={w.none} docs={w.noneHint} />}
        />
      </Card>
    </>
  );
}
