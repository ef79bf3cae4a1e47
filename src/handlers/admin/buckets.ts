/** Buckets as operators see all of them, and as each account sees its own; their placement, default class, signing keys and access points. */
import { bucketPolicy } from '../../auth/bucket-policy.ts';
import { isPublicPolicy } from '../../auth/policy/public-status.ts';
import { callerOf } from '../../auth/principal.ts';
import { fail } from '../../base/errors.ts';
import { fromBase64 } from '../../base/text/base64.ts';
import type { Context } from '../../context.ts';
import {
  accessPointArn,
  assertNoAccessPoint,
  assertUnattached,
  createAccessPoint,
  deleteAccessPoint,
  isAlias,
  listAccessPoints,
  openAccessPoint,
  setAccessPointPolicy,
} from '../../domain/access/access-points.ts';
import { isPublicAcl } from '../../domain/access/acl.ts';
import { readOwnership } from '../../domain/access/object-ownership.ts';
import { createBucket, deleteBucket, explainRemains } from '../../domain/buckets/bucket.ts';
import { deleteSigningKey, rotateSigningKey, signingKeyStatus } from '../../domain/buckets/signing-key.ts';
import { changeBucket, lookUpBucket, openBucket } from '../../domain/common/buckets.ts';
import { type OwnedBucket, pageOwnedBuckets } from '../../domain/common/owned-buckets.ts';
import { inParallelTurns } from '../../domain/common/turns.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { bucketAcl, bucketEncryption, bucketWebsite } from '../../domain/configurations/families.ts';
import { changeOwner } from '../../domain/quotas/bucket-owner.ts';
import { readBucketUsage } from '../../metadata/buckets/usage.ts';
import type { AccessPointBlock, AccessPointRow } from '../../metadata/records/access-points.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { findStorageClassName } from '../../ports/storage-classes.ts';
import { bucketsPageDefault } from '../../protocol/admin/objects.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { readAccessPointPolicy, storeAccessPointPolicy } from '../common/access-point-policy.ts';
import { acceptRegion, assertBucketName, firstDocuments } from '../common/new-bucket.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, jsonReply, openCallTurns, seconds } from './call.ts';

// The buckets of all accounts: list, detail, and change of the owner.

/** Buckets of a page whose policies and ACLs are read at once. */
const documentsAtOnce = 16;

export const ListBuckets: AdminHandler<'ListBuckets'> = async (ctx, call) => {
  const rest = openCallTurns(ctx, call, { isParallel: true });
  const { prefix = '', versioning, limit = bucketsPageDefault, after, ...filter } = call.query;
  const { buckets, next } = await pageOwnedBuckets(
    ctx,
    { prefix, ...filter, versioning: versioning === 'unset' ? '' : versioning },
    { after, limit, rest },
  );
  const rows = await inParallelTurns({ limit: documentsAtOnce, rest }, buckets, (found) =>
    bucketJson(ctx, found),
  );
  return jsonReply({ rows, ...(next === undefined ? {} : { next }) });
};

/** What the list shows of a bucket. */
async function bucketJson(ctx: Context, { row, usage: { classes, updatedAt } }: OwnedBucket) {
  const stored = [...classes.values()];
  return {
    name: row.name,
    owner: row.owner,
    ownerName: row.ownerName,
    created: new Date(row.created).toISOString(),
    region: row.region,
    bytes: stored.reduce((sum, { bytes }) => sum + bytes, 0),
    objects: stored.reduce((sum, { objects }) => sum + objects, 0),
    ...(updatedAt === undefined ? {} : { updatedAt: new Date(updatedAt).toISOString() }),
    versioning: row.versioning || ('unset' as const),
    objectLock: row.objectLock,
    ...(row.quota === undefined ? {} : { quota: row.quota }),
    ...(row.placement === undefined ? {} : { placement: row.placement }),
    defaultClass: row.defaultClass ?? 'STANDARD',
    shards: row.shards,
    configurations: Object.keys(row.documents).sort(),
    hasSigningKey: row.signingKey !== undefined,
    ...(await accessJson(ctx, row)),
  };
}

