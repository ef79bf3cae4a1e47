/** The command palette: pages, buckets, users, accounts, request ids and actions, from the keyboard. */
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Icon, type IconName } from '../ui/icons.tsx';
import { type Allowed, useAllowed } from './allowed.ts';
import type { AdminOperationName } from './client.ts';
import { builtPages, type PageName, pageOf, pathOf } from './pages.ts';
import { useAdmin } from './queries.ts';
import { useRailAllowed } from './rail.tsx';
import { useSession } from './session.tsx';
import { applyTheme, themes } from './theme.ts';
import type { Search } from './url.ts';

interface Entry {
  readonly group: string;
  readonly icon: IconName;
  readonly text: string;
  run(): void;
}

const entriesMax = 12;
/** Entries of one kind that are found by their name. */
const namesMax = 5;
/** IAM has no search: the palette looks at so many users and accounts. */
const searchedMax = 1_000;
const createBucket = { action: 's3:CreateBucket' };
const requestId = /^[0-9A-Za-z-]{16,64}$/;

export function Palette({ onClose, onHelp }: { readonly onClose: () => void; readonly onHelp: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [isChosen, setChosen] = useState(false);
  const entries = useEntries(text.trim(), { onHelp });
  const list = useRef<HTMLDivElement>(null);
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.run();
  };
  // After the render, because a fast typist presses Enter before the entries for the last letter are shown.
  useEffect(() => {
    if (!isChosen) return;
    setChosen(false);
    run(entries[at]);
  }, [isChosen]);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: 'nearest' }), [at]);
  const press = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(at + 1, entries.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(at - 1, 0));
    else if (event.key === 'Enter') setChosen(true);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={t.palette.label} hideTitle class="palette" onClose={onClose}>
      <div class="palette-field">
        <Icon name="search" />
        <input
          class="palette-input"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={entries.length === 0 ? undefined : `palette-${at}`}
          aria-label={t.palette.label}
          placeholder={t.palette.placeholder}
          value={text}
          spellcheck={false}
          autocomplete="off"
          autoFocus
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={press}
        />
      </div>
      <div id="palette-list" class="palette-list" role="listbox" aria-label={t.palette.label} ref={list}>
        {entries.map((entry, index) => (
          <div
            key={`${entry.group}-${entry.text}`}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            class={index === at ? 'palette-entry is-at' : 'palette-entry'}
            onClick={() => run(entry)}
            onKeyDown={press}
            onPointerMove={() => setAt(index)}
          >
            <Icon name={entry.icon} />
            <span class="cut" dir="auto">
              {entry.text}
            </span>
            <span class="quiet palette-group">{entry.group}</span>
          </div>
        ))}
      </div>
      {entries.length === 0 && <p class="quiet palette-none">{t.palette.nothing}</p>}
    </Dialog>
  );
}

function useEntries(text: string, { onHelp }: { readonly onHelp: () => void }): readonly Entry[] {
  const { session, logOut } = useSession();
  const allowed = useRailAllowed();
  const navigate = useNavigate();
  const { buckets, users, accounts } = useNames(text, allowed);
  const mayCreate = useAllowed([createBucket])(createBucket) === true;
  return useMemo(() => {
    const go = (page: PageName, params: Readonly<Record<string, string>> = {}, search: Search = {}) => {
      navigate({ to: pathOf(page) as '.', params: params as never, search: search as never }).catch(() => {});
    };
    const mayOpen = (page: PageName) => {
      const { load, needs = [], tenants = false } = pageOf(page);
      return (
        load !== undefined &&
        (session.isOperator || tenants) &&
        !(needs.length > 0 && needs.every((each) => allowed(each) === false))
      );
    };
    const all: Entry[] = builtPages
      .filter((page) => pageOf(page).group !== undefined && mayOpen(page))
      .map((page) => ({
        group: t.palette.pages,
        icon: pageOf(page).icon ?? 'list',
        text: t.pages[page],
        run: () => go(page),
      }));
    for (const theme of themes)
      all.push({
        group: t.palette.actions,
        icon: 'sliders',
        text: `${t.shell.theme}: ${t.shell.themes[theme]}`,
        run: () => applyTheme(theme),
      });
    all.push({ group: t.palette.actions, icon: 'info', text: t.shell.keys, run: onHelp });
    all.push({
      group: t.palette.actions,
      icon: 'logOut',
      text: t.shell.logOut,
      run: () => logOut().catch(() => {}),
    });
    if (mayCreate && mayOpen('buckets'))
      all.push({
        group: t.palette.actions,
        icon: 'plus',
        text: t.palette.createBucket,
        run: () => go('buckets', {}, { create: '1' }),
      });
    const found = all.filter((entry) => entry.text.toLowerCase().includes(text.toLowerCase()));
    if (mayOpen('bucket'))
      for (const name of buckets)
        found.push({
          group: t.palette.buckets,
          icon: 'bucket',
          text: name,
          run: () => go('bucket', { bucket: name }),
        });
    if (mayOpen('identity'))
      for (const [tab, names] of [['users', users] as const, ['accounts', accounts] as const])
        for (const name of names)
          found.push({
            group: t.palette[tab],
            icon: 'user',
            text: name,
            run: () => go('identity', { _splat: tab }, { open: name }),
          });
    if (requestId.test(text) && mayOpen('trace'))
      found.push({
        group: t.palette.actions,
        icon: 'trace',
        text: t.palette.trace(text),
        run: () => go('trace', { trace: text }),
      });
    if (requestId.test(text) && mayOpen('audit'))
      found.push({
        group: t.palette.actions,
        icon: 'list',
        text: t.palette.audit(text),
        run: () => go('audit', {}, { requestId: text }),
      });
    return found.slice(0, entriesMax);
  }, [text, buckets, users, accounts, mayCreate, allowed, session, navigate, logOut, onHelp]);
}

const noNames: readonly string[] = [];

/** Buckets whose names begin with a text; users of the caller's account and accounts whose names contain it. */
function useNames(
  text: string,
  allowed: Allowed,
): Readonly<Record<'buckets' | 'users' | 'accounts', readonly string[]>> {
  const { session } = useSession();
  const lower = text.toLowerCase();
  const may = (name: AdminOperationName) => text !== '' && session.isOperator && allowed(name) !== false;
  const buckets = useAdmin(
    'ListBuckets',
    { query: { prefix: lower, limit: namesMax } },
    { enabled: may('ListBuckets') },
  );
  const users = useAdmin(
    'ListIamUsers',
    { path: { account: session.account }, query: { limit: searchedMax } },
    { enabled: may('ListIamUsers') },
  );
  const accounts = useAdmin(
    'ListAccounts',
    { query: { limit: searchedMax } },
    { enabled: may('ListAccounts') },
  );
  return useMemo(() => {
    const matching = (names: readonly string[]) =>
      lower === '' ? noNames : names.filter((name) => name.toLowerCase().includes(lower)).slice(0, namesMax);
    return {
      buckets: buckets.data?.rows.map(({ name }) => name) ?? noNames,
      users: matching(users.data?.rows.map(({ name }) => name) ?? noNames),
      accounts: matching(accounts.data?.rows.map(({ account }) => account) ?? noNames),
    };
  }, [lower, buckets.data, users.data, accounts.data]);
}
