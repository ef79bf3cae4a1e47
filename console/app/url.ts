/** The state of a page in its URL: filters, tabs, the open panel. Back, reload and a pasted link restore it. */
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useCallback } from 'preact/hooks';

export type Search = Readonly<Record<string, string | undefined>>;

/** Every value is a text: an address is read by people. */
export const parseSearch = (text: string): Record<string, string> =>
  Object.fromEntries(new URLSearchParams(text));

export function writeSearch(search: Search): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    if (value !== undefined && value !== '') query.set(name, value);
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

interface How {
  readonly push?: boolean;
  readonly keepsForms?: boolean;
}

/**
 * Reads and changes parameters of the address; undefined or '' removes one. `push`: Back returns to the state before (a panel, a tab);
 * otherwise the entry of the history is replaced (a filter while it is typed). `keepsForms`: what is open stays, so that nothing unsaved is asked about.
 */
export function useSearchState(): readonly [Search, (change: Search, how?: How) => void] {
  // The cast: `parseSearch` above makes every value a text.
  const search = useLocation().search as unknown as Search;
  const navigate = useNavigate();
  const set = useCallback(
    (change: Search, { push = false, keepsForms = false }: How = {}) => {
      const next = (before: Search) => ({ ...before, ...change });
      navigate({
        to: '.',
        search: next as never,
        replace: !push,
        resetScroll: false,
        ignoreBlocker: keepsForms,
      }).catch(() => {});
    },
    [navigate],
  );
  return [search, set];
}
