/** To the page Decisions, with the question about an object filled in. */
import { PageLink } from '../../app/page-link.tsx';
import { t } from '../../text/text.ts';

interface WhyLinkProps {
  readonly bucket: string;
  readonly objectKey: string;
  /** Neither of the two: an anonymous caller. */
  readonly accessKey?: string | undefined;
  readonly principal?: string | undefined;
  readonly isButton?: boolean;
}

export const WhyLink = ({ bucket, objectKey: key, accessKey, principal, isButton = false }: WhyLinkProps) => (
  <PageLink
    page="why"
    search={{
      bucket,
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
