/** The objects of a bucket: one level of its keys, uploads, and what may be done with each. */

import { useNavigate, useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { type Target, TargetLink } from '../../app/page-link.tsx';
import { pathOf } from '../../app/pages.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Denied } from '../../ui/forbidden.tsx';
import { Button } from '../../ui/form.tsx';
import { Icon, type IconName } from '../../ui/icons.tsx';
import { CheckCell } from '../../ui/selection.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Bytes, Time } from '../../ui/values.tsx';
import { UploadButtons, UploadOptions, UploadZone, useUploader } from '../uploads/tools.tsx';
import { JobList } from './job-list.tsx';
import {
  type Entry,
  type Listing,
  nameOf,
  placeOf,
  prefixAt,
  type StoredObject,
  useListing,
  visible,
} from './listing.ts';
import { ObjectPanel } from './object-panel.tsx';
import { type Action, ActionDialog } from './transfer.tsx';
import { wordsOfJobs as jobWords, w } from './words.ts';

interface Selection {
  readonly entries: ReadonlyMap<string, Entry>;
  toggle(entry: Entry): void;
  all(): void;
}

function columnsWith(selection: Selection | undefined, count: number): readonly Column<Entry>[] {
  const columns: readonly Column<Entry>[] = [
    {
      id: 'name',
      head: w.name,
      cell: ({ is, key }) => (
        <>
          <Icon name={is === 'folder' ? 'folder' : 'file'} />
          <bdi class="cut" title={visible(key)}>
            {visible(nameOf(key))}
          </bdi>
        </>
      ),
    },
    {
      id: 'size',
      head: w.size,
      align: 'end',
      cell: (row) => (row.is === 'object' ? <Bytes value={row.size} /> : ''),
    },
    {
      id: 'class',
      head: w.storageClass,
      cell: (row) => (row.is === 'object' ? row.storageClass : ''),
      isMinor: true,
    },
    {
      id: 'modified',
      head: w.modified,
      align: 'end',
      cell: (row) => (row.is === 'object' ? <Time at={row.modified} /> : ''),
    },
  ];
  if (selection === undefined) return columns;
  const select: Column<Entry> = {
    id: 'select',
    isControl: true,
    head: () => (
      <CheckCell
        label={w.selectAll}
        checked={count > 0 && selection.entries.size === count}
        disabled={count === 0}
        onChange={selection.all}
      />
    ),
    cell: (entry) => (
      <CheckCell
        label={w.selectOne(visible(nameOf(entry.key)))}
        checked={selection.entries.has(entry.key)}
        onChange={() => selection.toggle(entry)}
      />
    ),
  };
  return [select, ...columns];
}

/** The rows are those of the window. */
const noRows: readonly Entry[] = [];
/** Parameters of the panel. */
const closed = { key: undefined, view: undefined, version: undefined, edit: undefined };
const unseenObject = (key: string): StoredObject => ({
  is: 'object',
  key,
  size: 0,
  modified: '',
  storageClass: '',
  etag: '',
});
const filterText = ({ key }: Entry): string => nameOf(key);

export default function ObjectsPage() {
  const params = useParams({ strict: false }) as { readonly bucket?: string; readonly _splat?: string };
  const { bucket = '' } = params;
  const [search, setSearch] = useSearchState();
  const prefix = prefixAt(params._splat, search['prefix']);
  // What is selected or typed belongs to one level.
  return (
    <Level
      key={`${bucket}/${prefix}`}
      bucket={bucket}
      prefix={prefix}
      search={search}
      setSearch={setSearch}
    />
  );
}

interface LevelProps {
  readonly bucket: string;
  readonly prefix: string;
  readonly search: ReturnType<typeof useSearchState>[0];
  readonly setSearch: ReturnType<typeof useSearchState>[1];
}

function Level({ bucket, prefix, search, setSearch }: LevelProps) {
  const list = { action: 's3:ListBucket', bucket };
  const put = { action: 's3:PutObject', bucket, key: `${prefix}x` };
  const remove = { action: 's3:DeleteObject', bucket, key: `${prefix}x` };
  const read = { action: 's3:GetObject', bucket, key: `${prefix}x` };
  const about = { action: 'admin:GetBucket', bucket };
  const allowed = useAllowed([list, put, remove, read, about]);
  const { listing, isRead, error, retry } = useListing(bucket, prefix, allowed(list) === true);
  const details = useAdmin('GetBucket', { path: { name: bucket } }, { enabled: allowed(about) === true });
  const { selected, setSelected, columns } = useSelection(
    listing,
    [put, remove, read].some((each) => allowed(each) === true),
  );
  const [asked, setAsked] = useState<Asked>();
  const uploader = useUploader(bucket, prefix);
  const goTo = useGoTo(bucket);
  const mayPut = allowed(put) === true;
  const key = search['key'];
  const ask = async (action: Action, entries: readonly Entry[]) => {
    // The dialog says whether a deletion can be undone: another client may have changed the versioning.
    if (action === 'delete' && allowed(about) === true) await details.refetch();
    setAsked({ action, entries });
  };
  const may = { put: mayPut, remove: allowed(remove) === true, read: allowed(read) === true };
  return (
    <>
      <div class="tools-line">
        <Path bucket={bucket} prefix={prefix} />
        <div class="actions">
          <Actions may={may} entries={selected} onAsk={ask} />
          {mayPut && <UploadButtons uploader={uploader} />}
        </div>
      </div>
      {mayPut && <UploadOptions uploader={uploader} />}
      <JobList bucket={bucket} />
      <UploadZone isOpen={mayPut} uploader={uploader}>
        <Card>
          {allowed(list) === false ? (
            <Denied action={list.action} text={w.forbidden} />
          ) : (
            <DataTable
              label={t.pages.objects}
              columns={columns}
              rows={isRead ? noRows : undefined}
              window={listing}
              rowKey={({ key }) => key}
              error={error}
              onRetry={retry}
              filterText={filterText}
              tools={<Jump prefix={prefix} onJump={goTo} />}
              openKey={key}
              linkTo={({ is, key }) =>
                is === 'folder' ? levelTarget(bucket, key) : { search: { ...closed, key } }
              }
              empty={<Empty icon="file" text={w.empty} docs={mayPut ? w.emptyHint : undefined} />}
              more={{ has: listing.hasMore, busy: listing.isBusy, load: listing.loadMore }}
            />
          )}
        </Card>
      </UploadZone>
      <p class="quiet foot">{w.order}</p>
      {key !== undefined && (
        <ObjectPanel
          key={key}
          bucket={bucket}
          objectKey={key}
          actions={<Actions may={may} entries={[unseenObject(key)]} onAsk={ask} isPanel />}
          onClose={() => setSearch(closed)}
        />
      )}
      {asked !== undefined && (
        <ActionDialog
          {...asked}
          bucket={bucket}
          prefix={prefix}
          versioning={details.error ? undefined : details.data?.versioning}
          onStarted={() => {
            setSelected(none);
            if (asked.action !== 'zip' && asked.entries.some((each) => each.key === key)) setSearch(closed);
          }}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  );
}

interface Asked {
  readonly action: Action;
  readonly entries: readonly Entry[];
}

const none: ReadonlyMap<string, Entry> = new Map();

/** What is selected stays so while its rows are far away. */
function useSelection(listing: Listing, isOffered: boolean) {
  const [chosen, setSelected] = useState(none);
  const count = listing.loaded.length;
  const selected = useMemo(() => [...chosen.values()], [chosen]);
  const columns = useMemo(() => {
    const selection: Selection = {
      entries: chosen,
      toggle(entry) {
        const next = new Map(chosen);
        if (!next.delete(entry.key)) next.set(entry.key, entry);
        setSelected(next);
      },
      all: () =>
        setSelected(
          chosen.size === count ? none : new Map(listing.loaded.map((entry) => [entry.key, entry])),
        ),
    };
    return columnsWith(isOffered ? selection : undefined, count);
  }, [chosen, listing, count, isOffered]);
  return { selected, setSelected, columns };
}

interface ActionsProps {
  readonly may: Readonly<Record<'put' | 'remove' | 'read', boolean>>;
  readonly entries: readonly Entry[];
  readonly onAsk: (action: Action, entries: readonly Entry[]) => void;
  /** Of one object: icons. */
  readonly isPanel?: boolean;
}

/** What may be done with the chosen rows. */
function Actions({ may, entries, onAsk, isPanel = false }: ActionsProps) {
  if (entries.length === 0) return null;
  const actions: readonly (readonly [Action, IconName, boolean])[] = [
    ['rename', 'edit', may.read && may.put && may.remove && entries.length === 1],
    ['transfer', 'copy', may.read && may.put],
    ['zip', 'download', may.read && !isPanel],
    ['delete', 'trash', may.remove],
  ];
  return actions.map(([action, icon, isAllowed]) => {
    if (!isAllowed) return null;
    const label = action === 'delete' ? w.remove : jobWords[action];
    return isPanel ? (
      <Button key={action} icon={icon} label={label} onClick={() => onAsk(action, entries)} />
    ) : (
      <Button key={action} icon={icon} onClick={() => onAsk(action, entries)}>
        {`${label} (${entries.length})`}
      </Button>
    );
  });
}

function useGoTo(bucket: string): (prefix: string) => void {
  const navigate = useNavigate();
  return (next) => {
    const { params, search } = levelTarget(bucket, next);
    navigate({ to: pathOf('objects') as '.', params: params as never, search: search as never }).catch(
      () => {},
    );
  };
}

function levelTarget(bucket: string, level: string) {
  const { splat, prefix } = placeOf(level);
  return { page: 'objects', params: { bucket, _splat: splat }, search: { prefix } } satisfies Target;
}

/** The levels above this one. */
function Path({ bucket, prefix }: { readonly bucket: string; readonly prefix: string }) {
  const ends = [...prefix.matchAll(/\//g)].map(({ index }) => index + 1);
  const levels = ['', ...ends.map((end) => prefix.slice(0, end))];
  const rest = prefix.slice(ends.at(-1) ?? 0);
  return (
    <nav class="path" aria-label={w.path}>
      {levels.map((level) => {
        return (
          <TargetLink key={level} to={levelTarget(bucket, level)}>
            <bdi>{level === '' ? `${bucket}/` : visible(nameOf(level))}</bdi>
          </TargetLink>
        );
      })}
      {rest !== '' && <bdi>{`${visible(rest)}…`}</bdi>}
    </nav>
  );
}

function Jump({ prefix, onJump }: { readonly prefix: string; readonly onJump: (prefix: string) => void }) {
  const [text, setText] = useState(prefix);
  return (
    <form
      class="input-row jump"
      onSubmit={(event) => {
        event.preventDefault();
        onJump(text);
      }}
    >
      <input
        class="input"
        type="text"
        aria-label={w.jump}
        placeholder={w.jump}
        spellcheck={false}
        dir="auto"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit">{w.go}</Button>
    </form>
  );
}
