/**
 * The operator API: every operation with its method, path, parameters, body and reply. Routing, audit, validation, the OpenAPI document,
 * the client and `sluice admin` derive from it. The rows are in the files beside this one, joined here. Every request but GET is audited as
 * `admin:<Name>`, unless the row says otherwise.
 */
import type { JsonFields, JsonReader, ObjectOf, ValueOf } from '../formats/json.ts';
import { accessRows, sessionRows } from './access.ts';
import { auditRows } from './audit.ts';
import {
  accessPointRows,
  bucketTaskRows,
  configurationRows,
  placementRows,
  signingKeyRows,
} from './buckets.ts';
import { accountRows, iamRows, inlinePolicyRows, mfaRows } from './iam.ts';
import { iamTransferRows } from './iam-transfer.ts';
import { notifyRows } from './notify.ts';
import { allBucketRows, objectRows } from './objects.ts';
import { observabilityRows } from './observability.ts';
import { peerRows, replicationRows } from './replication.ts';
import type { AdminOperation } from './row.ts';
import { clusterRows, maintenanceRows, storageRows } from './storage.ts';
import { statusRows, systemRows } from './system.ts';
import { limitRows, quotaDefaultRows, quotaRows, usageRows } from './usage.ts';
import { workerRows } from './workers.ts';

export const adminPrefix = '/admin/v1';

/** Named parts, because the compiler would write every schema into the declarations of this file once more. */
type Rows = typeof sessionRows &
  typeof accessRows &
  typeof accountRows &
  typeof iamRows &
  typeof inlinePolicyRows &
  typeof mfaRows &
  typeof iamTransferRows &
  typeof auditRows &
  typeof allBucketRows &
  typeof objectRows &
  typeof configurationRows &
  typeof accessPointRows &
  typeof storageRows &
  typeof clusterRows &
  typeof placementRows &
  typeof maintenanceRows &
  typeof workerRows &
  typeof observabilityRows &
  typeof statusRows &
  typeof systemRows &
  typeof bucketTaskRows &
  typeof peerRows &
  typeof replicationRows &
  typeof notifyRows &
  typeof signingKeyRows &
  typeof quotaRows &
  typeof quotaDefaultRows &
  typeof limitRows &
  typeof usageRows;

export const adminOperations: Rows = {
  ...sessionRows,
  ...accessRows,
  ...accountRows,
  ...iamRows,
  ...inlinePolicyRows,
  ...mfaRows,
  ...iamTransferRows,
  ...auditRows,
  ...allBucketRows,
  ...objectRows,
  ...configurationRows,
  ...accessPointRows,
  ...storageRows,
  ...clusterRows,
  ...placementRows,
  ...maintenanceRows,
  ...workerRows,
  ...observabilityRows,
  ...statusRows,
  ...systemRows,
  ...bucketTaskRows,
  ...peerRows,
  ...replicationRows,
  ...notifyRows,
  ...signingKeyRows,
  ...quotaRows,
  ...quotaDefaultRows,
  ...limitRows,
  ...usageRows,
};

export type AdminOperationName = keyof Rows;
export const adminOperationNames = Object.keys(adminOperations) as readonly AdminOperationName[];

/** The decoded body of a request; an operation without one has no fields. */
export type AdminBody<N extends AdminOperationName> = Rows[N] extends {
  body: infer B extends JsonReader<unknown>;
}
  ? ValueOf<B>
  : Readonly<Record<string, never>>;
export type AdminQuery<N extends AdminOperationName> = Rows[N] extends { query: infer Q extends JsonFields }
  ? ObjectOf<Q>
  : Readonly<Record<string, never>>;
export type AdminReply<N extends AdminOperationName> = Rows[N] extends {
  reply: infer R extends JsonReader<unknown>;
}
  ? ValueOf<R>
  : undefined;

export function describeAdminOperation(name: AdminOperationName) {
  const row: AdminOperation = adminOperations[name];
  const { on, reads, audited, reply, media, secret, takesSecret } = row;
  const [method = '', path = ''] = on.split(' ');
  const { status = reply === undefined && media === undefined ? 204 : 200, query = {} } = row;
  return {
    ...row,
    method,
    path: adminPrefix + path,
    /** The noun that the operation is about: the first part of its path. */
    tag: path.split(/[/.]/)[1] ?? '',
    parameters: [...path.matchAll(/:(\w+)/g)].map(([, parameter = '']) => parameter),
    query,
    statuses: typeof status === 'number' ? [status] : status,
    audited: audited === true || (method !== 'GET' && reads !== true),
    /** It takes an Idempotency-Key. Neither a secret of its reply nor a hash of one in its body may be kept, nor a stream. */
    repeatable: method === 'POST' && secret !== true && takesSecret !== true && media === undefined,
  };
}

/** Whether BatchRead performs it: it changes nothing, is not audited, and its reply is JSON without a secret. */
export function isBatchable(name: AdminOperationName): boolean {
  const { audited, reply, secret, callers } = describeAdminOperation(name);
  return !audited && reply !== undefined && secret !== true && callers !== 'anyone';
}
