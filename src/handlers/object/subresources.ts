/** What an object has beside its content: retention and legal hold, ACL, tags, restored copies, and its encryption. */
import { assertAccountMayUse, openKeyUser } from '../../auth/session/key-user.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { isPlainAcl, toUser } from '../../domain/access/acl.ts';
import { acceptAcl, assertUnblocked, readOwnership } from '../../domain/access/object-ownership.ts';
import { findKey } from '../../domain/content/provider-key.ts';
import {
  type AuthorizedVersion,
  amendVersion,
  putLegalHold,
  putRetention,
  restoreVersion,
  rewrapKey,
} from '../../domain/objects/amend-version.ts';
import { assertLockable } from '../../domain/objects/object-lock.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import {
  type LegalHold,
  legalHold,
  objectEncryption,
  type Retention,
  retention,
} from '../../protocol/schemas/bucket.ts';
import { restoreRequest, tagging } from '../../protocol/schemas/object.ts';
import type { ReadFacts } from '../../request/body.ts';
import { type Tags, tagsIn, utf8Length } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { aclReply, readPutAcl } from '../common/acl.ts';
import { emptyReply, type HandlerOf, requireTarget, type WithFacts, xmlReply } from '../handler.ts';
import { assertKeyId } from './encryption-headers.ts';
import { asksBypass, futureRetention, versionHeader } from './object-headers.ts';

/** What `amendVersion` compares with the version that it changes. */
const authorizedVersion = ({ target, authorizeAgain }: AuthorizedInBucket): AuthorizedVersion => ({
  row: target,
  async again(row) {
    await authorizeAgain?.(row);
  },
});

/** The version that a request changes. */
const describeAmendment = (request: AuthorizedInBucket) => {
  const { bucket, key, query, record, requestId } = request;
  return {
    bucket,
    key,
    versionId: query.get('versionId'),
    record,
    requestId,
    authorized: authorizedVersion(request),
  };
};

const retentionIn = (body: Uint8Array): Retention =>
  readXml(retention, 'Retention', body, { maxBytes: bodyMaxDefault });

const retentionFacts: ReadFacts = (body) => {
  const { Mode, RetainUntilDate } = retentionIn(body);
  return { headers: { 'object-lock-mode': Mode, 'object-lock-retain-until-date': RetainUntilDate } };
};

