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
