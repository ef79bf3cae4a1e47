/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */

import * as ownKeys from './access-keys.ts';
import * as accounts from './accounts.ts';
import * as audit from './audit.ts';
import * as forceEmpty from './bucket-tasks.ts';
import * as ownBuckets from './buckets.ts';
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters.ts';
import * as configurations from './configurations.ts';
import { ExplainDecision, ExplainDecisions } from './explain-decision.ts';
import { ExportIam, ExportIamSecrets } from './iam/export-iam.ts';
import { ImportIam } from './iam/import-iam.ts';
import * as inlinePolicies from './iam/policies.ts';
import * as iamGroups from './iam/principals.ts';
import * as fsck from './integrity.ts';
import * as limits from './limits.ts';
import * as notify from './notify.ts';
import * as objects from './objects.ts';
import * as replicationPeers from './peers.ts';
import * as quotaDefaults from './quotas.ts';
import { GetRequestHistory, ListLogs, ListRequests } from './recent.ts';
import * as replicationResync from './replication.ts';
import * as session from './session.ts';
import { GetStatus } from './status.ts';
import * as storage from './storage.ts';
import { GetSupportBundle } from './support-bundle.ts';
import * as logLevel from './system.ts';
import { GetTrace, ListTraces } from './traces.ts';
import * as traffic from './usage.ts';
import * as workers from './workers.ts';

export const adminHandlers: AdminHandlers = {
  ...ownKeys,
  GetRequestHistory,
  GetStatus,
  ListLogs,
  ListRequests,
  ExplainDecision,
  ExplainDecisions,
  ...workers,
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
  ExportIam,
  ExportIamSecrets,
  ImportIam,
  ...audit,
  ...objects,
  ...ownBuckets,
  ...configurations,
  ...forceEmpty,
  ...notify,
  ...fsck,
  ...clusters,
  ...replicationPeers,
  ...replicationResync,
  ...session,
  ...quotaDefaults,
  ...limits,
  ...traffic,
};
