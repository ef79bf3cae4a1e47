/** What a page shows instead of its content: loading, empty, refused, partly shown. */
import { useParams } from '@tanstack/react-router';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Refused, Unreachable } from '../app/client.ts';
import { PageLink } from '../app/page-link.tsx';
import { useSession } from '../app/session.tsx';
import { t } from '../text/text.ts';
import { Copy } from './copy.tsx';
import { Button } from './form.tsx';
import { Icon, type IconName } from './icons.tsx';

/** Nothing for 150 ms, because most replies come sooner; then bars of the final height. */
export function Skeleton({ rows = 3, height = 44 }: { readonly rows?: number; readonly height?: number }) {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={isLate ? 'skeleton is-late' : 'skeleton'} role="status" aria-label={t.ui.loading}>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} class="skeleton-row" style={{ height: `${height}px` }}>
          <span />
        </div>
      ))}
    </div>
  );
}

interface EmptyProps {
  readonly icon?: IconName;
  readonly text: ComponentChildren;
  readonly action?: ComponentChildren;
  /** A page of the documentation, by the name of its file. */
  readonly docs?: ComponentChildren;
}

export const Empty = ({ icon = 'info', text, action, docs }: EmptyProps) => (
  <div class="empty">
    <Icon name={icon} size={24} />
    <p>{text}</p>
    {action}
    {docs !== undefined && <p class="quiet">{docs}</p>}
  </div>
);

/** What was refused because its log-in had ended is over with the next log-in. */
function useIsOver(error: unknown): boolean {
  const { csrfToken } = useSession().session;
  const seen = useRef({ error, csrfToken });
  if (seen.current.error !== error) seen.current = { error, csrfToken };
  return error instanceof Refused && error.status === 403 && seen.current.csrfToken !== csrfToken;
}

interface PlainFailureProps {
  readonly text: string;
  readonly hint: string;
  readonly isBusy?: boolean;
  readonly onRetry: (() => void) | undefined;
}

/** A failure that no reply of the gateway explains. */
export const PlainFailure = ({ text, hint, isBusy = false, onRetry }: PlainFailureProps) => (
  <div class="failure" role="alert">
    <Icon name="error" size={20} />
    <div>
      <p>{text}</p>
      <p class="quiet">{hint}</p>
    </div>
    {onRetry !== undefined && (
      <Button busy={isBusy} onClick={onRetry}>
        {t.ui.retry}
      </Button>
    )}
  </div>
);

/** A refusal, or an error of the network: the sentence, the code, the request, and where to look for the reason. */
export function Failure({
  error,
  onRetry,
}: {
  readonly error: unknown;
  readonly onRetry?: (() => void) | undefined;
}) {
  const isOver = useIsOver(error);
  if (isOver) return null;
  if (error instanceof Unreachable)
    return <PlainFailure text={t.ui.unreachable} hint={t.ui.unreachableHint} onRetry={onRetry} />;
  if (!(error instanceof Refused))
    return <PlainFailure text={t.ui.failed} hint={String(error)} onRetry={onRetry} />;
  const { code, message, requestId, status } = error;
  const hasReason = message !== '' && message !== code && message !== `HTTP ${status}`;
  return (
    <div class="failure" role="alert">
      <Icon name="error" size={20} />
      <div class="failure-text">
        <p dir="auto">{hasReason ? message : t.ui.unexplained}</p>
        <p class="quiet">
          <span class="code">{code === '' ? `HTTP ${status}` : code}</span>
          {requestId !== '' && (
            <>
              {' · '}
              {t.ui.request} <Copy text={requestId} />
            </>
          )}
        </p>
      </div>
      {requestId !== '' && (
        <div class="failure-links">
          <RequestLinks requestId={requestId} status={status} />
        </div>
      )}
      {onRetry !== undefined && <Button onClick={onRetry}>{t.ui.retry}</Button>}
    </div>
  );
}

/** To the statement that decided a request: tenants ask on the tab Access of the bucket whose page is open. */
export function Why({ requestId, ...look }: { readonly requestId: string; readonly class?: string }) {
  const { isOperator } = useSession().session;
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  if (!isOperator && bucket === '') return null;
  return (
    <PageLink
      {...(isOperator ? { page: 'why' } : { page: 'access', params: { bucket } })}
      search={{ requestId }}
      {...look}
    >
      {t.ui.why}
    </PageLink>
  );
}

interface RequestLinksProps {
  readonly requestId: string;
  readonly status: number;
  /** Of the links, such as `button`. */
  readonly class?: string;
}

/**
 * To the trace of a request, which shows operators the inside of the gateway, and, where policies refused it, to the
 * statement that decided.
 */
export function RequestLinks({ requestId, status, ...look }: RequestLinksProps) {
  const { isOperator } = useSession().session;
  return (
    <>
      {status === 403 && <Why requestId={requestId} {...look} />}
      {isOperator && (
        <PageLink page="trace" params={{ trace: requestId }} {...look}>
          {t.ui.trace}
        </PageLink>
      )}
    </>
  );
}

export const Partial = ({
  shown,
  onMore,
  busy,
}: {
  readonly shown: number;
  readonly onMore: () => void;
  readonly busy: boolean;
}) => (
  <div class="partial">
    <span class="quiet">{t.ui.partial(shown)}</span>
    <Button busy={busy} onClick={onMore}>
      {t.ui.more}
    </Button>
  </div>
);

export const NotFound = () => (
  <Empty
    icon="search"
    text={
      <>
        <h1>{t.shell.notFound}</h1>
        <span class="quiet">{t.shell.notFoundHint}</span>
      </>
    }
    action={
      <PageLink page="overview" class="button">
        {t.shell.toOverview}
      </PageLink>
    }
  />
);

interface PreviousProps {
  readonly isPrevious: boolean;
  readonly children: ComponentChildren;
}

/** What answers the question before, while the next one is asked: it is pale, and readers of the screen are told. */
export const Previous = ({ isPrevious, children }: PreviousProps) => (
  <div class={isPrevious ? 'is-previous' : undefined} aria-busy={isPrevious || undefined}>
    {children}
  </div>
);

interface ReadingProps<T> {
  readonly query: { readonly data: T | undefined; readonly error: unknown; refetch(): unknown };
  readonly rows?: number;
  readonly children: (data: T) => ComponentChildren;
}

/** A query in its states. What was read before stays while a new reading fails, with the failure above it. */
export function Reading<T>({ query, rows = 3, children }: ReadingProps<T>) {
  const { data, error } = query;
  const retry = () => {
    query.refetch();
  };
  if (data === undefined) return error ? <Failure error={error} onRetry={retry} /> : <Skeleton rows={rows} />;
  return (
    <>
      {error ? <Failure error={error} onRetry={retry} /> : null}
      {children(data)}
    </>
  );
}
