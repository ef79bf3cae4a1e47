/** What policies deny: the action that is missing, which statement decides, and who can allow it. */
import { useParams } from '@tanstack/react-router';
import { onBucket, useAllowed } from '../app/allowed.ts';
import type { AdminOperationName } from '../app/client.ts';
import { PageLink } from '../app/page-link.tsx';
import { pageOf } from '../app/pages.ts';
import { useOpenPages } from '../app/rail.tsx';
import { useSession } from '../app/session.tsx';
import { t } from '../text/text.ts';
import { Empty } from './states.tsx';
import { Card, PageHead } from './tabs.tsx';

interface ForbiddenProps {
  readonly title: string;
  readonly operation: AdminOperationName;
}

export const Forbidden = ({ title, operation }: ForbiddenProps) => (
  <>
    <PageHead title={title} />
    <ForbiddenCard action={`admin:${operation}`} />
  </>
);

/** For a tab of a bucket, which has the head of the bucket above it. */
export const ForbiddenCard = ({ action }: { readonly action: string }) => (
  <Card>
    <Denied action={action} />
  </Card>
);

interface DeniedProps {
  readonly action: string;
  readonly text?: string;
}

/** Inside of a card. The link asks about the caller itself, in the bucket whose page is open: tenants on its tab Access. */
export function Denied({ action, text = t.shell.forbidden(action) }: DeniedProps) {
  const { isOperator, accessKey, account } = useSession().session;
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const explain = bucket === '' ? 'ExplainDecision' : onBucket('ExplainDecision', bucket);
  const allowed = useAllowed([explain]);
  const page = useOpenPages().at(-1);
  if (!isOperator && page !== undefined && pageOf(page).tenants !== true)
    return <Empty icon="lock" text={text} docs={t.shell.forOperators} />;
  const hasLink = allowed(explain) === true && (isOperator || bucket !== '');
  const where = isOperator ? ({ page: 'why' } as const) : ({ page: 'access', params: { bucket } } as const);
  return (
    <Empty
      icon="lock"
      text={text}
      action={
        hasLink && (
          <PageLink
            {...where}
            search={{ asked: '1', accessKey, action, ...(isOperator && bucket !== '' ? { bucket } : {}) }}
            class="button"
          >
            {t.ui.why}
          </PageLink>
        )
      }
      docs={t.shell.whoAllows(account, bucket !== '')}
    />
  );
}
