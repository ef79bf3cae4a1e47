/** PutBucketPolicy, GetBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus. */
import { isAllowed } from '../../../auth/authorization/authorize.ts';
import { refuseBarePrincipals } from '../../../auth/authorization/bare-principals.ts';
import { bucketPolicy } from '../../../auth/authorization/bucket-policy.ts';
import { type PolicyDocument, parsePolicy } from '../../../auth/policy/document/document.ts';
import { isPublicPolicy } from '../../../auth/policy/public-status.ts';
import type { Context } from '../../../context.ts';
import { isPublicAcl } from '../../../domain/access/acl.ts';
import { changeDocument, readDocument } from '../../../domain/configurations/documents.ts';
import { bucketAcl, publicAccessBlock } from '../../../domain/configurations/families.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { policyStatus } from '../../../protocol/schemas/access/policy-status.ts';
import { firstRefusal } from '../../common/checks.ts';
import type { Configuration, Configuring, Prepared } from '../../common/configuration.ts';
import { header } from '../../common/own-headers.ts';
import { emptyReply, xmlReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';

/** A policy cannot delegate this operation to another account (public API). */
function assertOwnAccount({ bucket, identity }: AuthorizedInBucket): void {
  // The caller may use no method of this resource.
  if (identity?.owner !== bucket.owner) throw fail('MethodNotAllowed', { headers: { Allow: '' } });
}

export const PutBucketPolicy: HandlerOf<'PutBucketPolicy'> = async (ctx, request) => {
  assertOwnAccount(request);
  const { body } = request;
  if (body.length === 0) throw fail('MissingRequestBodyError');
  const asked = { ...request, checks: firstRefusal };
  const { commit } = await prepare(ctx, asked, { value: decodePolicy(body) });
  await commit();
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

export const policy: Configuration<string> = {
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
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
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
