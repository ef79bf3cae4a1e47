/** What the tabs of Identity have in common: head, tabs, the choice of the account, the list, the panels, and the deletion. */
import type { ComponentChildren, ComponentProps } from 'preact';
import { useState } from 'preact/hooks';
import type { Allowed } from '../../app/allowed.ts';
import type { AdminOperationName } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { useSearchState } from '../../app/url.ts';
import { t } from '../../text/text.ts';
import { Chip } from '../../ui/chip.tsx';
import { Confirm, ConfirmButton } from '../../ui/confirm.tsx';
import { Panel } from '../../ui/dialog.tsx';
import { Denied } from '../../ui/forbidden.tsx';
import { Button, Select } from '../../ui/form.tsx';
import type { Column } from '../../ui/short-table.tsx';
import { Empty, Failure, Skeleton } from '../../ui/states.tsx';
import { DataTable } from '../../ui/table.tsx';
import { Card, PageHead } from '../../ui/tabs.tsx';
import { w } from './words.ts';

export const tabs = ['accounts', 'users', 'groups', 'roles', 'policies'] as const;
export type Tab = (typeof tabs)[number];

/** What a tab lists, what its button creates, and what its panel reads. */
export const operationsOf = {
  accounts: { list: 'ListAccounts', create: 'CreateAccount', get: 'GetAccount' },
  users: { list: 'ListIamUsers', create: 'CreateIamUser', get: 'GetIamUser' },
  groups: { list: 'ListIamGroups', create: 'CreateIamGroup', get: 'GetIamGroup' },
  roles: { list: 'ListIamRoles', create: 'CreateIamRole', get: 'GetIamRole' },
  policies: { list: 'ListIamPolicies', create: 'CreateIamPolicy', get: 'GetIamPolicy' },
} as const satisfies Readonly<Record<Tab, Readonly<Record<'list' | 'create' | 'get', AdminOperationName>>>>;

export interface TabProps {
  readonly account: string;
  readonly allowed: Allowed;
}

export interface PanelProps extends TabProps {
  readonly name: string;
  /** The panel closes, because its thing is gone. */
  readonly onGone: () => void;
}

export interface CreateProps extends TabProps {
  readonly onClose: () => void;
  readonly onDone: (name: string) => void;
}

export const may = (allowed: Allowed, name: AdminOperationName): boolean => allowed(name) === true;

export function useAccount(): string {
  const { session } = useSession();
  const [search] = useSearchState();
  return search['account'] ?? session.account;
}

interface List<Row> {
  readonly rows: readonly Row[] | undefined;
  readonly error: unknown;
  readonly more: { readonly has: boolean; readonly busy: boolean; load(): void };
  refetch(): Promise<unknown>;
}

interface FrameProps<Row> extends TabProps {
  readonly tab: Tab;
  /** Default: how many there are. */
  readonly answerOf?: (rows: readonly Row[]) => string;
  readonly list: List<Row>;
  readonly columns: readonly Column<Row>[];
  readonly nameOf: (row: Row) => string;
  readonly filterText?: (row: Row) => string;
  /** Offered where the caller may create one. */
  readonly create: (props: CreateProps) => ComponentChildren;
  /** Opened where the caller may read one. */
  readonly panel: (props: PanelProps) => ComponentChildren;
}

export function Frame<Row extends object>(props: FrameProps<Row>) {
  const { tab, list, columns, nameOf, account, allowed } = props;
  const operations = operationsOf[tab];
  const Create = may(allowed, operations.create) ? props.create : undefined;
  const Details = may(allowed, operations.get) ? props.panel : undefined;
  const [search, setSearch] = useSearchState();
  const open = search['open'];
  const isListed = may(allowed, operations.list);
  const toAnswer =
    props.answerOf ?? (({ length }) => (tab === 'accounts' ? '' : w.answer[tab](length, account)));
  const answer = list.rows && toAnswer(list.rows);
  const button =
    Create === undefined ? undefined : (
      <Button icon="plus" kind="primary" onClick={() => setSearch({ create: '1' }, { push: true })}>
        {w.create[tab]}
      </Button>
    );
  return (
    <>
      <PageHead
        title={t.pages.identity}
        answer={isListed && answer && <bdi>{list.more.has ? w.atLeast(answer) : answer}</bdi>}
        actions={button}
      />
      <TabLinks open={tab} account={account} allowed={allowed} />
      <Card>
        {isListed ? (
          <DataTable
            label={w.tabs[tab]}
            columns={columns}
            rows={list.rows}
            rowKey={nameOf}
            error={list.error}
            onRetry={() => list.refetch().catch(() => {})}
            filterText={props.filterText ?? nameOf}
            tools={tab !== 'accounts' && <AccountChoice account={account} allowed={allowed} />}
            {...(Details === undefined
              ? {}
              : { linkTo: (row: Row) => ({ search: { open: nameOf(row) } }), openKey: open })}
            empty={<Empty icon="users" text={w.none[tab]} action={button} />}
            more={list.more}
          />
        ) : allowed(operations.list) === false ? (
          <Denied action={`admin:${operations.list}`} />
        ) : (
          <Skeleton rows={4} />
        )}
      </Card>
      {open !== undefined && Details !== undefined && (
        <Panel title={open} onClose={() => setSearch({ open: undefined })}>
          <Details
            key={`${account}/${open}`}
            account={account}
            name={open}
            allowed={allowed}
            onGone={() => setSearch({ open: undefined })}
          />
        </Panel>
      )}
      {search['create'] !== undefined && open === undefined && Create !== undefined && (
        <Panel title={w.create[tab]} onClose={() => setSearch({ create: undefined })}>
          <Create
            account={account}
            allowed={allowed}
            onClose={() => setSearch({ create: undefined })}
            onDone={(name) => setSearch({ create: undefined, open: name })}
          />
        </Panel>
      )}
    </>
  );
}