export const GetObjectRetention: HandlerOf<'GetObjectRetention'> = async (_ctx, request) => {
  assertLockable(request.bucket);
  const { mode, retainUntil } = requireTarget(request).lock ?? {};
  if (mode === undefined || retainUntil === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(retention, 'Retention', {
    Mode: mode,
    RetainUntilDate: new Date(retainUntil).toISOString(),
  });
};

export const PutObjectRetention: WithFacts<'PutObjectRetention'> = {
  facts: retentionFacts,
  async handle(ctx, request) {
    const { Mode, RetainUntilDate } = retentionIn(request.body);
    const requested =
      Mode === undefined || RetainUntilDate === undefined
        ? undefined
        : futureRetention(ctx, { mode: Mode, until: RetainUntilDate }, 'RetainUntilDate');
    await putRetention(ctx, describeAmendment(request), { requested, bypass: asksBypass(request) });
    return emptyReply(200);
  },
};

// GetObjectLegalHold and PutObjectLegalHold.

const legalHoldIn = (body: Uint8Array): LegalHold =>
  readXml(legalHold, 'LegalHold', body, { maxBytes: bodyMaxDefault });

const legalHoldFacts: ReadFacts = (body) => ({
  headers: { 'object-lock-legal-hold': legalHoldIn(body).Status },
});

/** A version that never had a hold differs from one whose hold was removed. */
export const GetObjectLegalHold: HandlerOf<'GetObjectLegalHold'> = async (_ctx, request) => {
  assertLockable(request.bucket);
  const hold = requireTarget(request).lock?.legalHold;
  if (hold === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(legalHold, 'LegalHold', { Status: hold ? 'ON' : 'OFF' });
};

export const PutObjectLegalHold: WithFacts<'PutObjectLegalHold'> = {
  facts: legalHoldFacts,
  async handle(ctx, request) {
    const { Status } = legalHoldIn(request.body);
    await putLegalHold(ctx, describeAmendment(request), Status === 'ON');
    return emptyReply(200);
  },
};

// GetObjectAcl and PutObjectAcl.

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
  const { bucket } = request;
  const authorized = requireTarget(request);
  const { owner } = authorized;
  const input = await readPutAcl(ctx, request, { of: 'object', owner });
  const grants = await acceptAcl(ctx, input, {
    bucket,
    owner,
    of: 'object',
    accessPoint: request.accessPoint,
  });
  if (grants === undefined) return emptyReply(200, versionHeader(request, authorized));
  const row = await amendVersion(ctx, {
    ...describeAmendment(request),
    amend: async (row, current) => {
      const { acl, ...found } = row;
      // The grants were made for the owner of another version.
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

// GetObjectTagging, PutObjectTagging and DeleteObjectTagging.

/** The size of everything stored beside the content, tags included, because it is in the object's row. */
const storedMax = 12 * 1024;

export const GetObjectTagging: HandlerOf<'GetObjectTagging'> = async (_ctx, request) => {
  const row = requireTarget(request);
  const TagSet = (row.headers.tags ?? []).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply(tagging, 'Tagging', { TagSet }, versionHeader(request, row));
};

const taggingFacts: ReadFacts = (body) => ({ requestTags: tagsIn(body) });

export const PutObjectTagging: WithFacts<'PutObjectTagging'> = {
  facts: taggingFacts,
  async handle(ctx, request) {
    const row = await setTags(ctx, request, tagsIn(request.body));
    return emptyReply(200, versionHeader(request, row));
  },
};

export const DeleteObjectTagging: HandlerOf<'DeleteObjectTagging'> = async (ctx, request) => {
  const row = await setTags(ctx, request, []);
  return emptyReply(204, versionHeader(request, row));
};

async function setTags(ctx: Context, request: AuthorizedInBucket, tags: Tags): Promise<ObjectRow> {
  return amendVersion(ctx, {
    ...describeAmendment(request),
    amend: (row) => {
      const { tags: former = [], ...rest } = row.headers;
      if (tags.length === 0 && former.length === 0) return row;
      const headers = tags.length === 0 ? rest : { ...rest, tags };
      if (utf8Length(JSON.stringify(headers)) > storedMax)
        throw fail('BadRequest', `Tags and metadata of an object cannot take more than ${storedMax} bytes`);
      return { ...row, headers };
    },
  });
}

/** A hundred years. */
const daysMax = 36_500;

/** 202 for a first restore, though it is done; 200 for another one, which sets a new end (public API). */
export const RestoreObject: HandlerOf<'RestoreObject'> = async (ctx, request) => {
  const { wasRestored } = await restoreVersion(ctx, describeAmendment(request), parseDays(request));
  return emptyReply(wasRestored ? 200 : 202);
};

function parseDays({ body }: AuthorizedInBucket): number {
  const { Days, Type, SelectParameters, OutputLocation } = readXml(restoreRequest, 'RestoreRequest', body, {
    maxBytes: bodyMaxDefault,
  });
  if (Type !== undefined || SelectParameters !== undefined || OutputLocation !== undefined)
    throw fail('NotImplemented', 'A restore cannot select from the content.');
  if (Days === undefined) throw fail('MalformedXML', 'Days is required');
  if (Days >= 1 && Days <= daysMax) return Days;
  throw invalidArgument('Days', Days, `Days must be from 1 to ${daysMax}`);
}

const providerKeyIn = (body: Uint8Array) =>
  readXml(objectEncryption, 'ObjectEncryption', body, { maxBytes: bodyMaxDefault })['SSE-KMS'];

/** It writes an object as PutObject does, so it needs that permission too (public API). */
const encryptionFacts: ReadFacts = (body) => ({
  along: ['s3:PutObject'],
  headers: {
    'server-side-encryption': 'aws:kms',
    'server-side-encryption-aws-kms-key-id': providerKeyIn(body).KMSKeyArn,
  },
});

/**
 * UpdateObjectEncryption (public API): another key, or SSE-KMS in place of SSE-S3, without touching the content. The account of the bucket
 * must have the key: its owner could not read the object otherwise.
 */
export const UpdateObjectEncryption: WithFacts<'UpdateObjectEncryption'> = {
  facts: encryptionFacts,
  async handle(ctx, request) {
    const row = requireTarget(request);
    const { KMSKeyArn, BucketKeyEnabled } = providerKeyIn(request.body);
    const keyId = assertKeyId(KMSKeyArn, 'KMSKeyArn');
    const how = { by: 'provider', keyId, bucketKey: BucketKeyEnabled } as const;
    const user = openKeyUser(ctx, request);
    const assertOwnerMayUse = async (): Promise<void> => {
      const found = await findKey(ctx, { name: keyId, account: user.account });
      assertAccountMayUse(ctx, request, { ...found, named: keyId });
    };
    const { key: _, ...amendment } = describeAmendment(request);
    await rewrapKey(ctx, { ...amendment, row, how, user, assertOwnerMayUse });
    return emptyReply(200, versionHeader(request, row));
  },
};
