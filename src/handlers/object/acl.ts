/** GetObjectAcl, PutObjectAcl, and the ACL that a write asks for. */

import { fail } from '../../base/errors.ts';
import { isPlainAcl, toUser } from '../../domain/access/acl.ts';
import { acceptAcl, assertUnblocked, readOwnership } from '../../domain/access/object-ownership.ts';
import { amendVersion } from '../../domain/objects/amend-version.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { aclReply, readPutAcl } from '../common/acl.ts';
import { emptyReply } from '../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../handler.ts';
import { versionHeader } from './object-headers.ts';

export const GetObjectAcl: HandlerOf<'GetObjectAcl'> = async (ctx, request) => {
  const { bucket } = request;
  const row = requireTarget(request);
  const isEnforced = (await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced';
  const owner = isEnforced ? bucket.owner : row.owner;
  const grants = isEnforced ? undefined : row.acl;
  return aclReply(ctx, {
    bucket,
    owner,
    grants: grants ?? [toUser(owner, 'FULL_CONTROL')],
    headers: versionHeader(request, row),
  });
};

export const PutObjectAcl: HandlerOf<'PutObjectAcl'> = async (ctx, request) => {
  const { bucket, key, query, record, requestId } = request;
  const authorized = requireTarget(request);
  const { owner } = authorized;
  const given = await readPutAcl(ctx, request, { of: 'object', owner });
  const grants = await acceptAcl(ctx, given, {
    bucket,
    owner,
    of: 'object',
    accessPoint: request.accessPoint,
  });
  if (grants === undefined) return emptyReply(200, versionHeader(request, authorized));
  const row = await amendVersion(ctx, {
    bucket,
    key,
    versionId: query.get('versionId'),
    record,
    requestId,
    amend: async (row, current) => {
      const { acl, ...found } = row;
      // The caller was judged by another version, which may have been another's.
      if (found.version !== authorized.version) throw fail('OperationAborted');
      await assertUnblocked(ctx, current, grants);
      const next = isPlainAcl(grants, owner) ? undefined : grants;
      // The event `ObjectAcl:Put` tells of a change.
      if (describeGrants(acl) === describeGrants(next)) return row;
      return next === undefined ? found : { ...found, acl: next };
    },
  });
  return emptyReply(200, versionHeader(request, row));
};

/** Equal texts for equal grants, whatever the order of their fields. */
const describeGrants = (grants: ObjectRow['acl']): string =>
  JSON.stringify(
    grants?.map(({ grantee, permission }) => [permission, ...Object.entries(grantee).toSorted()]) ?? null,
  );
