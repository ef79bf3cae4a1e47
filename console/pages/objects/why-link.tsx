/** To the page Decisions, for tenants to the tab Access of the bucket, with the question about an object filled in. */
import { PageLink } from '../../app/page-link.tsx';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';

interface WhyLinkProps {
  readonly bucket: string;
  readonly objectKey: string;
  /** Neither of the two: an anonymous caller. */
  readonly accessKey?: string | undefined;
  readonly principal?: string | undefined;
  readonly isButton?: boolean;
}

export function WhyLink({ bucket, objectKey: key, accessKey, principal, isButton = false }: WhyLinkProps) {
  const { isOperator } = useSession().session;
  return (
    <PageLink
      {...(isOperator ? { page: 'why' } : { page: 'access', params: { bucket } })}
      search={{
        ...(isOperator ? { bucket } : {}),
        key,
        action: 's3:GetObject',
        asked: '1',
        ...(accessKey === undefined ? {} : { accessKey }),
        ...(principal === undefined ? {} : { principal }),
      }}
      {...(isButton ? { class: 'button' } : {})}
    >
      {t.ui.why}
    </PageLink>
  );
}
