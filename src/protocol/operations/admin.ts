/**
 * The operator API: every operation with its method and path below `/admin/v1`. A `:name` in the path is a parameter. Every request but
 * GET is audited as `admin:<Name>`, unless the row says otherwise.
 */
export interface AdminOperation {
  readonly on: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`;
  /** The operation changes nothing, whatever its method. */
  readonly reads?: true;
  /** It is audited although it changes nothing. */
  readonly audited?: true;
  /** Who may call it: `anyone`; `known`, every caller that is authenticated. Absent: whom the policies allow. */
  readonly callers?: 'anyone' | 'known' | undefined;
}

export const adminPrefix = '/admin/v1';

export const adminOperations = {
  LogIn: { on: 'POST /session', callers: 'anyone' },
  GetSession: { on: 'GET /session', callers: 'known' },
  LogOut: { on: 'DELETE /session', callers: 'known' },
  ListLogins: { on: 'GET /logins' },
  RevokeLogin: { on: 'DELETE /logins/:id' },
  RevokeLogins: { on: 'DELETE /logins' },
  ExplainDecision: { on: 'POST /why', reads: true },
  ImportAccessKey: { on: 'POST /iam/users/:user/access-keys' },
  GetStorageMeta: { on: 'GET /storage/meta' },
  GetStorageData: { on: 'GET /storage/data' },
  GetStorageClasses: { on: 'GET /storage/classes' },
  GetStorageHealth: { on: 'GET /storage/health' },
  ListClusters: { on: 'GET /clusters' },
  GetCluster: { on: 'GET /clusters/:id' },
  ActivateCluster: { on: 'POST /clusters/:id/activate' },
  PutClusterWeight: { on: 'PUT /clusters/:id/weight' },
  DrainCluster: { on: 'POST /clusters/:id/drain' },
  UndrainCluster: { on: 'POST /clusters/:id/undrain' },
  GetDrainProgress: { on: 'GET /clusters/:id/drain-progress' },
  GetDrainImpact: { on: 'GET /clusters/:id/drain-impact' },
  GetBucketPlacement: { on: 'GET /buckets/:name/placement' },
  PutBucketPlacement: { on: 'PUT /buckets/:name/placement' },
  DeleteBucketPlacement: { on: 'DELETE /buckets/:name/placement' },
  GetBucketDefaultClass: { on: 'GET /buckets/:name/default-class' },
  PutBucketDefaultClass: { on: 'PUT /buckets/:name/default-class' },
  DeleteBucketDefaultClass: { on: 'DELETE /buckets/:name/default-class' },
  ListWorkers: { on: 'GET /workers' },
  GetFsck: { on: 'GET /fsck' },
  StartFsck: { on: 'POST /fsck' },
  GetScrub: { on: 'GET /scrub' },
  StartScrub: { on: 'POST /scrub' },
  ForceEmptyBucket: { on: 'POST /buckets/:name/force-empty' },
  GetForceEmptyBucket: { on: 'GET /buckets/:name/force-empty' },
  RunBucketInventory: { on: 'POST /buckets/:name/inventory/:id/run' },
  GetBucketInventoryRun: { on: 'GET /buckets/:name/inventory/:id/run' },
  RunLifecycle: { on: 'POST /buckets/:name/lifecycle/run' },
  GetLifecycle: { on: 'GET /buckets/:name/lifecycle' },
  ListReplicationPeers: { on: 'GET /replication/peers' },
  GetReplicationPeer: { on: 'GET /replication/peers/:id' },
  PutReplicationPeer: { on: 'PUT /replication/peers/:id' },
  DeleteReplicationPeer: { on: 'DELETE /replication/peers/:id' },
  CheckReplicationPeer: { on: 'POST /replication/peers/:id/check' },
  GetReplicationStatus: { on: 'GET /replication/status' },
  ListFailedReplications: { on: 'GET /replication/failed' },
  RetryFailedReplications: { on: 'POST /replication/retry' },
  StartReplicationResync: { on: 'POST /replication/resync/:bucket' },
  GetReplicationResync: { on: 'GET /replication/resync/:bucket' },
  CancelReplicationResync: { on: 'DELETE /replication/resync/:bucket' },
  GetNotifyTargets: { on: 'GET /notify/targets' },
  RedriveNotifications: { on: 'POST /notify/redrive' },
  DiscardNotifications: { on: 'POST /notify/discard' },
  ReshardBucket: { on: 'POST /buckets/:name/reshard' },
  RotateBucketSigningKey: { on: 'POST /buckets/:name/signing-key/rotate' },
  GetBucketSigningKeyStatus: { on: 'GET /buckets/:name/signing-key/status', audited: true },
  DeleteBucketSigningKey: { on: 'DELETE /buckets/:name/signing-key' },
  GetBucketQuota: { on: 'GET /buckets/:name/quota' },
  PutBucketQuota: { on: 'PUT /buckets/:name/quota' },
  DeleteBucketQuota: { on: 'DELETE /buckets/:name/quota' },
  GetUserQuota: { on: 'GET /iam/users/:user/quota' },
  PutUserQuota: { on: 'PUT /iam/users/:user/quota' },
  DeleteUserQuota: { on: 'DELETE /iam/users/:user/quota' },
  GetBucketUsage: { on: 'GET /buckets/:name/usage' },
  GetBucketTraffic: { on: 'GET /buckets/:name/traffic' },
  GetUserTraffic: { on: 'GET /iam/users/:user/traffic' },
  ExportUsage: { on: 'GET /usage/export' },
  GetUserUsage: { on: 'GET /iam/users/:user/usage' },
  GetReshardBucket: { on: 'GET /buckets/:name/reshard' },
} as const satisfies Readonly<Record<string, AdminOperation>>;

export type AdminOperationName = keyof typeof adminOperations;
export const adminOperationNames = Object.keys(adminOperations) as readonly AdminOperationName[];

export function describeAdminOperation(name: AdminOperationName) {
  const { on, reads, audited, callers }: AdminOperation = adminOperations[name];
  const [method = '', path = ''] = on.split(' ');
  return {
    method,
    path: adminPrefix + path,
    callers,
    audited: audited === true || (method !== 'GET' && reads !== true),
  };
}

/** The operation of a method and local path. */
export const adminOperationAt = (method: string, local: string): AdminOperationName | undefined =>
  adminOperationNames.find((name) => {
    const row = describeAdminOperation(name);
    return row.method === method && toPattern(row.path).test(local);
  });

const toPattern = (path: string): RegExp => new RegExp(`^${path.replace(/:\w+/g, '[^/]+')}/?$`);

/** The bucket that an operator's request is about, by its path; '' where it is about none. */
export const adminBucketAt = (local: string): string =>
  /\/admin\/v1\/buckets\/([^/]+)/.exec(local)?.[1] ?? '';
