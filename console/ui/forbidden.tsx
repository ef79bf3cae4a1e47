/** A page or tab whose first question policies deny: it names the action that is missing. */
import type { AdminOperationName } from '../app/client.ts';
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
    <Empty icon="lock" text={t.shell.forbidden(action)} />
  </Card>
);
