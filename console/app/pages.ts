/**
 * The pages of the console: a row for each. Routes, rail, breadcrumb, palette and tabs derive from it. A page is added by its folder in
 * `pages/` and by the `load` of its row; a row without `load` has no address and is shown nowhere.
 */
import type { ComponentType } from 'preact';
import type { IconName } from '../ui/icons.tsx';
import type { AdminOperationName } from './client.ts';

export interface PageRow {
  /** Below `/console`, with `$name` for a parameter and `$` for the rest of the path. */
  readonly path: string;
  /** The part of the rail; a row without it is reached from another page. */
  readonly group?: 'data' | 'storage' | 'activity' | 'system';
  readonly icon?: IconName;
  /** The page whose outlet and tabs show this one. */
  readonly within?: string;
  /**
   * What the page reads first. A caller who may do none of it sees the page grey in the rail, and does not see it among the tabs of a
   * bucket; the page itself asks for each action (`useAllowed`).
   */
  readonly needs?: readonly AdminOperationName[];
  /** For a tab of a bucket: as `needs`, of the actions of the storage protocol. */
  readonly storageNeeds?: readonly string[];
  /** Tenants see it: what it shows is theirs. */
  readonly tenants?: true;
  readonly load?: () => Promise<{ readonly default: ComponentType }>;
}

// The actions of `storage/families.ts`, which only the pages of configurations load; a test compares them.
const toReads = (names: string): readonly string[] => names.split(' ').map((name) => `s3:Get${name}`);
const accessReads = toReads('BucketPolicy BucketPublicAccessBlock BucketAcl BucketOwnershipControls');
const automationReads = toReads(
  'InventoryConfiguration LifecycleConfiguration BucketLogging BucketNotification ReplicationConfiguration',
);
const otherReads = toReads(
  'BucketCORS EncryptionConfiguration BucketObjectLockConfiguration BucketRequestPayment BucketTagging BucketVersioning BucketWebsite',
);

