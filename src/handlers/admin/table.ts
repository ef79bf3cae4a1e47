/**
 * Every operation of the operator API and the handler that answers it, as `handlers/table.ts` has those of S3: a
 * missing one does not compile.
 */
import * as accounts from './accounts.ts';
import * as audit from './audit.ts';
import * as bucketTasks from './bucket-tasks.ts';
import * as buckets from './buckets.ts';
import type { AdminHandlers } from './call.ts';
import * as clusters from './clusters.ts';
import * as configurations from './configurations.ts';
import * as deliveries from './deliveries.ts';
import * as decisions from './explain-decision.ts';
import * as iamTransfer from './iam-transfer.ts';
import * as mfaDevices from './mfa-devices.ts';
import * as objects from './objects.ts';
import * as peers from './peers.ts';
import * as policies from './policies.ts';
import * as principals from './principals.ts';
import * as quotas from './quotas.ts';
import * as recent from './recent.ts';
import * as session from './session.ts';
import * as status from './status.ts';
import * as storage from './storage.ts';
import * as supportBundle from './support-bundle.ts';
import * as system from './system.ts';
import * as traces from './traces.ts';
import * as usage from './usage.ts';
import * as workers from './workers.ts';

export const adminHandlers: AdminHandlers = {
  ...accounts,
  ...audit,
  ...bucketTasks,
  ...buckets,
  ...clusters,
  ...configurations,
  ...deliveries,
  ...decisions,
  ...iamTransfer,
  ...mfaDevices,
  ...objects,
  ...peers,
  ...policies,
  ...principals,
  ...quotas,
  ...recent,
  ...session,
  ...status,
  ...storage,
  ...supportBundle,
  ...system,
  ...traces,
  ...usage,
  ...workers,
};