interface TabLinksProps extends TabProps {
  readonly open: Tab;
}

const TabLinks = ({ open, account, allowed }: TabLinksProps) => (
  <nav class="tabs" aria-label={t.pages.identity}>
    {tabs
      .filter((tab) => allowed(operationsOf[tab].list) !== false)
      .map((tab) => (
        <PageLink
          key={tab}
          page="identity"
          params={{ _splat: tab }}
          search={{ account }}
          class={tab === open ? 'tab is-open' : 'tab'}
        >
          {w.tabs[tab]}
        </PageLink>
      ))}
  </nav>
);

/** The accounts that are read; one beyond them is reached from its row. */
function AccountChoice({ account, allowed }: TabProps) {
  const [, setSearch] = useSearchState();
  const { data } = useAdmin('ListAccounts', {}, { enabled: may(allowed, 'ListAccounts') });
  const names = [...new Set([account, ...(data?.rows ?? []).map((row) => row.account)])];
  return (
    <Select
      label={w.account}
      value={account}
      options={names.map((each) => [each, each])}
      onChange={(next) => setSearch({ account: next, open: undefined, q: undefined })}
    />
  );
}

export const StatusChip = ({ status }: { readonly status: 'Active' | 'Suspended' | 'Disabled' }) => (
  <Chip tone={status === 'Active' ? 'good' : 'warn'} {...(status === 'Active' ? {} : { icon: 'pause' })}>
    {w.states[status]}
  </Chip>
);

interface PartProps {
  readonly title: string;
  readonly children: ComponentChildren;
}

/** A part of a panel. */
export const Part = ({ title, children }: PartProps) => (
  <section class="part">
    <h3>{title}</h3>
    {children}
  </section>
);

/** The last part of a panel: what changes or ends the whole thing. */
export const Actions = ({ children }: { readonly children: ComponentChildren }) => (
  <div class="part">
    <div class="actions">{children}</div>
  </div>
);

interface RemoveProps {
  readonly tab: Tab;
  readonly name: string;
  /** What still uses it, in numbers. */
  readonly impact?: ComponentProps<typeof ConfirmButton>['impact'];
  readonly onRemove: () => Promise<unknown>;
  readonly onGone: () => void;
}

/** The deletion of what a panel shows. The gateway's reason is shown where it refuses. */
export function Remove({ tab, name, impact = [], onRemove, onGone }: RemoveProps) {
  return (
    <ConfirmButton
      icon="trash"
      title={w.removeAsk(name)}
      text={w.removeText[tab]}
      impact={impact}
      typed={name}
      action={w.remove}
      onConfirm={async () => {
        await onRemove();
        onGone();
      }}
    />
  );
}

interface SwitchProps {
  readonly isOn: boolean;
  readonly off: string;
  /** The question before it is turned off. */
  readonly ask: (name: string) => string;
  readonly on: string;
  readonly name: string;
  readonly text: string;
  readonly onTurn: (isOn: boolean) => Promise<unknown>;
}

/** Turns an account or user off, after a confirmation, and on again. */
export function Switch({ isOn, off, ask, on, name, text, onTurn }: SwitchProps) {
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>();
  const turnOn = () => {
    setError(undefined);
    onTurn(true).catch(setError);
  };
  return (
    <>
      <Button icon={isOn ? 'pause' : 'play'} onClick={isOn ? () => setAsking(true) : turnOn}>
        {isOn ? off : on}
      </Button>
      {error !== undefined && <Failure error={error} />}
      {isAsking && (
        <Confirm
          title={ask(name)}
          text={text}
          action={off}
          onConfirm={() => onTurn(false)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