export const pages = {
  overview: {
    path: '/',
    group: 'data',
    icon: 'home',
    needs: ['GetStorageHealth'],
    load: () => import('../pages/overview/overview.tsx'),
  },
  buckets: {
    path: '/buckets',
    group: 'data',
    icon: 'bucket',
    needs: ['ListBuckets'],
    tenants: true,
    load: () => import('../pages/buckets/buckets.tsx'),
  },
  bucket: { path: '/buckets/$bucket', tenants: true, load: () => import('../pages/bucket/bucket.tsx') },
  objects: {
    path: '/objects/$',
    within: 'bucket',
    icon: 'file',
    tenants: true,
    load: () => import('../pages/objects/objects.tsx'),
  },
  versions: {
    path: '/versions',
    within: 'bucket',
    icon: 'clock',
    storageNeeds: ['s3:ListBucketVersions'],
    tenants: true,
    load: () => import('../pages/versions/versions.tsx'),
  },
  uploads: {
    path: '/uploads',
    within: 'bucket',
    icon: 'upload',
    needs: ['ListOpenUploads'],
    tenants: true,
    load: () => import('../pages/uploads/uploads.tsx'),
  },
  bucketSettings: {
    path: '/settings',
    within: 'bucket',
    icon: 'sliders',
    needs: ['ListBucketConfigurations'],
    storageNeeds: [...accessReads, ...automationReads, ...otherReads],
    tenants: true,
    load: () => import('../pages/bucket-settings/bucket-settings.tsx'),
  },
  access: {
    path: '/access',
    within: 'bucket',
    icon: 'lock',
    needs: ['ListBucketConfigurations'],
    storageNeeds: accessReads,
    tenants: true,
    load: () => import('../pages/access/access.tsx'),
  },
  usage: {
    path: '/usage',
    within: 'bucket',
    icon: 'chart',
    needs: ['GetBucketUsage'],
    tenants: true,
    load: () => import('../pages/usage/usage.tsx'),
  },
  automation: {
    path: '/automation',
    within: 'bucket',
    icon: 'repeat',
    needs: ['ListBucketConfigurations', 'GetLifecycle'],
    storageNeeds: automationReads,
    tenants: true,
    load: () => import('../pages/automation/automation.tsx'),
  },
  journal: {
    path: '/journal',
    within: 'bucket',
    icon: 'list',
    needs: ['ListAudit'],
    load: () => import('../pages/journal/journal.tsx'),
  },
  danger: {
    path: '/danger',
    within: 'bucket',
    icon: 'warning',
    needs: ['ForceEmptyBucket', 'PutBucketOwner', 'ReshardBucket', 'DeleteBucket'],
    load: () => import('../pages/danger/danger.tsx'),
  },
  identity: {
    path: '/iam/$',
    group: 'data',
    icon: 'users',
    needs: ['ListAccounts', 'ListIamUsers'],
    load: () => import('../pages/identity/identity.tsx'),
  },
  billing: {
    path: '/iam/users/$user/billing',
    needs: ['GetUserUsage'],
    tenants: true,
    load: () => import('../pages/billing/billing.tsx'),
  },
  storage: {
    path: '/storage',
    group: 'storage',
    icon: 'database',
    needs: ['GetStorageMeta', 'GetStorageData', 'GetStorageClasses'],
    load: () => import('../pages/storage/storage.tsx'),
  },
  clusters: {
    path: '/clusters',
    group: 'storage',
    icon: 'server',
    needs: ['ListClusters'],
    load: () => import('../pages/clusters/clusters.tsx'),
  },
  cluster: { path: '/clusters/$cluster', needs: ['GetCluster'] },
  workers: {
    path: '/workers',
    group: 'activity',
    icon: 'cog',
    needs: ['ListWorkers'],
    load: () => import('../pages/workers/workers.tsx'),
  },
  replication: {
    path: '/replication',
    group: 'activity',
    icon: 'repeat',
    needs: ['GetReplicationStatus'],
    load: () => import('../pages/replication/replication.tsx'),
  },
  events: {
    path: '/events',
    group: 'activity',
    icon: 'bell',
    needs: ['GetNotifyTargets'],
    load: () => import('../pages/events/events.tsx'),
  },
  audit: {
    path: '/audit',
    group: 'activity',
    icon: 'list',
    needs: ['ListAudit'],
    load: () => import('../pages/audit/audit.tsx'),
  },
  traces: {
    path: '/traces',
    group: 'activity',
    icon: 'trace',
    needs: ['ListTraces'],
    load: () => import('../pages/traces/traces.tsx'),
  },
  trace: { path: '/traces/$trace', needs: ['GetTrace'], load: () => import('../pages/traces/trace.tsx') },
  why: {
    path: '/why',
    group: 'activity',
    icon: 'lock',
    needs: ['ExplainDecision'],
    load: () => import('../pages/why/why.tsx'),
  },
  settings: {
    path: '/settings',
    group: 'system',
    icon: 'sliders',
    needs: ['ListSettings'],
    load: () => import('../pages/settings/settings.tsx'),
  },
  me: {
    path: '/me',
    group: 'system',
    icon: 'user',
    tenants: true,
    load: () => import('../pages/me/me.tsx'),
  },
} as const satisfies Readonly<Record<string, PageRow>>;

export type PageName = keyof typeof pages;
export const pageNames = Object.keys(pages) as readonly PageName[];
export const pageOf = (name: PageName): PageRow => pages[name];

/** The pages that exist. */
export const builtPages: readonly PageName[] = pageNames.filter((name) => pageOf(name).load !== undefined);

/** The path of a page below `/console`, the path of its parent included. */
export function pathOf(name: PageName): string {
  const { path, within } = pageOf(name);
  return within === undefined ? path : `${pathOf(within as PageName)}${path}`;
}

/** The page of a route id, such as `/buckets/$bucket/usage`. */
export const pageAt = (id: string): PageName | undefined => pageNames.find((name) => pathOf(name) === id);