export const GetBucket: AdminHandler<'GetBucket'> = async (ctx, { params }) => {
  const row = await openBucket(ctx, params.get('name') ?? '');
  // Before the counters are read: they have every commit that was answered by then.
  const countedAt = await ctx.metadata.now();
  const usage = await readBucketUsage(ctx.metadata, row.id);
  return jsonReply({
    ...(await bucketJson(ctx, { row, usage })),
    id: row.id,
    creator: row.creator,
    mfaDelete: row.mfaDelete === true,
    ...(row.placementMode === undefined ? {} : { placementMode: row.placementMode || 'weighted' }),
    ...(row.splittingTo === undefined ? {} : { splittingTo: row.splittingTo }),
    classes: [...usage.classes].map(([storageClass, counts]) => ({ storageClass, ...counts })),
    countedAt: new Date(countedAt).toISOString(),
    objectOwnership: await readOwnership(ctx, row),
    ...(await encryptionJson(ctx, row)),
    website: (await readDocument(ctx, row, bucketWebsite)) !== undefined,
    ...(await signingKeyJson(ctx, row)),
  });
};

/** Whether policy and ACL, each for itself, give strangers access; a public access block may still refuse it. */
async function accessJson(ctx: Context, row: BucketRow) {
  const policy = await readDocument(ctx, row, bucketPolicy);
  return {
    policyIsPublic: policy !== undefined && isPublicPolicy(policy.document),
    aclIsPublic: isPublicAcl((await readDocument(ctx, row, bucketAcl)) ?? []),
  };
}

async function encryptionJson(ctx: Context, row: BucketRow) {
  const [rule] = (await readDocument(ctx, row, bucketEncryption))?.Rule ?? [];
  const by = rule?.ApplyServerSideEncryptionByDefault;
  if (by === undefined) return {};
  const { SSEAlgorithm: algorithm, KMSMasterKeyID: keyId } = by;
  return { encryption: { algorithm, ...(keyId === undefined ? {} : { keyId }) } };
}

async function signingKeyJson(ctx: Context, { name, signingKey }: BucketRow) {
  if (signingKey === undefined) return {};
  const { keyId, createdAt, isExpired } = await signingKeyStatus(ctx, name);
  return { signingKey: { keyId, createdAt: new Date(createdAt).toISOString(), isExpired } };
}

export const PutBucketOwner: AdminHandler<'PutBucketOwner'> = async (
  ctx,
  { params, query, body, record },
) => {
  const account = await ctx.credentials.account({ owner: body.owner });
  if (account === undefined)
    throw fail('InvalidArgument', {
      message: `There is no account ${body.owner}: an account has a key in the settings.`,
      field: 'owner',
    });
  const name = params.get('name') ?? '';
  const policy = await readDocument(ctx, await openBucket(ctx, name), bucketPolicy);
  const isDropped = query.policy === 'drop';
  await changeOwner(ctx, {
    bucket: name,
    without: isDropped ? [bucketPolicy.name] : [],
    owner: account.owner,
    ownerName: account.displayName,
    withObjects: body.objects !== 'stay',
    record,
  });
  if (policy === undefined) return jsonReply({ policy: 'none' });
  return jsonReply({ policy: isDropped ? 'dropped' : 'kept', policyText: policy.text });
};

// The placement of a bucket: which clusters its objects go to.

/** Undefined where none is set. */
const placementJson = ({ name, placement, placementMode }: BucketRow) =>
  placement && { bucket: name, placement, mode: placementMode || ('weighted' as const) };

/** @throws NoSuchBucketPlacement */
function showPlacement(bucket: BucketRow) {
  const visible = placementJson(bucket);
  if (visible === undefined) throw fail('NoSuchBucketPlacement', { elements: { BucketName: bucket.name } });
  return jsonReply(visible);
}

