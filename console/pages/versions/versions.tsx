/** The versions of all objects of a bucket, delete markers among them: restored, brought back, or deleted for good. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { useAllowed } from '../../app/allowed.ts';
import { PageLink } from '../../app/page-link.tsx';
import { moreOf } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { storage } from '../../storage/client.ts';
import { readBucketAgain } from '../../storage/queries.ts';
import { decodeName, textIn } from '../../storage/xml.ts';
import { Chip } from '../../ui/chip.tsx';
import { Confirm } from '../../ui/confirm.tsx';
import { Copy } from '../../ui/copy.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/facts.tsx';
import { ForbiddenCard } from '../../ui/forbidden.tsx';
import { Button, SearchInput, Select } from '../../ui/form.tsx';
import { useSelection } from '../../ui/selection.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Bytes, Count, formatBytes, Time } from '../../ui/values.tsx';
import { visible } from '../objects/listing.ts';
import { NotDoneCard } from '../objects/not-done.tsx';
import { type NotDone, removeObjects } from '../objects/remove.ts';
import { compareAges, readVersion, type Version, VersionPart } from '../objects/versions.tsx';
import { w } from './words.ts';

interface Row extends Version {
  readonly key: string;
}

const pageRows = 1_000;
const kinds = ['all', 'old', 'markers', 'deleted'] as const;
type Kind = (typeof kinds)[number];

const rowKey = ({ key, versionId }: Row): string => `${versionId} ${key}`;

interface Place {
  readonly key: string;
  readonly version: string;
}

interface Page {
  readonly rows: readonly Row[];
  readonly next: Place | undefined;
}

function readPage(xml: Element | undefined): Page {
  if (xml === undefined) return { rows: [], next: undefined };
  const rows = [...xml.children]
    .filter(({ localName }) => localName === 'Version' || localName === 'DeleteMarker')
    .map((each) => ({ key: decodeName(textIn(each, 'Key')), ...readVersion(each) }));
  const key = textIn(xml, 'NextKeyMarker');
  return {
    rows: rows.sort(compareRows),
    next:
      key === undefined
        ? undefined
        : { key: decodeName(key), version: textIn(xml, 'NextVersionIdMarker') ?? '' },
  };
}

/** Sorts a page, because a gateway may list the markers after the versions. */
const compareRows = (one: Row, other: Row): number =>
  one.key === other.key ? compareAges(one, other) : one.key < other.key ? -1 : 1;

const useVersions = (bucket: string, prefix: string, enabled: boolean) =>
  useInfiniteQuery({
    queryKey: ['s3', bucket, 'versions', prefix],
    queryFn: async ({ signal, pageParam }) => {
      const { xml } = await storage({
        method: 'GET',
        bucket,
        query: {
          versions: '',
          'encoding-type': 'url',
          'max-keys': String(pageRows),
          ...(prefix === '' ? {} : { prefix }),
          ...(pageParam === undefined
            ? {}
            : { 'key-marker': pageParam.key, 'version-id-marker': pageParam.version || undefined }),
        },
        signal,
      });
      return readPage(xml);
    },
    initialPageParam: undefined as Place | undefined,
    getNextPageParam: ({ next }) => next,
    enabled,
  });

const matches: Readonly<Record<Kind, (row: Row) => boolean>> = {
  all: () => true,
  old: ({ isLatest, isMarker }) => !isLatest && !isMarker,
  markers: ({ isMarker }) => isMarker,
  deleted: ({ isLatest, isMarker }) => isLatest && isMarker,
};

const State = ({ isLatest, isMarker }: Pick<Row, 'isLatest' | 'isMarker'>) => (
  <>
    {isMarker && (
      <Chip tone="warn" icon="trash">
        {w.marker}
      </Chip>
    )}{' '}
    {isLatest ? <Chip tone="good">{w.latest}</Chip> : !isMarker && <Chip tone="neutral">{w.old}</Chip>}
  </>
);

