/** Audit: what was changed or refused, by whom, the newest first, also as it comes; a panel shows one row with its decision and trace. */
import { useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { type Answer, addressOf, call } from '../../app/client.ts';
import { useAdminPages } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Button, SearchInput, Select } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty, Failure } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Time } from '../../ui/values.tsx';
import { AuditHistogram } from './audit-histogram.tsx';
import { type AuditRow, Details, Further, nameOf, rowKey, Status } from './audit-row.tsx';
import { LiveBar, useFollowedAudit } from './followed-audit.tsx';
import { w } from './words.ts';

const everyMs = 30_000;
const pageRows = 200;
const hourMs = 3_600_000;
const periods = ['1', '24', '168', '720'] as const;

const columns: readonly Column<AuditRow>[] = [
  { id: 'time', head: t.ui.time, cell: ({ time }) => <Time at={time} /> },
  { id: 'status', head: w.result, cell: (row) => <Status {...row} isRow /> },
  {
    id: 'action',
    head: w.action,
    cell: ({ action }) => (
      <span class="cut unabridged" title={action}>
        {action}
      </span>
    ),
  },
  {
    id: 'resource',
    head: w.resource,
    cell: ({ resource, key, keys }) => (
      <span class="code cut" dir="auto">
        {resource}
        {key === undefined ? '' : `/${key}`}
        {keys === undefined ? '' : ` · ${w.keyCount(keys.length)}`}
      </span>
    ),
    isWideOnly: true,
  },
  {
    id: 'who',
    head: w.who,
    cell: (row) => (
      <span class="cut" dir="auto" title={nameOf(row)}>
        {nameOf(row).replace(/^arn:aws:iam::/, '')}
      </span>
    ),
    isMinor: true,
  },
];

/** The filters of the address, as the operation takes them. */
function readFilter(search: Readonly<Record<string, string | undefined>>) {
  const { bucket, key, keyPrefix, action, identity, status, requestId, changed, hours } = search;
  const kind = kinds.find((each) => each === search['kind']);
  // Rounded, so that the question stays the same for a minute.
  const now = Math.ceil(Date.now() / 60_000) * 60_000;
  const start =
    hours === undefined || !/^\d{1,4}$/.test(hours)
      ? {}
      : { start: `${new Date(now - Number(hours) * hourMs).toISOString().slice(0, 19)}Z` };
  return {
    ...start,
    ...(bucket === undefined ? {} : { bucket }),
    ...(key === undefined ? {} : { key }),
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
    ...(action === undefined ? {} : { action }),
    ...(identity === undefined ? {} : { identity }),
    ...(status === undefined ? {} : { status }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(changed === undefined ? {} : { changed }),
    ...(kind === undefined ? {} : { kind }),
  };
}

export default function AuditPage() {
  const allowed = useAllowed(['ListAudit', 'FollowAudit', 'GetAuditHistogram', 'ExportAudit', 'VerifyAudit']);
  const [search, setSearch] = useSearchState();
  const query = readFilter(search);
  const isLive = search['live'] !== undefined;
  const audit = useAdminPages(
    'ListAudit',
    { query: { ...query, limit: pageRows } },
    {
      rowsOf: ({ rows }) => rows,
      everyMs,
      enabled: allowed('ListAudit') === true && !isLive,
      // The last hour begins later with each minute, and its list stays.
      keyedBy: { ...query, start: search['hours'] },
    },
  );
  const live = useFollowedAudit(query, isLive && allowed('FollowAudit') === true);
  const { rows, error } = isLive ? live : audit;
  const open = rows?.find((row) => rowKey(row) === search['row']);
  if (allowed('ListAudit') === false) return <Forbidden title={t.pages.audit} operation="ListAudit" />;
  return (
    <>
      <PageHead
        title={t.pages.audit}
        answer={w.lead}
        actions={
          <>
            {allowed('FollowAudit') === true && (
              <Button
                icon={isLive ? 'close' : 'play'}
                onClick={() => setSearch({ live: isLive ? undefined : '1', hours: undefined })}
              >
                {isLive ? w.endFollow : w.follow}
              </Button>
            )}
            {allowed('VerifyAudit') === true && <Verify />}
            {allowed('ExportAudit') === true && (
              <a class="button" href={addressOf('ExportAudit', { query })} download="audit.jsonl">
                <Icon name="download" /> {w.export}
              </a>
            )}
          </>
        }
      />
      {isLive && <LiveBar live={live} />}
      {!isLive && allowed('GetAuditHistogram') === true && <AuditHistogram query={query} />}
      <Card>
        <DataTable
          label={t.pages.audit}
          columns={columns}
          rows={rows}
          error={error}
          onRetry={() => (isLive ? live.retry() : audit.refetch())}
          rowKey={rowKey}
          linkTo={(row) => ({ search: { row: rowKey(row) } })}
          openKey={search['row']}
          tools={<Filters isLive={isLive} />}
          empty={<Empty text={isLive ? w.noneYet : w.none} />}
        />
        {!isLive && <Further found={audit} pageRows={pageRows} />}
      </Card>
      {open !== undefined && (
        <Panel title={open.action} onClose={() => setSearch({ row: undefined })}>
          <Details row={open} />
        </Panel>
      )}
    </>
  );
}

const kinds = ['settings', 'writes', 'deletions'] as const;
const texts = ['bucket', 'key', 'keyPrefix', 'action', 'identity', 'requestId', 'changed'] as const;

function Filters({ isLive }: { readonly isLive: boolean }) {
  const [search, setSearch] = useSearchState();
  return (
    <>
      {texts.map((name) => (
        <SearchInput
          key={name}
          label={w.filters[name]}
          value={search[name] ?? ''}
          onSearch={(text, how) => setSearch({ [name]: text }, how)}
          hasShortcut={name === 'bucket'}
        />
      ))}
      <Select
        label={w.kind}
        value={search['kind'] ?? ''}
        options={['', ...kinds].map((each) => [each, w.kinds[each] ?? each])}
        onChange={(kind) => setSearch({ kind })}
      />
      <Select
        label={w.result}
        value={search['status'] ?? ''}
        options={['', '2xx', '4xx', '5xx'].map((each) => [each, each === '' ? w.anyResult : each])}
        onChange={(status) => setSearch({ status })}
      />
      {!isLive && (
        <Select
          label={w.period}
          value={search['hours'] ?? ''}
          options={[['', w.anyTime], ...periods.map((hours) => [hours, w.lastHours(Number(hours))] as const)]}
          onChange={(hours) => setSearch({ hours })}
        />
      )}
    </>
  );
}

function Verify() {
  const [state, setState] = useState<Answer<'VerifyAudit'> | Error | 'busy' | undefined>();
  const verify = async () => {
    setState('busy');
    setState(await call('VerifyAudit').catch((cause: unknown) => cause as Error));
  };
  if (state instanceof Error) return <Failure error={state} />;
  if (state !== undefined && state !== 'busy')
    return (
      <Chip tone={state.isIntact ? 'good' : 'bad'} title={state.gap?.kind}>
        {state.isIntact ? w.intact(state.hours) : w.broken(state.gap?.hour ?? '')}
      </Chip>
    );
  return (
    <Button busy={state === 'busy'} onClick={verify}>
      {w.verify}
    </Button>
  );
}
