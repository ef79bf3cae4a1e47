/** Policy, ACL, ownership and public access block of a bucket. */

import { isAllowed } from '../../auth/authorize.ts';
import { bucketPolicy, refuseBarePrincipals } from '../../auth/bucket-policy.ts';
import { type PolicyDocument, parsePolicy } from '../../auth/policy/document.ts';
import { isPublicPolicy } from '../../auth/policy/public-status.ts';
import { fail } from '../../base/errors.ts';
import { decodeUtf8Strictly } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import { isPlainAcl, isPublicAcl, type RequestedAcl, toUser } from '../../domain/access/acl.ts';
import { acceptAcl, readOwnership } from '../../domain/access/object-ownership.ts';
import { changeDocument, readDocument } from '../../domain/configurations/documents.ts';
import {
  bucketAcl,
  ownershipControls as family,
  publicAccessBlock,
} from '../../domain/configurations/families.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import {
  type AccessControlPolicy,
  ownershipControls,
  policyStatus,
  publicAccessBlockConfiguration,
} from '../../protocol/schemas/access.ts';
import { header } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { type AclDocument, aclReply, readAcl, readPutAcl, toAcl } from '../common/acl.ts';
import {
  type Configuration,
  type Configuring,
  document,
  type Prepared,
  storeConfiguration,
} from '../common/document.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';

// PutBucketPolicy, GetBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus.

/** A policy cannot delegate this operation to another account (public API). */
function assertOwnAccount({ bucket, identity }: AuthorizedInBucket): void {
  // The caller may use no method of this resource.
  if (identity?.owner !== bucket.owner) throw fail('MethodNotAllowed', { headers: { Allow: '' } });
}

export const PutBucketPolicy: HandlerOf<'PutBucketPolicy'> = async (ctx, request) => {
  assertOwnAccount(request);
  const { body } = request;
  if (body.length === 0) throw fail('MissingRequestBodyError');
  await storeConfiguration(ctx, request, { prepare, input: { value: decodePolicy(body) } });
  return emptyReply(204);
};

async function prepare(
  ctx: Context,
  request: Configuring,
  { value: text }: { readonly value: string },
): Promise<Prepared> {
  const { bucket, record, checks } = request;
  const document = await checks.at({ path: '' }, () =>
    parsePolicy(text, { kind: 'bucket', bucket: bucket.name }),
  );
  if (document === undefined) return { commit: async () => {} };
  await checks.at({ path: 'Statement', right: 'principals that are ARNs or accounts' }, () =>
    refuseBarePrincipals(ctx, bucket.owner, document),
  );
  const isPublic = isPublicPolicy(document);
  // Checked in the commit, so that a block that was set after the request's authorization counts too.
  const amend = async (row: BucketRow): Promise<BucketRow> => {
    const block = isPublic ? await readDocument(ctx, row, publicAccessBlock) : undefined;
    if (block?.BlockPublicPolicy === true) throw fail('AccessDenied', { blockedBy: 'BlockPublicPolicy' });
    return row;
  };
  await checks.at({ path: 'Statement', right: 'a policy that is not public, or no BlockPublicPolicy' }, () =>
    amend(bucket),
  );
  await checks.at({ path: 'Statement' }, async () => {
    if (header(request, 'confirm-remove-self-bucket-access')?.toLowerCase() !== 'true')
      await assertMayReturn(ctx, request, document);
  });
  return {
    async commit() {
      await changeDocument(ctx, { bucket, family: bucketPolicy, text, amend, record });
    },
  };
}

export const policy: Configuration<string, 'policy'> = {
  family: 'policy',
  unset: 'NoSuchBucketPolicy',
  async read(ctx, bucket) {
    const set = await readDocument(ctx, bucket, bucketPolicy);
    // It was parsed when it was stored.
    return set && (JSON.parse(set.text) as object);
  },
  prepare,
  async remove(ctx, { bucket, record }) {
    await changeDocument(ctx, { bucket, family: bucketPolicy, text: undefined, record });
  },
};

function decodePolicy(body: Uint8Array): string {
  try {
    return decodeUtf8Strictly(body);
  } catch (cause) {
    throw fail('MalformedPolicy', { message: 'The policy is not UTF-8 text.', cause });
  }
}

/** A caller that locks itself out by mistake would need the root of the account to undo it. */
async function assertMayReturn(ctx: Context, request: Configuring, document: PolicyDocument): Promise<void> {
  const { bucket } = request;
  const again = { action: 's3:PutBucketPolicy', bucket, bucketName: bucket.name, key: '' };
  const policy = { name: 'new bucket policy', document };
  if (!(await isAllowed(ctx, request, { ...again, policy })))
    throw fail(
      'MalformedPolicy',
      'The new bucket policy will not allow you to change the bucket policy in the future: say that you mean it by the confirm-remove-self-bucket-access header.',
    );
}

export const GetBucketPolicy: HandlerOf<'GetBucketPolicy'> = async (ctx, request) => {
  assertOwnAccount(request);
  const { text } = await readBucketPolicy(ctx, request);
  return { status: 200, headers: [['Content-Type', 'application/json']], body: text };
};

