/** Settings: what is in force and why, the level of the log, log-ins, version, and the support bundle. */
import { useAllowed } from '../../app/allowed.ts';
import { type Answer, addressOf } from '../../app/client.ts';
import { useAdmin, useChange } from '../../app/queries.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Forbidden } from '../../ui/forbidden.tsx';
import { Select } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { AllLogins } from '../../ui/logins.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty, Failure, Reading } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, LoadingCard, PageHead } from '../../ui/tabs.tsx';
import { w } from './words.ts';

type Setting = Answer<'ListSettings'>['rows'][number];
type Level = Answer<'GetLogLevel'>['level'];

const levels: readonly Level[] = ['DEBUG', 'INFO', 'WARN', 'ERROR'];

const columns: readonly Column<Setting>[] = [
  {
    id: 'name',
    head: w.name,
    cell: ({ name }) => <span class="code unabridged">{name}</span>,
    value: ({ name }) => name,
  },
  {
    id: 'value',
    head: w.value,
    cell: ({ value }) =>
      value ? (
        <span class="code cut" dir="auto" title={value}>
          {value}
        </span>
      ) : (
        <span class="quiet">{w.unset}</span>
      ),
  },
  {
    id: 'source',
    head: w.source,
    cell: ({ source }) =>
      source === 'default' ? (
        <span class="quiet">{w.sources[source]}</span>
      ) : (
        <Chip tone="accent" icon="sliders">
          {w.sources[source]}
        </Chip>
      ),
    value: ({ source }) => source,
    isWideOnly: true,
  },
  {
    id: 'doc',
    head: w.meaning,
    cell: ({ doc }) => (
      <span class="two-lines quiet" title={doc}>
        {doc.replaceAll('`', '')}
      </span>
    ),
    isMinor: true,
  },
];

const reads = ['ListSettings', 'GetVersion', 'GetLogLevel', 'ListLogins', 'GetSupportBundle'] as const;

export default function SettingsPage() {
  const allowed = useAllowed([...reads, 'PutLogLevel', 'RevokeLogin']);
  const may = (name: Parameters<typeof allowed>[0]) => allowed(name) === true;
  const settings = useAdmin('ListSettings', {}, { enabled: may('ListSettings') });
  const version = useAdmin('GetVersion', {}, { enabled: may('GetVersion') });
  if (reads.every((each) => allowed(each) === false))
    return <Forbidden title={t.pages.settings} operation="ListSettings" />;
  return (
    <>
      <PageHead
        title={t.pages.settings}
        answer={version.data && w.versionSentence(version.data)}
        actions={
          may('GetSupportBundle') && (
            <a class="button" href={addressOf('GetSupportBundle')} download>
              <Icon name="download" /> {w.bundle}
            </a>
          )
        }
      />
      {allowed('ListSettings') === undefined && <LoadingCard />}
      {may('GetLogLevel') && <LogLevel mayChange={may('PutLogLevel')} />}
      {may('ListLogins') && <AllLogins mayEnd={may('RevokeLogin')} />}
      {may('ListSettings') && (
        <Card title={w.settings}>
          <DataTable
            label={w.settings}
            columns={columns}
            rows={settings.data?.rows}
            error={settings.error}
            onRetry={() => settings.refetch()}
            rowKey={({ name }) => name}
            filterText={({ name, value, doc }) => `${name} ${value ?? ''} ${doc}`}
            empty={<Empty text={t.ui.none} />}
          />
        </Card>
      )}
    </>
  );
}

function LogLevel({ mayChange }: { readonly mayChange: boolean }) {
  const level = useAdmin('GetLogLevel');
  const put = useChange('PutLogLevel', ['GetLogLevel']);
  return (
    <Card title={w.log}>
      <Reading query={level} rows={1}>
        {(found) => (
          <div class="line">
            <strong class="line-name">{w.level}</strong>
            <div class="line-body">
              {mayChange ? (
                <Select
                  label={w.level}
                  value={found.level}
                  options={levels.map((each) => [each, each])}
                  onChange={(next) => put.mutate({ body: { level: next } })}
                />
              ) : (
                <span class="code">{found.level}</span>
              )}
              <span class="quiet" role="status">
                {put.isSuccess ? w.levelSaved : w.levelHint}
              </span>
            </div>
          </div>
        )}
      </Reading>
      {put.error && <Failure error={put.error} />}
    </Card>
  );
}
