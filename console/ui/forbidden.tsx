/** A page whose first question is forbidden: it says which operation is missing. */
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
    <Card>
      <Empty icon="lock" text={t.shell.forbidden(`admin:${operation}`)} />
    </Card>
  </>
);
