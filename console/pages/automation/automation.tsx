/**
 * What a bucket does by itself: lifecycle, replication, notifications, inventories and the access log, each with its
 * state and its numbers.
 */
import { useParams } from '@tanstack/react-router';
import type { ConfigurationFamily } from '../../../src/protocol/schemas/families.ts';
import { onBucket, useAllowed } from '../../app/allowed.ts';
import type { AdminOperationName } from '../../app/client.ts';
import { PageLink } from '../../app/page-link.tsx';
import { useSession } from '../../app/session.tsx';
import { useConfigurations } from '../../storage/configurations.ts';
import { automationFamilies, storageFamilies } from '../../storage/families.ts';
import { Denied } from '../../ui/forbidden.tsx';
import { Failure, Skeleton } from '../../ui/states.tsx';
import { Inventories } from './inventory.tsx';
import { Lifecycle } from './lifecycle.tsx';
import { Notifications } from './notifications.tsx';
import { Replication } from './replication.tsx';
import { type Configurations, type PartProps, Section } from './section.tsx';
import { w } from './words.ts';

/** Asked once for all parts. */
const ofBucket = [
  'GetBucket',
  'GetLifecycle',
  'RunLifecycle',
  'GetBucketReplication',
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
  const { by, families: readable, query } = useConfigurations(bucket, automationFamilies);
  const mayProgress = allowed(ask('GetLifecycle'));
  if (by === undefined || mayProgress === undefined) return <Skeleton rows={4} />;
  if (by === 'forbidden' && !mayProgress) {
    const action = session.isOperator ? 'admin:ListBucketConfigurations' : storageFamilies.lifecycle.reads;
    return <Denied action={action} />;
  }
  const retry = () => query.refetch().catch(() => {});
  if (by !== 'forbidden' && query.data === undefined)
    return query.error ? <Failure error={query.error} onRetry={retry} /> : <Skeleton rows={4} />;
  // The cast: the documents of the families have no common type.
  const configurations = (query.data ?? {}) as Configurations;
  const props: PartProps = { bucket, configurations, may };
  const isReadable = (family: ConfigurationFamily): boolean => readable.includes(family);
  const hidden = automationFamilies.filter((family) => !isReadable(family));
  return (
    <>
      {query.error && <Failure error={query.error} onRetry={retry} />}
      {hidden.length > 0 && (
        <p class="quiet">
          {w.hidden} <span class="code">{hidden.join(', ')}</span>.
        </p>
      )}
      {(mayProgress || isReadable('lifecycle')) && <Lifecycle {...props} isKnown={isReadable('lifecycle')} />}
      {isReadable('replication') && <Replication {...props} />}
      {isReadable('notification') && <Notifications {...props} />}
      {isReadable('inventory') && <Inventories {...props} />}
      {isReadable('logging') && <AccessLog {...props} />}
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
