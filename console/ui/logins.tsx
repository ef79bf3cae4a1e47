/** Log-ins of the console, each with a button that ends it: of all callers for Settings, of the caller itself for My account. */
import type { AdminOperationName, Answer } from '../app/client.ts';
import { useAdmin, useChange } from '../app/queries.ts';
import { t, words } from '../text/text.ts';
import { Chip } from './chip.tsx';
import { Button } from './form.tsx';
import type { Column } from './short-table.tsx';
import { Empty, Failure } from './states.tsx';
import { DataTable } from './table.tsx';
import { Card } from './tabs.tsx';
import { Time } from './values.tsx';

const w = words({
  en: {
    all: 'Log-ins',
    own: 'My log-ins',
    who: 'Who',
    accessKey: 'Access key',
    seen: 'Last request',
    began: 'Began',
    ends: 'Ends',
    from: 'Address',
    agent: 'Browser',
    end: 'End',
    endOf: (source: string) => `End the log-in from ${source}`,
    current: 'this log-in',
  },
  de: {
    all: 'Anmeldungen',
    own: 'Meine Anmeldungen',
    who: 'Wer',
    accessKey: 'Zugriffsschlüssel',
    seen: 'Letzte Anfrage',
    began: 'Begonnen',
    ends: 'Endet',
    from: 'Adresse',
    agent: 'Browser',
    end: 'Beenden',
    endOf: (source) => `Die Anmeldung von ${source} beenden`,
    current: 'diese hier',
  },
});

const everyMs = 30_000;

type Login = Answer<'ListLogins'>['logins'][number] & { readonly isCurrent?: boolean };

const cut = (text: string, shown = text) => (
  <span class="cut" dir="auto" title={text}>
    {shown}
  </span>
);

/** The first that matches: browsers also name those that they are compatible with. */
const browsers: readonly (readonly [name: string, version: RegExp])[] = [
  ['Edge', /\bEdg\w*\/(\d+)/],
  ['Opera', /\bOPR\/(\d+)/],
  ['Firefox', /\b(?:Firefox|FxiOS)\/(\d+)/],
  ['Chrome', /\b(?:Chrome|CriOS|HeadlessChrome)\/(\d+)/],
  ['Safari', /\bVersion\/(\d+).*\bSafari\//],
];
const systems: readonly (readonly [name: string, mark: RegExp])[] = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
];

/** `Firefox 145, Linux`; a client without such a name by its whole text. */
function nameBrowser(agent: string): string {
  for (const [name, version] of browsers) {
    const [, major] = version.exec(agent) ?? [];
    if (major === undefined) continue;
    const system = systems.find(([, mark]) => mark.test(agent));
    return `${name} ${major}${system === undefined ? '' : `, ${system[0]}`}`;
  }
  return agent;
}

/** Of all callers. */
const who: Column<Login> = {
  id: 'who',
  head: w.who,
  cell: ({ principal }) => cut(principal, principal.replace(/^arn:aws:iam::/, '')),
  value: ({ principal }) => principal,
};
/** Of a caller that may have several. */
const key: Column<Login> = {
  id: 'key',
  head: w.accessKey,
  cell: ({ accessKey }) => <span class="code cut">{accessKey}</span>,
  value: ({ accessKey }) => accessKey,
  isWideOnly: true,
};
const columns: readonly Column<Login>[] = [
  {
    id: 'seen',
    head: w.seen,
    cell: ({ seenAt }) => <Time at={seenAt} />,
    value: ({ seenAt }) => seenAt,
  },
  {
    id: 'began',
    head: w.began,
    cell: ({ createdAt }) => <Time at={createdAt} />,
    value: ({ createdAt }) => createdAt,
    isWideOnly: true,
  },
  { id: 'ends', head: w.ends, cell: ({ expiresAt }) => <Time at={expiresAt} />, isWideOnly: true },
  { id: 'from', head: w.from, cell: ({ source }) => <span class="code">{source}</span> },
  { id: 'agent', head: w.agent, cell: ({ agent }) => cut(agent, nameBrowser(agent)), isMinor: true },
];

interface TableProps {
  readonly title: string;
  readonly list: Extract<AdminOperationName, 'ListLogins' | 'ListOwnLogins'>;
  readonly end: Extract<AdminOperationName, 'RevokeLogin' | 'RevokeOwnLogin'>;
  readonly mayEnd: boolean;
  readonly first: Column<Login>;
}

function Logins({ title, list, end, mayEnd, first }: TableProps) {
  const logins = useAdmin(list, {}, { everyMs });
  const revoke = useChange(end, [list]);
  const last: Column<Login> = {
    id: 'end',
    head: () => <span class="visually-hidden">{w.end}</span>,
    // A log-out ends the log-in of this page, and the page knows of it.
    cell: ({ id, source, isCurrent = false }) =>
      isCurrent ? (
        <Chip tone="accent" icon="user">
          {w.current}
        </Chip>
      ) : (
        mayEnd && (
          <Button kind="link" label={w.endOf(source)} onClick={() => revoke.mutate({ path: { id } })}>
            {w.end}
          </Button>
        )
      ),
    align: 'end',
  };
  return (
    <Card title={title}>
      <DataTable<Login>
        label={title}
        name="logins-"
        columns={[
          first,
          ...columns.map((column) => (column.id === 'from' ? { ...column, isMinor: first === who } : column)),
          last,
        ]}
        rows={logins.data?.logins}
        error={logins.error}
        onRetry={() => logins.refetch()}
        rowKey={({ id }) => id}
        skeletonRows={2}
        empty={<Empty text={t.ui.none} />}
      />
      {revoke.error && <Failure error={revoke.error} />}
    </Card>
  );
}

export const AllLogins = ({ mayEnd }: Pick<TableProps, 'mayEnd'>) => (
  <Logins title={w.all} list="ListLogins" end="RevokeLogin" mayEnd={mayEnd} first={who} />
);

export const OwnLogins = () => (
  <Logins title={w.own} list="ListOwnLogins" end="RevokeOwnLogin" mayEnd first={key} />
);