export const GetBucketPlacement: AdminHandler<'GetBucketPlacement'> = async (ctx, { params }) =>
  showPlacement(await openBucket(ctx, params.get('name') ?? ''));

export const PutBucketPlacement: AdminHandler<'PutBucketPlacement'> = async (
  ctx,
  { params, body, record, match },
) => {
  const { placement, mode = 'weighted' } = body;
  await assertPossible(ctx, placement);
  const row = await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), {
    record,
    change: (bucket) => {
      match(placementJson(bucket));
      return { ...bucket, placement: Object.fromEntries(placement), placementMode: mode };
    },
  });
  return showPlacement(row);
};

export const DeleteBucketPlacement: AdminHandler<'DeleteBucketPlacement'> = async (
  ctx,
  { params, record, match },
) => {
  await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), {
    record,
    change: (row) => {
      match(placementJson(row));
      const { placement: _, placementMode: __, ...bucket } = row;
      return bucket;
    },
  });
  return emptyReply(204);
};

/** Accepts pending clusters and clusters without a weight; also draining ones, because they may become live again. */
async function assertPossible(ctx: Context, placement: ReadonlyMap<string, number>): Promise<void> {
  const { states } = await ctx.clusterStates.view();
  for (const id of placement.keys()) {
    const state = states.get(id);
    if (state === undefined || state === 'removed')
      throw fail('InvalidArgument', {
        message: `placement names cluster ${id}; there are: ${[...states.keys()].join(', ')}.`,
        field: `placement.${id}`,
      });
  }
  if (![...placement.values()].some((weight) => weight > 0))
    throw fail('InvalidArgument', {
      message: 'placement gives no cluster a weight above 0.',
      field: 'placement',
    });
}

// The storage class of what is written to a bucket without one.

const defaultClassJson = ({ name, defaultClass }: BucketRow) => ({
  bucket: name,
  defaultClass: defaultClass ?? 'STANDARD',
  isSet: defaultClass !== undefined,
});

export const GetBucketDefaultClass: AdminHandler<'GetBucketDefaultClass'> = async (ctx, { params }) =>
  jsonReply(defaultClassJson(await openBucket(ctx, params.get('name') ?? '')));

export const PutBucketDefaultClass: AdminHandler<'PutBucketDefaultClass'> = async (
  ctx,
  { params, body, record, match },
) => {
  const asked = body.defaultClass;
  const defaultClass = findStorageClassName(asked);
  if (defaultClass === undefined)
    throw fail('InvalidStorageClass', { elements: { StorageClassRequested: asked } });
  const change = (bucket: BucketRow): BucketRow => {
    match(defaultClassJson(bucket));
    return { ...bucket, defaultClass };
  };
  return jsonReply(
    defaultClassJson(
      await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change }),
    ),
  );
};

export const DeleteBucketDefaultClass: AdminHandler<'DeleteBucketDefaultClass'> = async (
  ctx,
  { params, record, match },
) => {
  const change = (row: BucketRow): BucketRow => {
    match(defaultClassJson(row));
    const { defaultClass: _, ...bucket } = row;
    return bucket;
  };
  await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change });
  return emptyReply(204);
};

// The signing key of a bucket: rotate, status, delete (spec, "Operator JSON API"). Times are Unix seconds.

export const RotateBucketSigningKey: AdminHandler<'RotateBucketSigningKey'> = async (
  ctx,
  { params, body: { key_id }, record },
) => {
  const { key, secret } = await rotateSigningKey(ctx, params.get('name') ?? '', { keyId: key_id, record });
  return jsonReply({
    key_id: key.keyId,
    secret_access_key: secret,
    created_at: seconds(key.createdAt),
    wrapped_dek_length: fromBase64(key.wrapped).length,
  });
};

