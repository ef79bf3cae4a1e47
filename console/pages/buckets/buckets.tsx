/** Buckets: the search over all of them, what each holds, and a new one. Tenants see those of their own account. */
import { useRef } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdminPages } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Denied } from '../../ui/forbidden.tsx';
import { Button, SearchInput } from '../../ui/form.tsx';
import { Meter } from '../../ui/progress.tsx';
import { bytesColumn, type Column, countColumn } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { formatBytes, Time } from '../../ui/values.tsx';
import { CreateBucket } from './create-bucket.tsx';
import { type Trend, TrendLine, useTrends } from './trend.tsx';
import { w } from './words.ts';

type Bucket = Answer<'ListBuckets'>['rows'][number];

const everyMs = 30_000;
const create = { action: 's3:CreateBucket' };

const columnsWith = (trends: ReadonlyMap<string, Trend> | undefined): readonly Column<Bucket>[] => [
  {
    id: 'name',
    head: w.name,
    cell: ({ name }) => <span class="cut">{name}</span>,
    value: ({ name }) => name,
  },
  {
    id: 'owner',
    head: w.owner,
    cell: ({ owner, ownerName }) => (
      <span dir="auto" title={owner}>
        {ownerName || owner}
      </span>
    ),
    value: ({ owner, ownerName }) => ownerName || owner,
    isMinor: true,
  },
  countColumn('objects', {
    head: () => <span title={w.withVersions}>{w.objects}</span>,
    value: ({ objects }) => objects,
  }),
  bytesColumn('bytes', { head: w.bytes, value: ({ bytes }) => bytes }),
  ...(trends === undefined
    ? []
    : [
        {
          id: 'trend',
          head: w.trend,
          cell: ({ name }: Bucket) => <TrendLine trend={trends.get(name)} />,
          isWideOnly: true,
        },
      ]),
  { id: 'quota', head: w.quota, cell: (row) => <Quota bucket={row} />, isMinor: true },
  {
    id: 'versioning',
    head: w.versioning,
    cell: ({ versioning }) => w.versioningStates[versioning],
    value: ({ versioning }) => versioning,
    isWideOnly: true,
  },
  {
    id: 'access',
    head: w.access,
    cell: (row) =>
      isPublic(row) ? (
        <Chip tone="warn" title={w.publicHint}>
          {w.public}
        </Chip>
      ) : (
        <span class="quiet">{w.private}</span>
      ),
    value: (row) => (isPublic(row) ? 0 : 1),
  },
  {
    id: 'created',
    head: w.created,
    align: 'end',
    cell: ({ created }) => <Time at={created} />,
    value: ({ created }) => created,
    isWideOnly: true,
  },
];

const isPublic = ({ policyIsPublic, aclIsPublic }: Bucket): boolean => policyIsPublic || aclIsPublic;

function Quota({ bucket: { quota, bytes, objects } }: { readonly bucket: Bucket }) {
  const { maxBytes = 0, maxObjects = 0 } = quota ?? {};
  if (maxBytes > 0) return <Meter label={w.quota} used={bytes} max={maxBytes} />;
  if (maxObjects > 0) return <Meter label={w.quota} used={objects} max={maxObjects} unit="count" />;
  return <span class="quiet">{w.noQuota}</span>;
}

export default function BucketsPage() {
  const { session } = useSession();
  const allowed = useAllowed(['ListBuckets', 'ListBucketUsage', create]);
  const [search, setSearch] = useSearchState();
  const prefix = search['q'] ?? '';
  const owner = session.isOperator ? undefined : session.account;
  const list = useAdminPages(
    'ListBuckets',
    { query: { prefix, ...(owner === undefined ? {} : { owner }) } },
    { rowsOf: ({ rows }) => rows, everyMs, enabled: allowed('ListBuckets') === true, keepsRows: true },
  );
  const rowsPrefix = useRef(prefix);
  // While a prefix is asked for, the rows and what is said of them are those of the one before.
  if (!list.isPlaceholderData) rowsPrefix.current = prefix;
  const mayTrend = allowed('ListBucketUsage') === true;
  // The cast: a page begins after '' or after `next` of the page before.
  const after = (list.data?.pageParams ?? ['']) as readonly string[];
  const trends = useTrends({ prefix: rowsPrefix.current, owner, after, enabled: mayTrend });
  const mayCreate = allowed(create) === true;
  const openCreate = () => setSearch({ create: '1' }, { push: true });
  const createButton = mayCreate ? (
    <Button icon="plus" kind="primary" onClick={openCreate}>
      {w.create}
    </Button>
  ) : undefined;
  return (
    <>
      <PageHead
        title={t.pages.buckets}
        answer={<Answered rows={list.rows} hasMore={list.hasNextPage} prefix={rowsPrefix.current} />}
        actions={createButton}
      />
      <Card>
        {allowed('ListBuckets') === false ? (
          <Denied action="admin:ListBuckets" text={w.forbidden} />
        ) : (
          <DataTable
            label={t.pages.buckets}
            columns={columnsWith(mayTrend ? trends : undefined)}
            rows={list.rows}
            isPrevious={list.isPlaceholderData}
            rowKey={({ name }) => name}
            error={list.error}
            onRetry={() => list.refetch().catch(() => {})}
            linkTo={({ name }) => ({ page: 'bucket', params: { bucket: name } })}
            tools={
              <SearchInput
                label={w.search}
                value={search['q'] ?? ''}
                maxLength={63}
                onSearch={(q, how) => setSearch({ q }, { ...how, keepsForms: true })}
              />
            }
            empty={
              rowsPrefix.current === '' ? (
                <Empty icon="bucket" text={w.none} action={createButton} />
              ) : (
                <Empty
                  icon="search"
                  text={<bdi>{w.noneFound(rowsPrefix.current)}</bdi>}
                  action={<Button onClick={() => setSearch({ q: undefined })}>{t.ui.clearFilter}</Button>}
                />
              )
            }
            more={list.more}
          />
        )}
      </Card>
      {search['create'] !== undefined && mayCreate && (
        <CreateBucket
          onClose={() => setSearch({ create: undefined })}
          onDone={(bucket) => setSearch({ create: undefined, q: bucket })}
        />
      )}
    </>
  );
}

interface AnsweredProps {
  readonly rows: readonly Bucket[] | undefined;
  readonly hasMore: boolean;
  readonly prefix: string;
}

function Answered({ rows, hasMore, prefix }: AnsweredProps) {
  if (rows === undefined) return null;
  if (hasMore) return w.answerFirst(rows.length);
  if (prefix !== '') return <bdi>{w.answerFound(rows.length, prefix)}</bdi>;
  return w.answer(rows.length, formatBytes(rows.reduce((sum, { bytes }) => sum + bytes, 0)));
}
