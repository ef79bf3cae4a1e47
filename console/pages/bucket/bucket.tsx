/** A bucket: its head, and its tabs, each a page of its own. */
import { Outlet, useParams } from '@tanstack/react-router';
import { builtPages, pageOf } from '../../app/pages.ts';
import { useOpenPages } from '../../app/rail.tsx';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';
import { PageHead, Tabs } from '../../ui/tabs.tsx';

const tabs = builtPages.filter((name) => pageOf(name).within === 'bucket');

export default function BucketPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const { session } = useSession();
  const open = useOpenPages();
  const seen = tabs.filter((name) => session.isOperator || pageOf(name).tenants === true);
  return (
    <>
      <PageHead title={bucket} />
      <Tabs
        label={t.pages.bucket}
        pages={seen}
        open={seen.find((name) => open.includes(name))}
        params={{ bucket }}
      />
      <Outlet />
    </>
  );
}
