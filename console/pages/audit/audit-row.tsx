/** A row of the audit log: who, what, with which result, and what it changed; with links to its trace and decision. */
import type { Answer } from '../../app/client.ts';
import { formatNumber, t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Facts } from '../../ui/facts.tsx';
import { Button } from '../../ui/form.tsx';
import { Partial, RequestLinks } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { describeSession } from '../why/session.tsx';
import { w } from './words.ts';

export type AuditRow = Answer<'ListAudit'>['rows'][number];

/** One request has several rows where it names many keys. */
export const rowKey = ({ requestId, action, time, page = 0 }: AuditRow): string =>
  `${requestId} ${action} ${time} ${page}`;

interface StatusProps extends Pick<AuditRow, 'status' | 'error'> {
  /** A row of a phone has room for the number only. */
  readonly isRow?: boolean;
}

export const Status = ({ status, error, isRow = false }: StatusProps) => (
  <Chip tone={status < 400 ? 'good' : status < 500 ? 'warn' : 'bad'}>
    {status} <span class={isRow ? 'minor' : ''}>{error}</span>
  </Chip>
);

/** The ARN of the caller, or its access key where the row has no ARN. */
export const nameOf = ({ principal, accessKey }: AuditRow): string => principal ?? accessKey ?? w.anonymous;

export const Details = ({ row }: { readonly row: AuditRow }) => (
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
        [w.session, row.session !== undefined && describeSession(row.session)],
        [w.parentKey, row.session?.parentKey !== undefined && <Copy text={row.session.parentKey} />],
        [w.source, row.source],
        [w.count, row.count !== undefined && row.count > 1 && formatNumber(row.count)],
        [t.ui.request, <Copy key="id" text={row.requestId} />],
      ]}
    />
    {row.keys !== undefined && <Keys keys={row.keys} />}
    {row.changes !== undefined && <Changes changes={row.changes} />}
    <div class="actions">
      <RequestLinks requestId={row.requestId} status={row.status} class="button" />
    </div>
  </>
);

interface FurtherProps {
  /** What `useAdminPages` found by `ListAudit`. */
  readonly found: {
    readonly rows: readonly AuditRow[] | undefined;
    readonly more: { readonly has: boolean; readonly busy: boolean; load(): void };
    readonly data: { readonly pages: readonly Answer<'ListAudit'>[] } | undefined;
  };
  /** Of a full page. */
  readonly pageRows: number;
}

/**
 * One request reads a bounded part of the log, so a page may be short although `next` continues it, perhaps to no row. After a short page
 * this says how far back the search has come, because "load more" would promise rows.
 */
export function Further({ found: { rows = [], more, data }, pageRows }: FurtherProps) {
  const last = data?.pages.at(-1);
  if (last === undefined || !more.has) return null;
  if (last.rows.length >= pageRows || last.searchedTo === undefined)
    return <Partial shown={rows.length} busy={more.busy} onMore={more.load} />;
  return (
    <div class="partial">
      <span class="quiet">
        {w.searched} <Time at={last.searchedTo} />
      </span>
      <Button busy={more.busy} onClick={more.load}>
        {w.searchOn}
      </Button>
    </div>
  );
}

/** The keys of a DeleteObjects, as many as one row names. */
const Keys = ({ keys }: { readonly keys: NonNullable<AuditRow['keys']> }) => (
  <ul>
    {keys.map(({ key, versionId, status, error }) => (
      <li key={`${key} ${versionId ?? ''}`} class="code" dir="auto">
        {key} {versionId} {status === undefined ? w.unsettled : status} {error}
      </li>
    ))}
  </ul>
);

/** JSON, or the digest of what is too long for a row. */
export function changeText(value: unknown): string {
  if (value === undefined) return w.notSet;
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && 'sha256' in value && 'characters' in value)
    return w.digest(Number(value.characters), String(value.sha256));
  return JSON.stringify(value);
}

/** What the request changed, each field with its values before and after. */
export const Changes = ({ changes }: { readonly changes: NonNullable<AuditRow['changes']> }) => (
  <>
    <h3>{w.changes}</h3>
    <Facts
      facts={changes.map(({ field, old, new: now }) => [
        field,
        <span key={field} class="code" dir="auto">
          <del title={w.before}>{changeText(old)}</del> → <ins title={w.after}>{changeText(now)}</ins>
        </span>,
      ])}
    />
  </>
);
