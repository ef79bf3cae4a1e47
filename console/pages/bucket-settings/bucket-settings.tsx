/** The configurations of a bucket: which are set, and an editor for each. */
import { useParams } from '@tanstack/react-router';
import { useState } from 'preact/hooks';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import { useAdmin } from '../../app/queries.ts';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Editor } from './editor.tsx';
import { w } from './words.ts';

const everyMs = 30_000;

// The cast: the words have every family, and no more.
const families = Object.keys(w.families) as readonly ConfigurationFamily[];
/** A bucket has several of these, each with an id. */
const withIds: ReadonlySet<ConfigurationFamily> = new Set(['inventory']);
/** These can be changed, but not removed. */
const lasting: ReadonlySet<ConfigurationFamily> = new Set(['object-lock', 'versioning']);

interface Row {
  readonly family: ConfigurationFamily;
  readonly stored: unknown;
}

const countOf = ({ family, stored }: Row): number =>
  withIds.has(family) && typeof stored === 'object' ? Object.keys(stored ?? {}).length : 1;

const StateChip = ({ row }: { readonly row: Row }) =>
  row.stored === undefined ? (
    <Chip>{w.notSet}</Chip>
  ) : (
    <Chip tone="good">{withIds.has(row.family) ? w.several(countOf(row)) : w.set}</Chip>
  );

const columns: readonly Column<Row>[] = [
  {
    id: 'family',
    head: w.family,
    cell: ({ family }) => <span class="code">{family}</span>,
    value: ({ family }) => family,
  },
  {
    id: 'state',
    head: w.state,
    cell: (row) => <StateChip row={row} />,
    value: ({ stored }) => (stored === undefined ? 1 : 0),
  },
  {
    id: 'about',
    head: w.about,
    cell: ({ family }) => <span class="quiet">{w.families[family]}</span>,
    isMinor: true,
  },
];

export default function BucketSettingsPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const ask = onBucket('ListBucketConfigurations', bucket);
  const allowed = useAllowed([ask]);
  const list = useAdmin(
    'ListBucketConfigurations',
    { path: { name: bucket } },
    { everyMs, enabled: allowed(ask) === true },
  );
  const [search, setSearch] = useSearchState();
  if (allowed(ask) === false) return <Empty icon="lock" text={t.shell.forbidden(ask.action)} />;
  // The cast: the documents of the families have no common type.
  const stored = list.data?.configurations as Readonly<Record<string, unknown>> | undefined;
  const rows = stored && families.map((family) => ({ family, stored: stored[family] }));
  const open = rows?.find(({ family }) => family === search['family']);
  const close = () => setSearch({ family: undefined, entry: undefined });
  return (
    <>
      <Card title={w.configurations}>
        <DataTable
          label={w.configurations}
          columns={columns}
          rows={rows}
          error={list.error}
          onRetry={() => list.refetch().catch(() => {})}
          rowKey={({ family }) => family}
          filterText={({ family }) => `${family} ${w.families[family]}`}
          onOpen={({ family }) => setSearch({ family, entry: undefined }, { push: true })}
          openKey={open?.family}
          empty={null}
        />
        {rows !== undefined && (
          <p class="quiet card-line foot">
            {w.answer(rows.filter((row) => row.stored !== undefined).length, rows.length)}
          </p>
        )}
      </Card>
      {open !== undefined && (
        <Panel title={open.family} onClose={close}>
          <p class="quiet">{w.families[open.family]}</p>
          <Details key={`${bucket}/${open.family}`} bucket={bucket} row={open} />
        </Panel>
      )}
    </>
  );
}

interface DetailsProps {
  readonly bucket: string;
  readonly row: Row;
}

function Details({ bucket, row: { family, stored } }: DetailsProps) {
  const [search, setSearch] = useSearchState();
  const hasIds = withIds.has(family);
  const id = hasIds ? search['entry'] : undefined;
  const suffix = hasIds ? 'Entry' : '';
  const path = `buckets/${bucket}/configurations/${family}${hasIds ? `/${id ?? '*'}` : ''}`;
  const toAsk = (verb: string) => ({ action: `admin:${verb}BucketConfiguration${suffix}`, bucket, path });
  const allowed = useAllowed([toAsk('Put'), toAsk('Delete'), 'GetOpenApi']);
  const mayPut = allowed(toAsk('Put'));
  if (hasIds && id === undefined)
    return (
      <Entries
        stored={stored}
        mayPut={mayPut === true}
        onOpen={(entry) => setSearch({ entry }, { push: true })}
      />
    );
  // Until it is known whether the document may be changed, nothing is shown that would become read-only.
  if (mayPut === undefined) return null;
  const entries = stored as Readonly<Record<string, unknown>> | undefined;
  return (
    <Editor
      key={id}
      bucket={bucket}
      family={family}
      {...(id === undefined ? { stored } : { id, stored: entries?.[id] })}
      mayPut={mayPut}
      mayRemove={allowed(toAsk('Delete')) === true && !lasting.has(family)}
      mayReadSchema={allowed('GetOpenApi') === true}
      onRemoved={() => setSearch(id === undefined ? { family: undefined } : { entry: undefined })}
    />
  );
}

interface EntriesProps {
  readonly stored: unknown;
  readonly mayPut: boolean;
  readonly onOpen: (id: string) => void;
}

function Entries({ stored, mayPut, onOpen }: EntriesProps) {
  const [id, setId] = useState('');
  const rows = Object.keys((stored as object | undefined) ?? {}).map((each) => ({ id: each }));
  return (
    <>
      {rows.length > 0 && (
        <DataTable
          label={w.entries}
          name="entries-"
          columns={[{ id: 'id', head: w.entries, cell: (row) => <bdi class="code">{row.id}</bdi> }]}
          rows={rows}
          rowKey={(row) => row.id}
          onOpen={(row) => onOpen(row.id)}
          empty={null}
        />
      )}
      {mayPut && (
        <Form submit={w.open} disabled={id === ''} onSubmit={async () => onOpen(id)}>
          {() => <TextField label={w.newId} value={id} onChange={setId} code />}
        </Form>
      )}
    </>
  );
}
