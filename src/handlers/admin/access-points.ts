/** Access points of a bucket for operators, who act as the account that owns the bucket. */

import { isPublicPolicy } from '../../auth/policy/public-status.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  accessPointArn,
  createAccessPoint,
  deleteAccessPoint,
  isAlias,
  listAccessPoints,
  openAccessPoint,
  setAccessPointPolicy,
} from '../../domain/access/access-points.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import type { AccessPointBlock, AccessPointRow } from '../../metadata/records/access-points.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { readAccessPointPolicy, storeAccessPointPolicy } from '../common/access-point-policy.ts';
import { emptyReply } from '../common/xml-reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from './call.ts';

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
  const asked = { bucket: bucket.name, after, max: limit };
  const { items, ...end } = await listAccessPoints(ctx, bucket.owner, asked);
  // One that a creator left when it died may be of an earlier bucket of the name.
  const rows = items.filter(({ bucketId }) => bucketId === bucket.id).map(accessPointJson);
  return jsonReply({ rows, ...end });
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
  await deleteAccessPoint(ctx, { account: row.account, name: row.name, record });
  return emptyReply(204);
};

export const PutBucketAccessPointPolicy: AdminHandler<'PutBucketAccessPointPolicy'> = async (ctx, call) => {
  const { account, name } = await openOne(ctx, call);
  await storeAccessPointPolicy(ctx, { account, name, text: call.body.document, record: call.record });
  return emptyReply(204);
};

export const DeleteBucketAccessPointPolicy: AdminHandler<'DeleteBucketAccessPointPolicy'> = async (
  ctx,
  call,
) => {
  const { account, name } = await openOne(ctx, call);
  const { record } = call;
  await setAccessPointPolicy(
    ctx,
    { account, name, record },
    {
      text: undefined,
      async assertAllowed({ policy }) {
        record?.change?.(policy && { document: policy.text }, undefined);
      },
    },
  );
  return emptyReply(204);
};
