/** GetBucketAcl and PutBucketAcl. */
import type { Context } from '../../../context.ts';
import { type GivenAcl, isPlainAcl, toUser } from '../../../domain/access/acl.ts';
import { acceptAcl, readOwnership } from '../../../domain/access/object-ownership.ts';
import { changeDocument, readDocument } from '../../../domain/configurations/documents.ts';
import { bucketAcl } from '../../../domain/configurations/families.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import type { AccessControlPolicy } from '../../../protocol/schemas/access/acl.ts';
import { aclReply, readAcl, type ShownAcl, toAcl } from '../../access/acl/acl-body.ts';
import { readPutAcl } from '../../access/acl/put-acl.ts';
import { firstRefusal } from '../../common/checks.ts';
import type { Configuration, Configuring, Prepared } from '../../common/configuration.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';

export const GetBucketAcl: HandlerOf<'GetBucketAcl'> = async (ctx, { bucket }) =>
  aclReply(ctx, await readShownAcl(ctx, bucket));

async function readShownAcl(ctx: Context, bucket: BucketRow): Promise<ShownAcl> {
  const { owner } = bucket;
  const isEnforced = (await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced';
  const grants = isEnforced ? undefined : await readDocument(ctx, bucket, bucketAcl);
  return { bucket, owner, grants: grants ?? [toUser(owner, 'FULL_CONTROL')] };
}

export const PutBucketAcl: HandlerOf<'PutBucketAcl'> = async (ctx, request) => {
  const given = await readPutAcl(ctx, request, { of: 'bucket', owner: request.bucket.owner });
  const { commit } = await prepare(ctx, { ...request, checks: firstRefusal }, given);
  await commit();
  return emptyReply(200);
};

async function prepare(
  ctx: Context,
  { bucket, record, checks }: Configuring,
  given: GivenAcl,
): Promise<Prepared> {
  const { owner } = bucket;
  const right = 'an ACL that the ownership and the public access block of the bucket allow';
  const grants = await checks.at({ path: 'AccessControlList', right }, () =>
    acceptAcl(ctx, given, { of: 'bucket', bucket, owner }),
  );
  if (grants === undefined) return { commit: async () => {} };
  const text = isPlainAcl(grants, owner) ? undefined : JSON.stringify(grants);
  // Checked again in the commit, so that a block or an ownership change after the request's authorization counts too.
  const amend = async (row: BucketRow): Promise<BucketRow> => {
    await acceptAcl(ctx, given, { of: 'bucket', bucket: row, owner });
    return row;
  };
  return {
    async commit() {
      await changeDocument(ctx, { bucket, family: bucketAcl, text, amend, record });
    },
  };
}

/** Without a document of its own, the owner alone has access: that is shown. */
export const acl: Configuration<AccessControlPolicy> = {
  unset: 'NoSuchConfiguration',
  read: async (ctx, bucket) => toAcl(ctx, await readShownAcl(ctx, bucket)),
  async prepare(ctx, request, { value }) {
    const { bucket, checks } = request;
    const grants = await readAcl(ctx, value, { owner: bucket.owner, checks });
    return prepare(ctx, request, { grants });
  },
  async remove(ctx, { bucket, record }) {
    await changeDocument(ctx, { bucket, family: bucketAcl, text: undefined, record });
  },
};
