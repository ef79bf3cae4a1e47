/** Open uploads of a bucket: who left parts in it, how many and for how long, and how they are aborted. */
import { useQueryClient } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'preact/hooks';
import { inParallel } from '../../../src/base/concurrency.ts';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { Answer } from '../../app/client.ts';
import { useAdminPages } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { formatNumber } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Confirm } from '../../ui/confirm.tsx';
import { ForbiddenCard } from '../../ui/forbidden.tsx';
import { Button, Select } from '../../ui/form.tsx';
import { useSelection } from '../../ui/selection.tsx';
import { bytesColumn, type Column, countColumn } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Bytes, Count, formatBytes, Time } from '../../ui/values.tsx';
import { visible } from '../objects/listing.ts';
import { NotDoneCard } from '../objects/not-done.tsx';
import { type NotDone, notDone } from '../objects/remove.ts';
import { useUploads } from './queue.ts';
import { abortUpload, partsAtOnce } from './transfer.ts';
import { w } from './words.ts';

type Row = Answer<'ListOpenUploads'>['rows'][number];

const everyMs = 30_000;
const seconds = { any: 0, hour: 3_600, day: 86_400, week: 604_800 } as const;
const ages = Object.keys(seconds) as readonly (keyof typeof seconds)[];
const rowKey = ({ uploadId }: Row): string => uploadId;
const filterText = ({ key }: Row): string => key;

const labelOf = ({ key }: Row): string => w.selectOne(visible(key));

function columnsWith(own: ReadonlySet<string>): readonly Column<Row>[] {
  return [
    {
      id: 'key',
      head: w.key,
      cell: ({ key, uploadId }) => (
        <>
          <bdi class="cut" title={visible(key)}>
            {visible(key)}
          </bdi>
          {own.has(uploadId) && <Chip tone="accent">{w.here}</Chip>}
        </>
      ),
      value: ({ key }) => key,
    },
    {
      id: 'age',
      head: w.age,
      align: 'end',
      cell: ({ initiated }) => <Time at={initiated} />,
      value: ({ initiated }) => initiated,
    },
    bytesColumn('bytes', { head: w.size, value: ({ bytes }) => bytes }),
    countColumn('parts', { head: w.parts, value: ({ parts }) => parts, isMinor: true }),
    {
      id: 'initiator',
      head: w.initiator,
      cell: ({ initiator }) => (
        <bdi class="cut" title={initiator}>
          {initiator.split('/').at(-1)}
        </bdi>
      ),
      value: ({ initiator }) => initiator,
      isWideOnly: true,
    },
    { id: 'class', head: w.storageClass, cell: ({ storageClass }) => storageClass, isMinor: true },
  ];
}

export default function UploadsPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const [search, setSearch] = useSearchState();
  const list = onBucket('ListOpenUploads', bucket);
  const abort = { action: 's3:AbortMultipartUpload', bucket, key: 'x' };
  const allowed = useAllowed([list, abort]);
  const found = useAdminPages(
    'ListOpenUploads',
    { path: { name: bucket } },
    { rowsOf: ({ rows }) => rows, everyMs, enabled: allowed(list) === true },
  );
  const [aborting, setAborting] = useState<readonly Row[]>();
  const [failed, setFailed] = useState<readonly NotDone[]>([]);
  const own = useOwnIds(bucket);
  const age = ages.find((each) => each === search['older']) ?? 'any';
  const rows = useMemo(
    () => found.rows?.filter(({ ageSeconds }) => ageSeconds >= seconds[age]),
    [found.rows, age],
  );
  const mayAbort = allowed(abort) === true;
  const { selected, column, clear } = useSelection({ rows, rowKey, labelOfAll: w.selectAll, labelOf });
  const columns = useMemo(
    () => (mayAbort ? [column, ...columnsWith(own)] : columnsWith(own)),
    [column, mayAbort, own],
  );
  if (allowed(list) === false) return <ForbiddenCard action={list.action} />;
  return (
    <>
      <div class="tools-line">
        <p class="answer">
          <Answered rows={found.rows} hasMore={found.hasNextPage} />
        </p>
        {selected.length > 0 && (
          <Button icon="trash" onClick={() => setAborting(selected)}>
            {w.abortCount(selected.length)}
          </Button>
        )}
      </div>
      <NotDoneCard title={w.notAborted(failed.length)} failed={failed} onClose={() => setFailed([])} />
      <Card>
        <DataTable
          label={w.openTitle}
          columns={columns}
          rows={rows}
          rowKey={rowKey}
          error={found.error}
          onRetry={() => found.refetch().catch(() => {})}
          filterText={filterText}
          tools={
            <Select
              label={w.older}
              value={age}
              onChange={(next) => setSearch({ older: next === 'any' ? undefined : next })}
              options={ages.map((each) => [each, w.olderThan[each]])}
            />
          }
          empty={<Empty icon="upload" text={w.openNone} docs={w.openHint} />}
          more={found.more}
        />
      </Card>
      {aborting !== undefined && (
        <Abortion
          bucket={bucket}
          rows={aborting}
          onDone={(errors) => {
            setFailed(errors);
            clear();
          }}
          onClose={() => setAborting(undefined)}
        />
      )}
    </>
  );
}

/** The ids of what this tab itself sends; a new set only where they change, because the table depends on it. */
function useOwnIds(bucket: string): ReadonlySet<string> {
  const ids = useUploads().flatMap((each) =>
    each.bucket === bucket && each.session !== undefined ? [each.session.uploadId] : [],
  );
  const text = ids.sort().join(' ');
  return useMemo(() => new Set(text === '' ? [] : text.split(' ')), [text]);
}

function Answered({
  rows,
  hasMore,
}: {
  readonly rows: readonly Row[] | undefined;
  readonly hasMore: boolean;
}) {
  if (rows === undefined) return null;
  if (rows.length === 0) return w.openNone;
  const count = formatNumber(rows.length);
  if (hasMore) return w.openFirst(count);
  return w.openAnswer(count, formatBytes(rows.reduce((sum, { bytes }) => sum + bytes, 0)));
}

interface AbortionProps {
  readonly bucket: string;
  readonly rows: readonly Row[];
  readonly onDone: (failed: readonly NotDone[]) => void;
  readonly onClose: () => void;
}

function Abortion({ bucket, rows, onDone, onClose }: AbortionProps) {
  const client = useQueryClient();
  return (
    <Confirm
      title={w.abortAsk(rows.length)}
      text={w.abortText}
      impact={[
        [w.uploads, <Count key="uploads" value={rows.length} />],
        [w.parts, <Count key="parts" value={rows.reduce((sum, { parts }) => sum + parts, 0)} />],
        [w.size, <Bytes key="bytes" value={rows.reduce((sum, { bytes }) => sum + bytes, 0)} />],
      ]}
      isReversible={false}
      action={w.abort}
      onConfirm={async () => {
        const { signal } = new AbortController();
        const failed = await inParallel(partsAtOnce, rows, async ({ key, uploadId }) => {
          try {
            await abortUpload({ bucket, key, uploadId }, signal);
            return [];
          } catch (cause) {
            return [notDone(key, cause)];
          }
        });
        await client.invalidateQueries({ queryKey: ['ListOpenUploads'] });
        onDone(failed.flat());
      }}
      onClose={onClose}
    />
  );
}
