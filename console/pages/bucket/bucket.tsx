/** A bucket: its head, and its tabs, each a page of its own. */
import { Navigate, Outlet, useParams } from '@tanstack/react-router';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import { isMissing } from '../../app/client.ts';
import { builtPages, type PageName, pageOf, pathOf } from '../../app/pages.ts';
import { useAdmin } from '../../app/queries.ts';
import { useOpenPages } from '../../app/rail.tsx';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';
import { Failure } from '../../ui/states.tsx';
import { PageHead, Tabs } from '../../ui/tabs.tsx';
import { formatBytes } from '../../ui/values.tsx';
import { w } from './words.ts';

const tabs = builtPages.filter((name) => pageOf(name).within === 'bucket');
function needsOf(name: PageName, bucket: string) {
  const { needs = [], storageNeeds = [] } = pageOf(name);
  return [
    ...needs.map((each) => onBucket(each, bucket)),
    ...storageNeeds.map((action) => ({ action, bucket })),
  ];
}

export default function BucketPage() {
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const { session } = useSession();
  const open = useOpenPages();
  const ask = onBucket('GetBucket', bucket);
  const allowed = useAllowed([ask, ...tabs.flatMap((name) => needsOf(name, bucket))]);
  const isForbidden = (name: PageName) => {
    const needs = needsOf(name, bucket);
    return needs.length > 0 && needs.every((each) => allowed(each) === false);
  };
  const reached = tabs.filter((name) => session.isOperator || pageOf(name).tenants === true);
  // The open tab stays: it says what is forbidden.
  const seen = reached.filter((name) => open.includes(name) || !isForbidden(name));
  const found = useAdmin('GetBucket', { path: { name: bucket } }, { enabled: allowed(ask) === true });
  const tab = seen.find((name) => open.includes(name));
  const [first] = seen;
  if (tab === undefined && first !== undefined)
    return <Navigate to={pathOf(first) as '.'} params={{ bucket } as never} replace />;
  const { data, error } = found;
  const failure = error ? <Failure error={error} onRetry={() => found.refetch().catch(() => {})} /> : null;
  // Every tab would show the same refusal.
  if (isMissing(error))
    return (
      <>
        <PageHead title={bucket} />
        {failure}
      </>
    );
  return (
    <>
      <PageHead
        title={bucket}
        {...(data === undefined
          ? {}
          : {
              answer: (
                <>
                  {(data.versioning === 'unset' ? w.holds : w.holdsVersions)(
                    data.objects,
                    formatBytes(data.bytes),
                  )}
                  {' · '}
                  <bdi>{w.owner(data.ownerName || data.owner)}</bdi>
                </>
              ),
            })}
      />
      {failure}
      <Tabs label={t.pages.bucket} pages={seen} open={tab} params={{ bucket }} />
      {/* What a tab has selected, typed or reported belongs to its bucket. */}
      <Outlet key={bucket} />
    </>
  );
}
