/** What a bucket does by itself: lifecycle, replication, notifications, inventories and the access log, each with its state and its numbers. */
import { useParams } from '@tanstack/react-router';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { AdminOperationName } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useAdmin } from '../../app/queries.ts';
import { useSession } from '../../app/session.tsx';
import { t } from '../../text/text.ts';
import { Empty, Failure, Skeleton } from '../../ui/states.tsx';
import { Inventories } from './inventory.tsx';
import { Lifecycle } from './lifecycle.tsx';
import { Notifications } from './notifications.tsx';
import { Replication } from './replication.tsx';
import { type Configurations, everyMs, type PartProps, Section } from './section.tsx';
import { w } from './words.ts';

/** Asked once for all parts. */
const ofBucket = [
  'ListBucketConfigurations',
  'GetBucket',
  'GetLifecycle',
  'RunLifecycle',
  'ListFailedReplications',
  'RetryFailedReplications',
  'GetReplicationResync',
  'StartReplicationResync',
  'CancelReplicationResync',
  'GetBucketInventoryRun',
  'RunBucketInventory',
] as const satisfies readonly AdminOperationName[];
const ofAll = [
  'GetReplicationStatus',
  'GetNotifyTargets',
  'TestNotifyTarget',
  'ListWorkers',
] as const satisfies readonly AdminOperationName[];

const isOfBucket = (name: AdminOperationName): boolean =>
  (ofBucket as readonly AdminOperationName[]).includes(name);

export default function AutomationPage() {
  const { session } = useSession();
  const { bucket = '' } = useParams({ strict: false }) as { readonly bucket?: string };
  const ask = (name: AdminOperationName) => (isOfBucket(name) ? onBucket(name, bucket) : name);
  const allowed = useAllowed([...ofBucket, ...ofAll].map(ask));
  const may = (name: AdminOperationName): boolean => allowed(ask(name)) === true;
  const found = useAdmin(
    'ListBucketConfigurations',
    { path: { name: bucket } },
    { everyMs, enabled: may('ListBucketConfigurations') },
  );
  const mayList = allowed(ask('ListBucketConfigurations'));
  if (mayList === undefined) return <Skeleton rows={4} />;
  if (mayList === false && !may('GetLifecycle'))
    return <Empty icon="lock" text={t.shell.forbidden('admin:ListBucketConfigurations')} />;
  if (mayList === true && found.data === undefined)
    return found.error ? (
      <Failure error={found.error} onRetry={() => found.refetch()} />
    ) : (
      <Skeleton rows={4} />
    );
  // The cast: the documents of the families have no common type.
  const configurations = (found.data?.configurations ?? {}) as Configurations;
  const props: PartProps = { bucket, configurations, may };
  return (
    <>
      {found.error && <Failure error={found.error} onRetry={() => found.refetch()} />}
      {mayList === false && <p class="quiet">{session.isOperator ? w.partly : w.ofTenant}</p>}
      {may('GetLifecycle') && <Lifecycle {...props} isKnown={mayList} />}
      {mayList && (
        <>
          <Replication {...props} />
          <Notifications {...props} />
          <Inventories {...props} />
          <AccessLog {...props} />
        </>
      )}
    </>
  );
}

function AccessLog({ bucket, configurations, may }: PartProps) {
  const target = configurations.logging?.LoggingEnabled;
  return (
    <Section
      title={w.accessLog}
      bucket={bucket}
      family="logging"
      set={target === undefined ? undefined : w.on}
      actions={
        target !== undefined &&
        may('ListWorkers') && (
          <PageLink page="workers" search={{ worker: 'access-log' }} class="button">
            {w.worker}
          </PageLink>
        )
      }
    >
      {target !== undefined && (
        <p class="card-line">
          {w.logTo}{' '}
          <PageLink
            page="objects"
            params={{ bucket: target.TargetBucket, _splat: target.TargetPrefix.replace(/[^/]*$/, '') }}
          >
            <bdi class="code">
              {target.TargetBucket}/{target.TargetPrefix}
            </bdi>
          </PageLink>
          . <span class="quiet">{w.logHint}</span>
        </p>
      )}
    </Section>
  );
}