const columns: readonly Column<Row>[] = [
  {
    id: 'key',
    head: w.key,
    cell: ({ key }) => (
      <bdi class="cut unabridged" title={visible(key)}>
        {visible(key)}
      </bdi>
    ),
  },
  {
    id: 'version',
    head: w.version,
    cell: ({ versionId }) => <span class="code cut">{versionId}</span>,
    isWideOnly: true,
  },
  {
    id: 'state',
    head: w.state,
    cell: ({ isLatest, isMarker }) => <State isLatest={isLatest} isMarker={isMarker} />,
  },
  {
    id: 'size',
    head: w.size,
    align: 'end',
    cell: ({ size, isMarker }) => (isMarker ? <span class="quiet">–</span> : <Bytes value={size} />),
  },
  {
    id: 'modified',
    head: w.modified,
    cell: ({ modified }) => <Time at={modified} />,
    align: 'end',
    isMinor: true,
  },
];

const labelOf = ({ key, versionId }: Row): string => w.selectOne(`${visible(key)} ${versionId}`);

export default function VersionsPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const [search, setSearch] = useSearchState();
  const list = { action: 's3:ListBucketVersions', bucket };
  const remove = { action: 's3:DeleteObjectVersion', bucket, key: 'x' };
  const allowed = useAllowed([list, remove]);
  const { prefix = '' } = search;
  const found = useVersions(bucket, prefix, allowed(list) === true);
  const kind = kinds.find((each) => each === search['only']) ?? 'all';
  const loaded = useMemo(() => found.data?.pages.flatMap(({ rows }) => rows), [found.data]);
  const rows = useMemo(() => loaded?.filter(matches[kind]), [loaded, kind]);
  const [removing, setRemoving] = useState<readonly Row[]>();
  const [failed, setFailed] = useState<readonly NotDone[]>([]);
  const mayRemove = allowed(remove) === true;
  const { selected, column, clear } = useSelection({ rows, rowKey, labelOfAll: w.selectAll, labelOf });
  const shown = useMemo(() => (mayRemove ? [column, ...columns] : columns), [column, mayRemove]);
  const open = loaded?.find((row) => rowKey(row) === search['row']);
  if (allowed(list) === false) return <ForbiddenCard action={list.action} />;
  const none = prefix === '' ? w.none : <bdi>{w.noPrefix(visible(prefix))}</bdi>;
  return (
    <>
      <div class="tools-line">
        <p class="answer">
          {loaded !== undefined && <Answered rows={loaded} isPartial={found.hasNextPage} none={none} />}
        </p>
        {selected.length > 0 && (
          <Button icon="trash" onClick={() => setRemoving(selected)}>
            {w.removeCount(selected.length)}
          </Button>
        )}
      </div>
      <NotDoneCard title={w.notRemoved(failed.length)} failed={failed} onClose={() => setFailed([])} />
      <Card>
        <DataTable
          label={w.title}
          columns={shown}
          rows={rows}
          rowKey={rowKey}
          error={found.error}
          onRetry={() => found.refetch().catch(() => {})}
          openKey={search['row']}
          linkTo={(row) => ({ search: { row: rowKey(row), version: undefined } })}
          tools={
            <>
              <SearchInput
                label={w.prefix}
                value={prefix}
                onSearch={(text, how) => setSearch({ prefix: text, row: undefined }, how)}
              />
              <Select
                label={w.only}
                value={kind}
                options={kinds.map((each) => [each, w.kinds[each] ?? each] as const)}
                onChange={(only) => setSearch({ only: only === 'all' ? undefined : only })}
              />
            </>
          }
          empty={
            loaded?.length !== 0 ? (
              <Empty icon="search" text={w.noMatch} />
            ) : prefix === '' ? (
              <Empty icon="clock" text={w.none} docs={w.noneHint} />
            ) : (
              <Empty icon="search" text={none} />
            )
          }
          more={moreOf(found)}
        />
      </Card>
      <p class="quiet foot">{w.order}</p>
      {open !== undefined && (
        <VersionPanel
          bucket={bucket}
          row={open}
          latest={loaded?.find((row) => row.key === open.key && row.isLatest)}
          onClose={() => setSearch({ row: undefined })}
        />
      )}
      {removing !== undefined && (
        <Removal
          bucket={bucket}
          rows={removing}
          onDone={(errors) => {
            setFailed(errors);
            clear();
          }}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </>
  );
}

/** What the loaded versions hold. */
interface AnsweredProps {
  readonly rows: readonly Row[];
  readonly isPartial: boolean;
  /** What is said where nothing was found. */
  readonly none: ComponentChildren;
}

function Answered({ rows, isPartial, none }: AnsweredProps) {
  if (rows.length === 0) return <>{none}</>;
  const markers = rows.filter(({ isMarker }) => isMarker).length;
  const old = rows.filter(matches.old).reduce((sum, { size }) => sum + size, 0);
  const parts = [
    w.answer(w.versionCount(rows.length - markers), w.keyCount(new Set(rows.map(({ key }) => key)).size)),
    ...(markers === 0 ? [] : [w.markerCount(markers)]),
    ...(old === 0 ? [] : [w.oldBytes(formatBytes(old))]),
    ...(isPartial ? [w.loadedOnly] : []),
  ];
  return <>{parts.join(' · ')}</>;
}

interface PanelProps {
  readonly bucket: string;
  readonly row: Row;
  readonly latest: Version | undefined;
  readonly onClose: () => void;
}

const VersionPanel = ({ bucket, row, latest, onClose }: PanelProps) => (
  <Panel title={<bdi title={visible(row.key)}>{visible(row.key)}</bdi>} onClose={onClose}>
    <Facts
      facts={[
        [w.key, <Copy key="key" text={row.key} shown={visible(row.key)} />],
        [w.version, <Copy key="version" text={row.versionId} />],
        [w.state, <State key="state" isLatest={row.isLatest} isMarker={row.isMarker} />],
        [w.size, !row.isMarker && <Bytes key="size" value={row.size} />],
        [w.modified, <Time key="time" at={row.modified} />],
        ['ETag', row.etag !== '' && <Copy key="etag" text={row.etag.replaceAll('"', '')} />],
      ]}
    />
    <VersionPart bucket={bucket} objectKey={row.key} version={row} latest={latest} />
    <div class="actions">
      <PageLink
        page="objects"
        params={{ bucket, _splat: '' }}
        search={{ key: row.key, view: 'versions', version: row.versionId }}
        class="button"
      >
        {w.openObject}
      </PageLink>
    </div>
  </Panel>
);

interface RemovalProps {
  readonly bucket: string;
  readonly rows: readonly Row[];
  readonly onDone: (failed: readonly NotDone[]) => void;
  readonly onClose: () => void;
}

function Removal({ bucket, rows, onDone, onClose }: RemovalProps) {
  const markers = rows.filter(({ isMarker }) => isMarker);
  const versions = rows.filter(({ isMarker }) => !isMarker);
  const back = markers.filter(({ isLatest }) => isLatest).length;
  return (
    <Confirm
      title={w.removeAsk(rows.length)}
      text={w.removeText}
      impact={[
        [w.versions, <Count key="versions" value={versions.length} />],
        [w.bytes, <Bytes key="bytes" value={versions.reduce((sum, { size }) => sum + size, 0)} />],
        [w.latestOnes, <Count key="latest" value={versions.filter(({ isLatest }) => isLatest).length} />],
        [w.markers, <Count key="markers" value={markers.length} />],
        ...(back === 0 ? [] : [[w.back, <Count key="back" value={back} />] as const]),
      ]}
      typed={bucket}
      action={w.remove}
      onConfirm={async () => {
        const { failed } = await removeObjects(
          bucket,
          rows.map(({ key, versionId }) => ({ key, versionId })),
          new AbortController().signal,
        );
        await readBucketAgain(bucket);
        onDone(failed);
      }}
      onClose={onClose}
    />
  );
}
