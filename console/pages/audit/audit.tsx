/** Audit: what was changed or refused, by whom, the newest first; a panel shows one row with its decision and trace. */
import { useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { type Answer, addressOf, call } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdminPages } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Button, Select } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty, Failure } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { Time } from '../../ui/values.tsx';
import { w } from './words.ts';

type Row = Answer<'ListAudit'>['rows'][number];

const everyMs = 15_000;
const hourMs = 3_600_000;
const periods = ['1', '24', '168', '720'] as const;

const Status = ({ status, error }: Pick<Row, 'status' | 'error'>) => (
  <Chip tone={status < 400 ? 'good' : status < 500 ? 'warn' : 'bad'}>
    {status} {error}
  </Chip>
);

/** The last part of an ARN is the name. */
const nameOf = ({ principal, accessKey }: Row): string => principal ?? accessKey ?? w.anonymous;

const columns: readonly Column<Row>[] = [
  { id: 'time', head: t.ui.time, cell: ({ time }) => <Time at={time} /> },
  { id: 'action', head: w.action, cell: ({ action }) => action },
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
    isMinor: true,
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
  { id: 'status', head: w.result, cell: (row) => <Status {...row} /> },
];

/** The filters of the address, as the operation takes them. */
function readFilter(search: Readonly<Record<string, string | undefined>>) {
  const { bucket, key, keyPrefix, action, identity, status, requestId, changed, hours } = search;
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
  };
}

export default function AuditPage() {
  const allowed = useAllowed(['ListAudit', 'ExportAudit', 'VerifyAudit']);
  const [search, setSearch] = useSearchState();
  const query = readFilter(search);
  const audit = useAdminPages(
    'ListAudit',
    { query: { ...query, limit: 200 } },
    { rowsOf: ({ rows }) => rows, everyMs, enabled: allowed('ListAudit') === true },
  );
  const rowKey = ({ requestId, action, time, page = 0 }: Row) => `${requestId} ${action} ${time} ${page}`;
  const open = audit.rows?.find((row) => rowKey(row) === search['row']);
  if (allowed('ListAudit') === false) return <Forbidden title={t.pages.audit} operation="ListAudit" />;
  return (
    <>
      <PageHead
        title={t.pages.audit}
        answer={w.lead}
        actions={
          <>
            {allowed('VerifyAudit') === true && <Verify />}
            {allowed('ExportAudit') === true && (
              <a class="button" href={addressOf('ExportAudit', { query })} download="audit.jsonl">
                <Icon name="download" /> {w.export}
              </a>
            )}
          </>
        }
      />
      <Card>
        <DataTable
          label={t.pages.audit}
          columns={columns}
          rows={audit.rows}
          error={audit.error}
          onRetry={() => audit.refetch()}
          rowKey={rowKey}
          onOpen={(row) => setSearch({ row: rowKey(row) }, { push: true })}
          openKey={search['row']}
          tools={<Filters />}
          more={audit.more}
          empty={<Empty text={w.none} />}
        />
      </Card>
      {open !== undefined && (
        <Panel title={open.action} onClose={() => setSearch({ row: undefined })}>
          <Details row={open} />
        </Panel>
      )}
    </>
  );
}

const texts = ['bucket', 'key', 'keyPrefix', 'action', 'identity', 'requestId', 'changed'] as const;

function Filters() {
  const [search, setSearch] = useSearchState();
  return (
    <>
      {texts.map((name) => (
        <label key={name} class="filter">
          <Icon name="search" />
          <input
            class="input"
            type="search"
            {...(name === 'bucket' ? { 'data-filter': true } : {})}
            placeholder={w.filters[name]}
            aria-label={w.filters[name]}
            value={search[name] ?? ''}
            onChange={(event) => setSearch({ [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <Select
        label={w.result}
        value={search['status'] ?? ''}
        options={['', '2xx', '4xx', '5xx'].map((each) => [each, each === '' ? w.anyResult : each])}
        onChange={(status) => setSearch({ status })}
      />
      <Select
        label={w.period}
        value={search['hours'] ?? ''}
        options={[['', w.anyTime], ...periods.map((hours) => [hours, w.lastHours(Number(hours))] as const)]}
        onChange={(hours) => setSearch({ hours })}
      />
    </>
  );
}

const Details = ({ row }: { readonly row: Row }) => (
  <>
    <Facts
      facts={[
        [t.ui.time, <Time key="time" at={row.time} />],
        [w.result, <Status key="status" {...row} />],
        [
          w.resource,
          <span key="resource" class="code">
            {row.resource}
          </span>,
        ],
        [w.key, row.key !== undefined && <Copy text={row.key} />],
        [w.who, row.principal ?? w.anonymous],
        [w.accessKey, row.accessKey !== undefined && <Copy text={row.accessKey} />],
        [w.account, row.account],
        [w.source, row.source],
        [w.count, row.count !== undefined && row.count > 1 && formatNumber(row.count)],
        [t.ui.request, <Copy key="id" text={row.requestId} />],
      ]}
    />
    {row.keys !== undefined && <Keys keys={row.keys} />}
    {row.changes !== undefined && <Changes changes={row.changes} />}
    <div class="actions">
      <PageLink page="trace" params={{ trace: row.requestId }} class="button">
        {t.ui.trace}
      </PageLink>
      {row.status === 403 && (
        <PageLink page="why" search={{ requestId: row.requestId }} class="button">
          {t.ui.why}
        </PageLink>
      )}
    </div>
  </>
);

/** The keys of a DeleteObjects, as many as one row names. */
const Keys = ({ keys }: { readonly keys: NonNullable<Row['keys']> }) => (
  <ul>
    {keys.map(({ key, versionId, status, error }) => (
      <li key={`${key} ${versionId ?? ''}`} class="code" dir="auto">
        {key} {versionId} {status === undefined ? w.unsettled : status} {error}
      </li>
    ))}
  </ul>
);

/** JSON, or the digest of what is too long for a row. */
function valueText(value: unknown): string {
  if (value === undefined) return w.notSet;
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && 'sha256' in value && 'characters' in value)
    return w.digest(Number(value.characters), String(value.sha256));
  return JSON.stringify(value);
}

/** What the request changed, each field with its values before and after. */
const Changes = ({ changes }: { readonly changes: NonNullable<Row['changes']> }) => (
  <>
    <h3>{w.changes}</h3>
    <Facts
      facts={changes.map(({ field, old, new: now }) => [
        field,
        <span key={field} class="code" dir="auto">
          <del title={w.before}>{valueText(old)}</del> → <ins title={w.after}>{valueText(now)}</ins>
        </span>,
      ])}
    />
  </>
);

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
