/** The rail: the pages by group. What the caller's policies forbid is greyed, with the reason. */
import { useMatches } from '@tanstack/react-router';
import { t } from '../text/text.ts';
import { Icon } from '../ui/icons.tsx';
import { type Allowed, useAllowed } from './allowed.ts';
import type { AdminOperationName } from './client.ts';
import { PageLink } from './page-link.tsx';
import { builtPages, type PageName, pageAt, pageOf } from './pages.ts';
import { useSession } from './session.tsx';

const groups = ['data', 'storage', 'activity', 'system'] as const;

const inRail = builtPages.filter((name) => pageOf(name).group !== undefined);
const needed = [...new Set(inRail.flatMap((name) => pageOf(name).needs ?? []))];

/** The operations that pages of the rail begin with; one question for all of them. */
export const useRailAllowed = (): Allowed => useAllowed(needed);

/** The operation that is forbidden; undefined where the page may be opened, or where it is not known yet. */
function forbiddenIn(name: PageName, allowed: Allowed): AdminOperationName | undefined {
  const needs = pageOf(name).needs ?? [];
  return needs.length > 0 && needs.every((each) => allowed(each) === false) ? needs[0] : undefined;
}

/** Where the console begins: the first page of the rail that the caller may open; undefined while that is not known. */
export function useHome(): PageName | undefined {
  const allowed = useRailAllowed();
  const mayOpen = useMayOpen();
  if (needed.some((each) => allowed(each) === undefined)) return undefined;
  return inRail.find(mayOpen);
}

/** Whether a link to a page leads the caller to more than a refusal. */
export function useMayOpen(): (name: PageName) => boolean {
  const { isOperator } = useSession().session;
  const allowed = useRailAllowed();
  return (name) => (isOperator || pageOf(name).tenants === true) && forbiddenIn(name, allowed) === undefined;
}

/** The page of the rail that the open page belongs to: itself, or the one whose path its own begins with. */
export function useOpenPages(): readonly PageName[] {
  const ids = useMatches({ select: (matches) => matches.map(({ routeId }) => routeId as string) });
  return ids.map(pageAt).filter((name) => name !== undefined);
}

function isAt(name: PageName, open: readonly PageName[]): boolean {
  const below = `${pageOf(name).path.replace(/\/\$$/, '')}/`;
  return open.some((each) => each === name || (name !== 'overview' && pageOf(each).path.startsWith(below)));
}

export function Rail({ onNavigate }: { readonly onNavigate?: () => void }) {
  const { session } = useSession();
  const allowed = useRailAllowed();
  const open = useOpenPages();
  const visible = inRail.filter((name) => session.isOperator || pageOf(name).tenants === true);
  return (
    <nav class="rail-nav" aria-label={t.shell.navigation}>
      {groups.map((group) => {
        const names = visible.filter((name) => pageOf(name).group === group);
        if (names.length === 0) return null;
        return (
          <section key={group}>
            <h2 class="rail-group">{t.groups[group]}</h2>
            <ul>
              {names.map((name) => (
                <li key={name}>
                  <RailEntry
                    name={name}
                    isOpen={isAt(name, open)}
                    forbidden={forbiddenIn(name, allowed)}
                    onNavigate={onNavigate}
                  />
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </nav>
  );
}

interface RailEntryProps {
  readonly name: PageName;
  readonly isOpen: boolean;
  readonly forbidden: AdminOperationName | undefined;
  readonly onNavigate?: (() => void) | undefined;
}

function RailEntry({ name, isOpen, forbidden, onNavigate }: RailEntryProps) {
  const { icon = 'list' } = pageOf(name);
  const title = t.pages[name];
  const inside = (
    <>
      <Icon name={icon} size={18} />
      <span class="rail-word">{title}</span>
    </>
  );
  if (forbidden !== undefined)
    return (
      <span class="rail-entry is-forbidden" title={t.shell.forbidden(`admin:${forbidden}`)}>
        {inside}
        <span class="visually-hidden">{t.shell.forbidden(`admin:${forbidden}`)}</span>
      </span>
    );
  return (
    <PageLink
      page={name}
      class={isOpen ? 'rail-entry is-open' : 'rail-entry'}
      title={title}
      onClick={onNavigate}
    >
      {inside}
    </PageLink>
  );
}
