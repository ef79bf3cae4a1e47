/** The configurations of a bucket: which are set, and an editor for each. */
import { useParams } from '@tanstack/react-router';
import { useState } from 'preact/hooks';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { useAllowed } from '../../app/allowed.ts';
import { useSession } from '../../app/session.tsx';
import { useSearchState } from '../../app/url.ts';
import { useConfigurations } from '../../storage/configurations.ts';
import { storageFamilies, toRead, toRemove, toWrite } from '../../storage/families.ts';
import { Chip } from '../../ui/chip.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Denied } from '../../ui/forbidden.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card } from '../../ui/tabs.tsx';
import { Editor, type EditorProps } from './editor.tsx';
import { adminStore, storageStore } from './stores.ts';
import { w } from './words.ts';

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
  const { session } = useSession();
  const { by, families: readable, query: list } = useConfigurations(bucket);
  const [search, setSearch] = useSearchState();
  if (by === 'forbidden') {
    const action = session.isOperator ? 'admin:ListBucketConfigurations' : storageFamilies.policy.reads;
    return <Denied action={action} />;
  }
  const stored = list.data;
  const rows = stored && readable.map((family) => ({ family, stored: stored[family] }));
  const hidden = families.filter((family) => !readable.includes(family));
  const open = rows?.find(({ family }) => family === search['family']);
  const close = () => setSearch({ family: undefined, entry: undefined, view: undefined });
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
          linkTo={({ family }) => ({ search: { family, entry: undefined } })}
          openKey={open?.family}
          empty={null}
        />
        {rows !== undefined && (
          <p class="quiet card-line foot">
            {w.answer(rows.filter((row) => row.stored !== undefined).length, rows.length)}
            {hidden.length > 0 && (
              <>
                {' '}
                {w.hidden} <span class="code">{hidden.join(', ')}</span>.
              </>
            )}
          </p>
        )}
      </Card>
      {open !== undefined && (
        <Panel title={open.family} onClose={close}>
          <p class="quiet">{w.families[open.family]}</p>
          {by === 'operator-api' ? (
            <Details key={`${bucket}/${open.family}`} bucket={bucket} row={open} />
          ) : (
            <StorageDetails key={`${bucket}/${open.family}`} bucket={bucket} row={open} />
          )}
        </Panel>
      )}
    </>
  );
}

interface DetailsProps {
  readonly bucket: string;
  readonly row: Row;
}

/** For callers of the operator API. */
function Details(props: DetailsProps) {
  const { bucket, row } = props;
  const { family } = row;
  const id = useEntry(family);
  const hasIds = withIds.has(family);
  const suffix = hasIds ? 'Entry' : '';
  const path = `buckets/${bucket}/configurations/${family}${hasIds ? `/${id ?? '*'}` : ''}`;
  const toAsk = (verb: string) => ({ action: `admin:${verb}BucketConfiguration${suffix}`, bucket, path });
  const allowed = useAllowed([toAsk('Put'), toAsk('Delete'), 'GetOpenApi']);
  return (
    <Document
      {...props}
      store={adminStore({ bucket, family, id })}
      mayPut={allowed(toAsk('Put'))}
      mayRemove={allowed(toAsk('Delete')) === true && !lasting.has(family)}
      mayReadSchema={allowed('GetOpenApi') === true}
    />
  );
}

/** For other callers, in the storage protocol. */
function StorageDetails(props: DetailsProps) {
  const { bucket, row } = props;
  const { family } = row;
  const id = useEntry(family);
  const allowed = useAllowed([toRead(family, bucket), toWrite(family, bucket), toRemove(family, bucket)]);
  return (
    <Document
      {...props}
      store={storageStore({ bucket, family, id })}
      mayPut={allowed(toWrite(family, bucket))}
      mayRemove={allowed(toRemove(family, bucket)) === true && storageFamilies[family].isRemovable}
      mayReadSchema
    />
  );
}

/** The id in the address, of a family with several configurations. */
function useEntry(family: ConfigurationFamily): string | undefined {
  const [search] = useSearchState();
  return withIds.has(family) ? search['entry'] : undefined;
}

interface DocumentProps extends DetailsProps, Pick<EditorProps, 'store' | 'mayRemove' | 'mayReadSchema'> {
  readonly mayPut: boolean | undefined;
}

function Document({ row: { family, stored }, mayPut, ...rest }: DocumentProps) {
  const [, setSearch] = useSearchState();
  const id = useEntry(family);
  if (withIds.has(family) && id === undefined)
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
      {...rest}
      family={family}
      {...(id === undefined ? { stored } : { id, stored: entries?.[id] })}
      mayPut={mayPut}
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
          linkTo={(row) => ({ search: { entry: row.id } })}
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