export const GetBucketSigningKeyStatus: AdminHandler<'GetBucketSigningKeyStatus'> = async (
  ctx,
  { params },
) => {
  const { keyId: id, createdAt, ageMs, isExpired } = await signingKeyStatus(ctx, params.get('name') ?? '');
  return jsonReply({
    key_id: id,
    created_at: seconds(createdAt),
    age_days: ageMs / dayMs,
    max_age_days: ctx.config.SVC_KEY_MAX_AGE / dayMs,
    expired: isExpired,
  });
};

export const DeleteBucketSigningKey: AdminHandler<'DeleteBucketSigningKey'> = async (
  ctx,
  { params, record },
) => {
  await deleteSigningKey(ctx, params.get('name') ?? '', record);
  return emptyReply(204);
};

const dayMs = 24 * 60 * 60 * 1000;

// Creates and deletes buckets for an operator.

export const CreateBucket: AdminHandler<'CreateBucket'> = async (ctx, { body, identity, record }) => {
  const { name, owner, region, objectLock = false, versioning = false } = body;
  record?.about(`bucket:${name}`);
  if (identity === undefined) throw fail('AccessDenied');
  assertBucketName(name);
  await assertNoAccessPoint(ctx, name);
  const account = await ctx.credentials.account({ owner });
  if (account === undefined)
    throw fail('InvalidArgument', { message: `There is no account ${owner}.`, field: 'owner' });
  // The storage protocol answers its owner with the bucket that exists; an operator may have asked for another region or lock.
  if ((await lookUpBucket(ctx, name)) !== undefined)
    throw fail('BucketAlreadyExists', {
      message: `There is a bucket ${name}.`,
      elements: { BucketName: name },
    });
  const { username, userid } = callerOf(identity);
  const made = {
    owner: account.owner,
    region: acceptRegion(ctx.config, region) ?? ctx.config.SVC_REGION,
    objectLock,
  };
  record?.change?.(undefined, { ...made, versioning: versioning || objectLock ? 'Enabled' : 'unset' });
  const asked = { acl: undefined, ownership: undefined, tags: { TagSet: [] } };
  const bucket = await createBucket(ctx, {
    name,
    ...made,
    ownerName: account.displayName,
    creator: username ?? userid,
    ...(versioning ? { versioning: 'Enabled' as const } : {}),
    documents: firstDocuments(asked, account.owner, ctx.config.SVC_DEFAULT_OWNERSHIP),
    record,
  });
  return jsonReply(
    {
      name: bucket.name,
      owner: bucket.owner,
      region: bucket.region,
      created: new Date(bucket.created).toISOString(),
      versioning: bucket.versioning || ('unset' as const),
      objectLock: bucket.objectLock,
    },
    201,
  );
};

export const DeleteBucket: AdminHandler<'DeleteBucket'> = async (ctx, { params, record, requestId }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const { owner, region, objectLock, versioning } = bucket;
  record?.change?.({ owner, region, objectLock, versioning: versioning || 'unset' }, undefined);
  try {
    await deleteBucket(ctx, bucket, { record, requestId, assertUnused: () => assertUnattached(ctx, bucket) });
  } catch (cause) {
    throw await explainRemains(ctx, bucket, cause);
  }
  return emptyReply(204);
};

// Access points of a bucket: operators act as the account that owns it.

const blockJson = (block: AccessPointBlock) => ({
  blockPublicAcls: block.BlockPublicAcls,
  ignorePublicAcls: block.IgnorePublicAcls,
  blockPublicPolicy: block.BlockPublicPolicy,
  restrictPublicBuckets: block.RestrictPublicBuckets,
});

function accessPointJson(row: AccessPointRow) {
  const policy = readAccessPointPolicy(row);
  return {
    accessPoint: row.name,
    account: row.account,
    arn: accessPointArn(row),
    alias: row.alias,
    created: new Date(row.created).toISOString(),
    ...blockJson(row.block),
    statements: policy?.statements.length ?? 0,
    isPublic: policy !== undefined && isPublicPolicy(policy),
  };
}

