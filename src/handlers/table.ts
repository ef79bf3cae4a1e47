/**
 * Every operation and the handler that answers it: each file exports its handlers by the names of their operations. A
 * missing one does not compile.
 */
import { fail } from '../base/errors.ts';
import { type LeftOutName, leftOutNames, leftOutOperations } from '../protocol/operations/left-out.ts';
import * as access from './bucket/access.ts';
import * as accessPoints from './bucket/access-points.ts';
import * as bucket from './bucket/bucket.ts';
import * as cors from './bucket/cors.ts';
import * as deleteObjects from './bucket/delete-objects.ts';
import * as encryption from './bucket/encryption.ts';
import * as inventory from './bucket/inventory.ts';
import * as lifecycle from './bucket/lifecycle.ts';
import * as listings from './bucket/listings.ts';
import * as logging from './bucket/logging.ts';
import * as notification from './bucket/notification.ts';
import * as objectLock from './bucket/object-lock.ts';
import * as replication from './bucket/replication.ts';
import * as versioning from './bucket/versioning.ts';
import * as website from './bucket/website.ts';
import type { HandlerOf, Handlers } from './handler.ts';
import * as absentKinds from './iam/absent-kinds.ts';
import * as accessKeys from './iam/access-keys.ts';
import * as attachments from './iam/attachments.ts';
import * as groups from './iam/groups.ts';
import * as managedPolicies from './iam/managed-policies.ts';
import * as mfaDevices from './iam/mfa.ts';
import * as roles from './iam/roles.ts';
import * as simulations from './iam/simulate.ts';
import * as sts from './iam/sts.ts';
import * as iamTags from './iam/tags.ts';
import * as users from './iam/users.ts';
import * as copyObject from './object/copy-object.ts';
import * as getObject from './object/get-object.ts';
import * as getObjectAttributes from './object/get-object-attributes.ts';
import * as multipartUpload from './object/multipart-upload.ts';
import * as putObject from './object/put-object.ts';
import * as replicate from './object/replicate.ts';
import * as subresources from './object/subresources.ts';
import * as service from './service.ts';

// The answer of every operation that is not implemented.

const refusing =
  (name: LeftOutName): HandlerOf<LeftOutName> =>
  async () => {
    throw fail('NotImplemented', `${name} is not implemented: ${leftOutOperations[name].leftOut}.`);
  };

const leftOut = Object.fromEntries(
  leftOutNames.map((name) => [name, refusing(name)]),
  // The cast: one entry was made of each name.
) as Readonly<Record<LeftOutName, HandlerOf<LeftOutName>>>;

export const handlers: Handlers = {
  ...access,
  ...accessPoints,
  ...bucket,
  ...cors,
  ...deleteObjects,
  ...encryption,
  ...inventory,
  ...lifecycle,
  ...listings,
  ...logging,
  ...notification,
  ...objectLock,
  ...replication,
  ...versioning,
  ...website,
  ...absentKinds,
  ...accessKeys,
  ...attachments,
  ...groups,
  ...managedPolicies,
  ...mfaDevices,
  ...roles,
  ...simulations,
  ...sts,
  ...iamTags,
  ...users,
  ...copyObject,
  ...getObject,
  ...getObjectAttributes,
  ...multipartUpload,
  ...putObject,
  ...replicate,
  ...subresources,
  ...service,
  ...leftOut,
};
