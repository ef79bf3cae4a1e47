/** What changed in a bucket: its rows of the audit log as a timeline, with the values before and after. */
import { useParams } from '@tanstack/react-router';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import { PageLink, TargetLink } from '../../app/page-link.tsx';
import { useAdmin, useAdminPages } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { language, t } from '../../text/text.ts';
import { Panel } from '../../ui/dialog.tsx';
import { ForbiddenCard } from '../../ui/forbidden.tsx';
import { Button, SearchInput } from '../../ui/form.tsx';
import { Segments } from '../../ui/segments.tsx';
import { Empty, Failure, RequestLinks, Skeleton } from '../../ui/states.tsx';
import { Card } from '../../ui/tabs.tsx';
import { type AuditRow, changeText, Details, Further, nameOf, rowKey, Status } from '../audit/audit-row.tsx';
import { visible } from '../objects/listing.ts';
import { w } from './words.ts';

const everyMs = 30_000;
const pageRows = 100;
const kinds = ['', 'settings', 'writes', 'deletions', 'refused'] as const;
type Kind = (typeof kinds)[number];

/** A refused request has changed nothing, so only its own kind lists it. */
const queryOf = (kind: Kind) =>
  kind === 'refused' ? { status: '4xx' } : { status: '2xx', ...(kind === '' ? {} : { kind }) };

const day = new Intl.DateTimeFormat(language, { dateStyle: 'full', timeZone: 'UTC' });
const clock = new Intl.DateTimeFormat(language, { timeStyle: 'medium', timeZone: 'UTC' });

export default function JournalPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const list = onBucket('ListAudit', bucket);
  const about = onBucket('GetBucket', bucket);
  const allowed = useAllowed([list, about]);
  // Start at the creation of the bucket, because the log before it has no row of the bucket.
  const details = useAdmin('GetBucket', { path: { name: bucket } }, { enabled: allowed(about) === true });
  const start = details.data === undefined ? {} : { start: `${details.data.created.slice(0, 19)}Z` };
  const isKnown = allowed(about) !== undefined && (allowed(about) === false || !details.isPending);
  const [search, setSearch] = useSearchState();
  const kind = kinds.find((each) => each === search['kind']) ?? '';
  const { identity } = search;
  const found = useAdminPages(
    'ListAudit',
    {
      query: {
        bucket,
        ...start,
        limit: pageRows,
        ...queryOf(kind),
        ...(identity === undefined ? {} : { identity }),
      },
    },
    { rowsOf: ({ rows }) => rows, everyMs, enabled: allowed(list) === true && isKnown },
  );
  const { rows, more } = found;
  const open = rows?.find((row) => rowKey(row) === search['row']);
  const isFiltered = kind !== '' || identity !== undefined;
  if (allowed(list) === false) return <ForbiddenCard action={list.action} />;
  return (
    <>
      <div class="tools-line">
        <p class="answer">{w.lead}</p>
      </div>
      <Card>
        <div class="tools">
          <Segments
            label={w.kind}
            value={kind}
            options={kinds.map((each) => [each, w.kinds[each] ?? each] as const)}
            onChange={(next) => setSearch({ kind: next, row: undefined })}
          />
          <SearchInput
            label={w.actor}
            placeholder={w.actorHint}
            value={identity ?? ''}
            onSearch={(text, how) => setSearch({ identity: text.trim() }, how)}
          />
        </div>
        {found.error !== null && (
          <Failure error={found.error} onRetry={() => found.refetch().catch(() => {})} />
        )}
        {rows === undefined ? (
          found.error === null && <Skeleton rows={6} />
        ) : rows.length === 0 && !more.has ? (
          <Empty
            icon="list"
            text={isFiltered ? w.noMatch : w.none}
            docs={isFiltered ? undefined : w.noneHint}
            {...(isFiltered
              ? {
                  action: (
                    <Button onClick={() => setSearch({ kind: undefined, identity: undefined })}>
                      {w.clear}
                    </Button>
                  ),
                }
              : {})}
          />
        ) : (
          <Days rows={rows} openKey={search['row']} />
        )}
        <Further found={found} pageRows={pageRows} />
      </Card>
      {open !== undefined && (
        <Panel title={open.action} onClose={() => setSearch({ row: undefined })}>
          <Details row={open} />
        </Panel>
      )}
    </>
  );
}

interface DaysProps {
  readonly rows: readonly AuditRow[];
  readonly openKey: string | undefined;
}

const Days = ({ rows, openKey }: DaysProps) => (
  <div class="journal">
    {[...Map.groupBy(rows, ({ time }) => time.slice(0, 10))].map(([date, some]) => (
      <section key={date} class="journal-day">
        <h2>
          <time dateTime={date}>{day.format(new Date(date))}</time> <span class="quiet">UTC</span>
        </h2>
        <ol>
          {some.map((row) => (
            <Entry key={rowKey(row)} row={row} isOpen={rowKey(row) === openKey} />
          ))}
        </ol>
      </section>
    ))}
  </div>
);

const keysShown = 3;
/** Characters of a key in the list; the panel shows all of it. */
const charactersShown = 160;

const cut = (key: string): string =>
  key.length > charactersShown ? `${visible(key.slice(0, charactersShown))}…` : visible(key);

/** The object of a change: its key, or the first keys of many. */
function aboutOf({ key, keys = [] }: AuditRow): string {
  if (key !== undefined) return cut(key);
  const first = keys.slice(0, keysShown).map((each) => cut(each.key));
  return keys.length > keysShown ? `${first.join(', ')} … (${w.keys(keys.length)})` : first.join(', ');
}

function Entry({ row, isOpen }: { readonly row: AuditRow; readonly isOpen: boolean }) {
  const [, setSearch] = useSearchState();
  const { time, action, requestId, principal, accessKey, status, changes = [] } = row;
  const name = nameOf(row);
  const actor = principal ?? accessKey;
  return (
    <li class="journal-entry">
      <time class="quiet number" dateTime={time} title={time}>
        {clock.format(new Date(time))}
      </time>
      <div class="journal-what">
        <TargetLink
          to={{ search: { row: rowKey(row) } }}
          label={`${t.ui.details}: ${action} ${requestId}`}
          isOpen={isOpen}
        >
          {action.replace(/^admin:/, '')}
        </TargetLink>{' '}
        <bdi class="code">{aboutOf(row)}</bdi> {status >= 400 && <Status {...row} />}{' '}
        <span class="quiet">
          {w.by}{' '}
          {actor === undefined ? (
            name
          ) : (
            <Button kind="link" title={w.onlyActor(actor)} onClick={() => setSearch({ identity: actor })}>
              <bdi>{name.replace(/^arn:aws:(?:iam|sts)::/, '')}</bdi>
            </Button>
          )}
        </span>
        {changes.length > 0 && (
          <ul class="journal-changes">
            {changes.map(({ field, old, new: now }) => (
              <li key={field} class="code" dir="auto">
                {visible(field)}: <del>{visible(changeText(old))}</del> →{' '}
                <ins>{visible(changeText(now))}</ins>
              </li>
            ))}
          </ul>
        )}
      </div>
      <span class="journal-links">
        <RequestLinks requestId={requestId} status={status} />
        <PageLink page="audit" search={{ requestId }}>
          {t.pages.audit}
        </PageLink>
      </span>
    </li>
  );
}
