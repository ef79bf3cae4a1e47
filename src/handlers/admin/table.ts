/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */
import * as accounts from './accounts.ts';
import * as audit from './audit.ts';
import * as forceEmpty from './bucket-tasks.ts';
import * as ownBuckets from './buckets.ts';
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters.ts';
import * as configurations from './configurations.ts';
import * as replicationResync from './deliveries.ts';
import { ExplainDecision, ExplainDecisions } from './explain-decision.ts';
import { ExportIam, ExportIamSecrets, ImportIam } from './iam-transfer.ts';
import * as objects from './objects.ts';
import * as replicationPeers from './peers.ts';
import * as inlinePolicies from './policies.ts';
import * as iamGroups from './principals.ts';
import * as quotaDefaults from './quotas.ts';
import { GetRequestHistory, ListLogs, ListRequests } from './recent.ts';
import * as session from './session.ts';
import { GetStatus } from './status.ts';
import * as fsck from './storage.ts';
import { GetSupportBundle } from './support-bundle.ts';
import * as logLevel from './system.ts';
import { GetTrace, ListTraces } from './traces.ts';
import * as traffic from './usage.ts';
import * as workers from './workers.ts';

export const adminHandlers: AdminHandlers = {
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
  ...accounts,
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
  ...fsck,
  ...clusters,
  ...replicationPeers,
  ...replicationResync,
  ...session,
  ...quotaDefaults,
  ...traffic,
};
