/** Every operation of the operator API and the handler that answers it: a missing one does not compile. */
import * as accounts from './accounts.ts';
import * as audit from './audit.ts';
import * as bucketTasks from './bucket-tasks.ts';
import * as buckets from './buckets.ts';
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters.ts';
import * as configurations from './configurations.ts';
import * as deliveries from './deliveries.ts';
import { ExplainDecision, ExplainDecisions } from './explain-decision.ts';
import { ExportIam, ExportIamSecrets, ImportIam } from './iam-transfer.ts';
import * as mfaDevices from './mfa-devices.ts';
import * as objects from './objects.ts';
import * as peers from './peers.ts';
import * as policies from './policies.ts';
import * as principals from './principals.ts';
import * as quotas from './quotas.ts';
import { GetRequestHistory, ListLogs, ListRequests } from './recent.ts';
import * as session from './session.ts';
import { GetStatus } from './status.ts';
import * as storage from './storage.ts';
import { GetSupportBundle } from './support-bundle.ts';
import * as system from './system.ts';
import { GetTrace, ListTraces } from './traces.ts';
import * as usage from './usage.ts';
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
  ...system,
  GetSupportBundle,
  ...accounts,
  ...principals,
  ...policies,
  ...mfaDevices,
  ExportIam,
  ExportIamSecrets,
  ImportIam,
  ...audit,
  ...objects,
  ...buckets,
  ...configurations,
  ...bucketTasks,
  ...storage,
  ...clusters,
  ...peers,
  ...deliveries,
  ...session,
  ...quotas,
  ...usage,
};
