/** GetBucketAcl and PutBucketAcl. */
import { isPlainAcl, toUser } from '../../../domain/access/acl.ts';
import { acceptAcl, readOwnership } from '../../../domain/access/object-ownership.ts';
import { changeDocument, readDocument } from '../../../domain/configurations/documents.ts';
import { bucketAcl } from '../../../domain/configurations/families.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { aclReply } from '../../access/acl/acl-body.ts';
import { readPutAcl } from '../../access/acl/put-acl.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';

export const GetBucketAcl: HandlerOf<'GetBucketAcl'> = async (ctx, { bucket }) => {
  const { owner } = bucket;
  const isEnforced = (await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced';
  const grants = isEnforced ? undefined : await readDocument(ctx, bucket, bucketAcl);
  return aclReply(ctx, { bucket, owner, grants: grants ?? [toUser(owner, 'FULL_CONTROL')] });
};

export const PutBucketAcl: HandlerOf<'PutBucketAcl'> = async (ctx, request) => {
  const { bucket, record } = request;
  const { owner } = bucket;
  const given = await readPutAcl(ctx, request, { of: 'bucket', owner });
  const grants = await acceptAcl(ctx, given, { of: 'bucket', bucket, owner });
  if (grants === undefined) return emptyReply(200);
  const text = isPlainAcl(grants, owner) ? undefined : JSON.stringify(grants);
  // Checked again in the commit, so that a block or an ownership change after the request's authorization counts too.
  const amend = async (row: BucketRow): Promise<BucketRow> => {
    await acceptAcl(ctx, given, { of: 'bucket', bucket: row, owner });
    return row;
  };
  await changeDocument(ctx, { bucket, family: bucketAcl, text, amend, record });
  return emptyReply(200);
};