type Call = Pick<AdminRequest, 'params' | 'record'>;

const openOwner = (ctx: Context, { params }: Call) => openBucket(ctx, params.get('name') ?? '');

/** The access point of the path. @throws NoSuchAccessPoint, also for one of another bucket */
async function openOne(ctx: Context, call: Call): Promise<AccessPointRow> {
  const bucket = await openOwner(ctx, call);
  const name = call.params.get('accessPoint') ?? '';
  const { row } = await openAccessPoint(ctx, bucket.owner, name);
  if (row.bucketId !== bucket.id) throw fail('NoSuchAccessPoint', { elements: { AccessPointName: name } });
  return row;
}

export const ListBucketAccessPoints: AdminHandler<'ListBucketAccessPoints'> = async (ctx, call) => {
  const bucket = await openOwner(ctx, call);
  const { limit = pageDefault, after } = call.query;
  const asked = { bucketId: bucket.id, after, max: limit };
  const { items, ...end } = await listAccessPoints(ctx, bucket.owner, asked);
  return jsonReply({ rows: items.map(accessPointJson), ...end });
};

export const GetBucketAccessPoint: AdminHandler<'GetBucketAccessPoint'> = async (ctx, call) => {
  const row = await openOne(ctx, call);
  const { policy } = row;
  return jsonReply({ ...accessPointJson(row), ...(policy === undefined ? {} : { document: policy.text }) });
};

const recordState = ({ name, block }: Pick<AccessPointRow, 'name' | 'block'>) => ({
  accessPoint: name,
  ...blockJson(block),
});

export const CreateBucketAccessPoint: AdminHandler<'CreateBucketAccessPoint'> = async (ctx, call) => {
  const { body, record } = call;
  const { accessPoint: name } = body;
  if (isAlias(name) || /--(?:ol|xa)-s3$/.test(name))
    throw fail('InvalidArgument', {
      message: 'accessPoint must have no ending that aliases have.',
      field: 'accessPoint',
    });
  const bucket = await openOwner(ctx, call);
  const block = {
    BlockPublicAcls: body.blockPublicAcls ?? true,
    IgnorePublicAcls: body.ignorePublicAcls ?? true,
    BlockPublicPolicy: body.blockPublicPolicy ?? true,
    RestrictPublicBuckets: body.restrictPublicBuckets ?? true,
  };
  record?.change?.(undefined, recordState({ name, block }));
  const named = { account: bucket.owner, bucketOwner: bucket.owner, bucket: bucket.name, name };
  return jsonReply(accessPointJson(await createAccessPoint(ctx, { ...named, block, record })), 201);
};

export const DeleteBucketAccessPoint: AdminHandler<'DeleteBucketAccessPoint'> = async (ctx, call) => {
  const row = await openOne(ctx, call);
  const { record } = call;
  record?.change?.(recordState(row), undefined);
  const { account, name, alias } = row;
  await deleteAccessPoint(ctx, { account, name, alias, record });
  return emptyReply(204);
};

export const PutBucketAccessPointPolicy: AdminHandler<'PutBucketAccessPointPolicy'> = async (ctx, call) => {
  const { account, name, alias } = await openOne(ctx, call);
  const { body, record } = call;
  await storeAccessPointPolicy(ctx, { account, name, alias, text: body.document, record });
  return emptyReply(204);
};

export const DeleteBucketAccessPointPolicy: AdminHandler<'DeleteBucketAccessPointPolicy'> = async (
  ctx,
  call,
) => {
  const { account, name, alias } = await openOne(ctx, call);
  const { record } = call;
  await setAccessPointPolicy(
    ctx,
    { account, name, alias, record },
    {
      text: undefined,
      async assertAllowed({ policy }) {
        record?.change?.(policy && { document: policy.text }, undefined);
      },
    },
  );
  return emptyReply(204);
};
