/** A link to a page by its name, with its parameters and the state of its URL. */
import { Link } from '@tanstack/react-router';
import type { ComponentChildren } from 'preact';
import { type PageName, pageOf, pathOf } from './pages.ts';
import type { Search } from './url.ts';

interface PageLinkProps {
  readonly page: PageName;
  readonly params?: Readonly<Record<string, string>>;
  readonly search?: Search;
  readonly class?: string;
  readonly children: ComponentChildren;
  readonly title?: string;
  readonly onClick?: () => void;
}

/** A page that this build does not have is shown as text. */
export function PageLink({
  page,
  params,
  search,
  children,
  class: className,
  title,
  onClick,
}: PageLinkProps) {
  if (pageOf(page).load === undefined) return <span class={className}>{children}</span>;
  const all: object = { to: pathOf(page), params, search: search ?? {}, className, title, onClick };
  // The cast: routes come from a table, so the compiler knows none of their paths.
  return <Link {...(all as { to: '.' })}>{children as never}</Link>;
}

/** Where a row leads: to a page, or to this page with a change of its address, such as its open panel. */
export interface Target {
  readonly page?: PageName;
  readonly params?: Readonly<Record<string, string>>;
  readonly search?: Search;
}

interface TargetLinkProps {
  readonly to: Target;
  readonly class?: string;
  readonly label?: string;
  /** Of a link that opens a panel: whether it is open. */
  readonly isOpen?: boolean;
  readonly children: ComponentChildren;
}

/** Plain clicks go through the router; the browser has those with Ctrl, Shift or the middle button, and copies the address. */
export function TargetLink({
  to: { page, params, search = {} },
  class: className,
  label,
  isOpen,
  children,
}: TargetLinkProps) {
  const all: object =
    page === undefined
      ? {
          to: '.',
          search: (now: Search) => ({ ...now, ...search }),
          resetScroll: false,
          preload: false,
          'aria-expanded': isOpen,
        }
      : { to: pathOf(page), params, search };
  return (
    // The cast is that of `PageLink`.
    <Link {...(all as { to: '.' })} className={className} aria-label={label}>
      {children as never}
    </Link>
  );
}