async function readBucketPolicy(ctx: Context, { bucket }: AuthorizedInBucket) {
  const policy = await readDocument(ctx, bucket, bucketPolicy);
  if (policy !== undefined) return policy;
  throw fail('NoSuchBucketPolicy', { elements: { BucketName: bucket.name } });
}

export const DeleteBucketPolicy: HandlerOf<'DeleteBucketPolicy'> = async (ctx, request) => {
  assertOwnAccount(request);
  const { bucket, record } = request;
  await changeDocument(ctx, { bucket, family: bucketPolicy, text: undefined, record });
  return emptyReply(204);
};

export const GetBucketPolicyStatus: HandlerOf<'GetBucketPolicyStatus'> = async (ctx, request) => {
  const { bucket } = request;
  const { document } = await readBucketPolicy(ctx, request);
  const IsPublic =
    isPublicPolicy(document) || isPublicAcl((await readDocument(ctx, bucket, bucketAcl)) ?? []);
  return xmlReply(policyStatus, 'PolicyStatus', { IsPublic });
};

// GetBucketAcl and PutBucketAcl.

export const GetBucketAcl: HandlerOf<'GetBucketAcl'> = async (ctx, { bucket }) =>
  aclReply(ctx, await readAclDocument(ctx, bucket));

async function readAclDocument(ctx: Context, bucket: BucketRow): Promise<AclDocument> {
  const { owner } = bucket;
  const isEnforced = (await readOwnership(ctx, bucket)) === 'BucketOwnerEnforced';
  const grants = isEnforced ? undefined : await readDocument(ctx, bucket, bucketAcl);
  return { bucket, owner, grants: grants ?? [toUser(owner, 'FULL_CONTROL')] };
}

export const PutBucketAcl: HandlerOf<'PutBucketAcl'> = async (ctx, request) => {
  const input = await readPutAcl(ctx, request, { of: 'bucket', owner: request.bucket.owner });
  await storeConfiguration(ctx, request, { prepare: prepareAcl, input });
  return emptyReply(200);
};

async function prepareAcl(
  ctx: Context,
  { bucket, record, checks }: Configuring,
  input: RequestedAcl,
): Promise<Prepared> {
  const { owner } = bucket;
  const right = 'an ACL that the ownership and the public access block of the bucket allow';
  const grants = await checks.at({ path: 'AccessControlList', right }, () =>
    acceptAcl(ctx, input, { of: 'bucket', bucket, owner }),
  );
  if (grants === undefined) return { commit: async () => {} };
  const text = isPlainAcl(grants, owner) ? undefined : JSON.stringify(grants);
  // Checked again in the commit, so that a block or an ownership change after the request's authorization counts too.
  const amend = async (row: BucketRow): Promise<BucketRow> => {
    await acceptAcl(ctx, input, { of: 'bucket', bucket: row, owner });
    return row;
  };
  return {
    async commit() {
      await changeDocument(ctx, { bucket, family: bucketAcl, text, amend, record });
    },
  };
}

/** Without a document of its own, the owner alone has access: that is shown. */
export const acl: Configuration<AccessControlPolicy, 'acl'> = {
  family: 'acl',
  unset: 'NoSuchConfiguration',
  read: async (ctx, bucket) => toAcl(ctx, await readAclDocument(ctx, bucket)),
  async prepare(ctx, request, { value }) {
    const { bucket, checks } = request;
    const grants = await readAcl(ctx, value, { owner: bucket.owner, checks });
    return prepareAcl(ctx, request, { grants });
  },
  async remove(ctx, { bucket, record }) {
    await changeDocument(ctx, { bucket, family: bucketAcl, text: undefined, record });
  },
};

// GetBucketOwnershipControls, PutBucketOwnershipControls, DeleteBucketOwnershipControls.

const ownershipHandlers = document({
  family,
  schema: ownershipControls,
  unset: 'OwnershipControlsNotFoundError',
  amend: async (row, value, ctx) => {
    if (value?.Rule[0]?.ObjectOwnership !== 'BucketOwnerEnforced') return row;
    const grants = (await readDocument(ctx, row, bucketAcl)) ?? [];
    const isOwners = grants.every(({ grantee }) => grantee.is === 'user' && grantee.id === row.owner);
    if (!isOwners) throw fail('InvalidBucketAclWithObjectOwnership');
    return row;
  },
});

export const ownership = ownershipHandlers.configuration;
export const GetBucketOwnershipControls = ownershipHandlers.get;
export const PutBucketOwnershipControls = ownershipHandlers.put;
export const DeleteBucketOwnershipControls = ownershipHandlers.remove;

// GetPublicAccessBlock, PutPublicAccessBlock, DeletePublicAccessBlock.

const nothingBlocked = {
  BlockPublicAcls: false,
  IgnorePublicAcls: false,
  BlockPublicPolicy: false,
  RestrictPublicBuckets: false,
};

const blockHandlers = document({
  family: publicAccessBlock,
  schema: publicAccessBlockConfiguration,
  unset: 'NoSuchPublicAccessBlockConfiguration',
  // All four are shown, also those that were not sent.
  validate: (_ctx, _call, value) => ({ ...nothingBlocked, ...value }),
});

export const accessBlock = blockHandlers.configuration;
export const GetPublicAccessBlock = blockHandlers.get;
export const PutPublicAccessBlock = blockHandlers.put;
export const DeletePublicAccessBlock = blockHandlers.remove;
