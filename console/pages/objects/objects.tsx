/** The objects of a bucket: one level of its keys, uploads, and what may be done with each. */

import { useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { PageLink } from '../../app/page-link.tsx';
import { pathOf } from '../../app/pages.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Confirm } from '../../ui/confirm.tsx';
import { Button } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Bytes, Count, Time } from '../../ui/values.tsx';
import { UploadButtons, UploadOptions, UploadZone, useUploader } from '../uploads/tools.tsx';
import {
  type Entry,
  isObject,
  nameOf,
  placeOf,
  prefixAt,
  type StoredObject,
  useListing,
  visible,
} from './listing.ts';
import { ObjectPanel } from './object-panel.tsx';
import { type NotDeleted, removeObjects } from './remove.ts';
import { w } from './words.ts';

interface Selection {
  readonly keys: ReadonlySet<string>;
  toggle(key: string): void;
  all(): void;
}

function columnsWith(selection: Selection | undefined, objects: number): readonly Column<Entry>[] {
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
    head: (
      <label class="check-cell">
        <span class="visually-hidden">{w.selectAll}</span>
        <input
          type="checkbox"
          checked={objects > 0 && selection.keys.size === objects}
          disabled={objects === 0}
          onChange={selection.all}
        />
      </label>
    ),
    cell: ({ is, key }) =>
      is === 'object' ? (
        <label class="check-cell">
          <span class="visually-hidden">{w.selectOne(visible(nameOf(key)))}</span>
          <input type="checkbox" checked={selection.keys.has(key)} onChange={() => selection.toggle(key)} />
        </label>
      ) : (
        ''
      ),
  };
  return [select, ...columns];
}

/** The rows are those of the window. */
const noRows: readonly Entry[] = [];
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
  const about = { action: 'admin:GetBucket', bucket };
  const allowed = useAllowed([list, put, remove, about]);
  const { listing, isRead, error, retry } = useListing(bucket, prefix, allowed(list) === true);
  const details = useAdmin('GetBucket', { path: { name: bucket } }, { enabled: allowed(about) === true });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [removing, setRemoving] = useState<readonly StoredObject[]>();
  const [failed, setFailed] = useState<readonly NotDeleted[]>([]);
  const uploader = useUploader(bucket, prefix);
  const goTo = useGoTo(bucket);
  const mayPut = allowed(put) === true;
  const mayRemove = allowed(remove) === true;
  const count = listing.loaded.filter(isObject).length;
  const columns = useMemo(() => {
    const selection: Selection = {
      keys: selected,
      toggle(key) {
        const next = new Set(selected);
        if (!next.delete(key)) next.add(key);
        setSelected(next);
      },
      all() {
        const objects = listing.loaded.filter(isObject);
        setSelected(selected.size === objects.length ? new Set() : new Set(objects.map(({ key }) => key)));
      },
    };
    return columnsWith(mayRemove ? selection : undefined, count);
  }, [selected, listing, count, mayRemove]);
  const key = search['key'];
  const objectsOf = (keys: ReadonlySet<string>) =>
    listing.loaded.filter(isObject).filter((each) => keys.has(each.key));
  return (
    <>
      <div class="tools-line">
        <Path bucket={bucket} prefix={prefix} />
        <div class="actions">
          {selected.size > 0 && (
            <Button icon="trash" onClick={() => setRemoving(objectsOf(selected))}>
              {`${w.remove} (${selected.size})`}
            </Button>
          )}
          {mayPut && <UploadButtons uploader={uploader} />}
        </div>
      </div>
      {mayPut && <UploadOptions uploader={uploader} />}
      {failed.length > 0 && <NotDeletedCard failed={failed} onClose={() => setFailed([])} />}
      <UploadZone isOpen={mayPut} uploader={uploader}>
        <Card>
          {allowed(list) === false ? (
            <Empty icon="lock" text={w.forbidden} />
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
              onOpen={(row) =>
                row.is === 'folder' ? goTo(row.key) : setSearch({ key: row.key }, { push: true })
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
          onRemove={
            mayRemove ? () => setRemoving([objectsOf(new Set([key]))[0] ?? unseenObject(key)]) : undefined
          }
          onClose={() => setSearch({ key: undefined })}
        />
      )}
      {removing !== undefined && (
        <Removal
          bucket={bucket}
          objects={removing}
          versioning={details.data?.versioning}
          onDone={(errors) => {
            setFailed(errors);
            setSelected(new Set());
            if (key !== undefined) setSearch({ key: undefined });
          }}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </>
  );
}

function useGoTo(bucket: string): (prefix: string) => void {
  const navigate = useNavigate();
  return (next) => {
    const place = placeOf(next);
    navigate({
      to: pathOf('objects') as '.',
      params: { bucket, _splat: place.splat } as never,
      search: (place.prefix === undefined ? {} : { prefix: place.prefix }) as never,
    }).catch(() => {});
  };
}

/** The levels above this one. */
function Path({ bucket, prefix }: { readonly bucket: string; readonly prefix: string }) {
  const ends = [...prefix.matchAll(/\//g)].map(({ index }) => index + 1);
  const levels = ['', ...ends.map((end) => prefix.slice(0, end))];
  const rest = prefix.slice(ends.at(-1) ?? 0);
  return (
    <nav class="path" aria-label={w.path}>
      {levels.map((level) => {
        const place = placeOf(level);
        return (
          <PageLink
            key={level}
            page="objects"
            params={{ bucket, _splat: place.splat }}
            search={{ prefix: place.prefix }}
          >
            <bdi>{level === '' ? `${bucket}/` : visible(nameOf(level))}</bdi>
          </PageLink>
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

interface RemovalProps {
  readonly bucket: string;
  readonly objects: readonly StoredObject[];
  /** Undefined where the caller may not read it. */
  readonly versioning: string | undefined;
  readonly onDone: (failed: readonly NotDeleted[]) => void;
  readonly onClose: () => void;
}

function Removal({ bucket, objects, versioning, onDone, onClose }: RemovalProps) {
  const client = useQueryClient();
  const isReversible = versioning === 'Enabled';
  return (
    <Confirm
      title={w.removeAsk(objects.length)}
      text={isReversible ? w.removeMarker : versioning === undefined ? w.removeUnknown : w.removeText}
      impact={[
        [w.objects, <Count key="objects" value={objects.length} />],
        [w.bytes, <Bytes key="bytes" value={objects.reduce((sum, { size }) => sum + size, 0)} />],
      ]}
      isReversible={isReversible}
      action={w.remove}
      onConfirm={async () => {
        const failed = await removeObjects(
          bucket,
          objects.map(({ key }) => key),
        );
        await client.invalidateQueries({ queryKey: ['s3', bucket] });
        onDone(failed);
      }}
      onClose={onClose}
    />
  );
}

const NotDeletedCard = ({
  failed,
  onClose,
}: {
  readonly failed: readonly NotDeleted[];
  readonly onClose: () => void;
}) => (
  <Card
    title={w.notDeleted(failed.length)}
    actions={<Button icon="close" label={t.ui.close} onClick={onClose} />}
  >
    <ul class="warnings">
      {failed.map(({ key, reason }) => (
        <li key={key}>
          <Icon name="error" /> <bdi>{visible(key)}</bdi>: <bdi>{reason}</bdi>
        </li>
      ))}
    </ul>
  </Card>
);
