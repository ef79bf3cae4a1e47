/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */

import * as accounts from './access/accounts.ts';
import { ExplainDecision } from './access/explain-decision.ts';
import { ExportIam, ExportIamSecrets } from './access/iam/export-iam.ts';
import * as iamGroups from './access/iam/groups.ts';
import { ImportIam } from './access/iam/import-iam.ts';
import * as inlinePolicies from './access/iam/inline-policies.ts';
import * as iamPolicies from './access/iam/policies.ts';
import * as iamRoles from './access/iam/roles.ts';
import * as iamUsers from './access/iam/users.ts';
import { ImportAccessKey } from './access/import-access-key.ts';
import { GetOpenApi } from './access/open-api.ts';
import * as ownKeys from './access/own-keys.ts';
import { CheckPermissions } from './access/permissions.ts';
import * as session from './access/session.ts';
import * as signingKey from './access/signing-key.ts';
import * as ownBuckets from './buckets/buckets.ts';
import * as configurations from './buckets/configurations.ts';
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters/clusters.ts';
import * as defaultClass from './clusters/default-class.ts';
import * as drains from './clusters/drains.ts';
import * as placement from './clusters/placement.ts';
import * as storage from './clusters/storage.ts';
import * as forceEmpty from './maintenance/force-empty.ts';
import * as fsck from './maintenance/fsck.ts';
import * as inventory from './maintenance/inventory.ts';
import * as lifecycle from './maintenance/lifecycle.ts';
import * as logLevel from './maintenance/log-level.ts';
import * as notify from './maintenance/notify.ts';
import * as reshard from './maintenance/reshard.ts';
import * as rewrap from './maintenance/rewrap.ts';
import * as scrub from './maintenance/scrub.ts';
import { GetSupportBundle } from './maintenance/support-bundle.ts';
import { ListTasks } from './maintenance/tasks.ts';
import { GetTrace, ListTraces } from './maintenance/traces.ts';
import * as workers from './maintenance/workers.ts';
import * as audit from './overview/audit.ts';
import * as buckets from './overview/buckets.ts';
import { GetKeyProvider } from './overview/key-provider.ts';
import * as objects from './overview/objects.ts';
import { ListLogs } from './overview/recent-lines.ts';
import { ListRequests } from './overview/recent-requests.ts';
import { GetRequestHistory } from './overview/requests.ts';
import { GetStatus } from './overview/status.ts';
import * as system from './overview/system.ts';
import * as replicationPeers from './replication/peers.ts';
import * as replicationResync from './replication/resync.ts';
import * as replicationStatus from './replication/status.ts';
import * as limits from './usage/limits.ts';
import * as quotaDefaults from './usage/quota-defaults.ts';
import * as quotas from './usage/quotas.ts';
import * as traffic from './usage/traffic.ts';
import * as usage from './usage/usage.ts';

export const adminHandlers: AdminHandlers = {
  ...ownKeys,
  CheckPermissions,
  GetRequestHistory,
  GetStatus,
  ListLogs,
  ListRequests,
  ExplainDecision,
  GetOpenApi,
  ImportAccessKey,
  ...workers,
  ListTasks,
  ListTraces,
  GetTrace,
  ...logLevel,
  GetSupportBundle,
  ...storage,
  CreateAccount: accounts.CreateAccount,
  CreateRootKey: accounts.CreateRootKey,
  DeleteAccount: accounts.DeleteAccount,
  DeleteRootKey: accounts.DeleteRootKey,
  GetAccount: accounts.GetAccount,
  ListAccounts: accounts.ListAccounts,
  PutAccount: accounts.PutAccount,
  PutRootKey: accounts.PutRootKey,
  ...iamGroups,
  ...inlinePolicies,
  ...iamPolicies,
  ExportIam,
  ExportIamSecrets,
  ImportIam,
  ...iamRoles,
  ...iamUsers,
  ...audit,
  ...system,
  ...buckets,
  ...objects,
  ...ownBuckets,
  ...configurations,
  ...forceEmpty,
  ...inventory,
  ...lifecycle,
  ...notify,
  ...reshard,
  ...fsck,
  ...rewrap,
  GetKeyProvider,
  ...scrub,
  ...clusters,
  ...drains,
  ...placement,
  ...defaultClass,
  ...replicationPeers,
  ...replicationResync,
  ...replicationStatus,
  ...session,
  ...signingKey,
  ...usage,
  ...quotas,
  ...quotaDefaults,
  ...limits,
  ...traffic,
};
