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

/**
 * Reads and changes parameters of the address; undefined or '' removes one. `push`: Back returns to the state before (a panel, a tab);
 * otherwise the entry of the history is replaced (a filter while it is typed).
 */
export function useSearchState(): readonly [
  Search,
  (change: Search, how?: { readonly push?: boolean }) => void,
] {
  // The cast: `parseSearch` above makes every value a text.
  const search = useLocation().search as unknown as Search;
  const navigate = useNavigate();
  const set = useCallback(
    (change: Search, { push = false }: { readonly push?: boolean } = {}) => {
      const next = (before: Search) => ({ ...before, ...change });
      navigate({ to: '.', search: next as never, replace: !push, resetScroll: false }).catch(() => {});
    },
    [navigate],
  );
  return [search, set];
}
