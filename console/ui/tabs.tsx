/** Tabs that are links: each has an address. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { PageLink } from '../app/page-link.tsx';
import { type PageName, pageOf } from '../app/pages.ts';
import { t } from '../text/text.ts';
import { Icon } from './icons.tsx';
import { Skeleton } from './states.tsx';

interface TabsProps {
  readonly label: string;
  readonly pages: readonly PageName[];
  readonly open: PageName | undefined;
  readonly params: Readonly<Record<string, string>>;
}

export function Tabs({ label, pages, open, params }: TabsProps) {
  const nav = useRef<HTMLElement>(null);
  // A narrow screen does not show all of them.
  useEffect(() => {
    if (open !== undefined)
      nav.current?.querySelector('.is-open')?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
  }, [open]);
  return (
    <nav class="tabs" aria-label={label} ref={nav}>
      {pages.map((page) => {
        const { icon } = pageOf(page);
        return (
          <PageLink key={page} page={page} params={params} class={page === open ? 'tab is-open' : 'tab'}>
            {icon !== undefined && <Icon name={icon} />}
            {t.pages[page]}
          </PageLink>
        );
      })}
    </nav>
  );
}

interface PageHeadProps {
  readonly title: ComponentChildren;
  /** The one sentence that the reader came for. */
  readonly answer?: ComponentChildren;
  readonly actions?: ComponentChildren;
}

export const PageHead = ({ title, answer, actions }: PageHeadProps) => (
  <header class="page-head">
    <div class="page-words">
      <h1 dir="auto">{title}</h1>
      {answer !== undefined && <p class="answer">{answer}</p>}
    </div>
    {actions !== undefined && <div class="actions">{actions}</div>}
  </header>
);

interface CardProps {
  readonly title?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly class?: string;
}

export const Card = ({ title, actions, children, class: className = '' }: CardProps) => (
  <section class={`card ${className}`}>
    {title !== undefined && (
      <header class="card-head">
        <h2>{title}</h2>
        {actions}
      </header>
    )}
    {children}
  </section>
);

/** Instead of cards, until it is known which of them the caller may see. */
export const LoadingCard = () => (
  <Card>
    <Skeleton rows={4} />
  </Card>
);
