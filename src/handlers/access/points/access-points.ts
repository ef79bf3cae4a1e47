/** CreateAccessPoint, GetAccessPoint, DeleteAccessPoint and ListAccessPoints. */

import { networkOrigin } from '../../../auth/authorization/access-point.ts';
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import {
  accessPointArn,
  createAccessPoint,
  deleteAccessPoint,
  listAccessPoints,
  openAccessPoint,
} from '../../../domain/access/access-points.ts';
import { lookUpBucket } from '../../../domain/buckets/buckets.ts';
import type { AccessPointRow } from '../../../metadata/records/access-points.ts';
import { isoTime } from '../../../protocol/formats/iso-time.ts';
import { integer, optional, text } from '../../../protocol/operations/parameters.ts';
import {
  accessPointsMax,
  createAccessPointResult,
  getAccessPointResult,
  listAccessPointsResult,
} from '../../../protocol/schemas/access/access-points.ts';
import { readToken, writeToken } from '../../common/continuation-token.ts';
import { action } from '../../iam/action.ts';
import { accountId, blockFields, bucketAccountId, bucketName, named, readAccount } from './fields.ts';
import { formatResource, readFacts } from './resource.ts';

export const CreateAccessPoint = action(
  'CreateAccessPoint',
  {
    ...named,
    Bucket: bucketName,
    BucketAccountId: bucketAccountId,
    PublicAccessBlockConfiguration: blockFields,
  },
  {
    resource: formatResource,
    facts: readFacts,
    result: createAccessPointResult,
    async run(ctx, request, given) {
      const account = readAccount(request, given);
      const { Name: name, Bucket: bucket, BucketAccountId: bucketOwner = account } = given;
      const { BlockPublicAcls, IgnorePublicAcls, BlockPublicPolicy, RestrictPublicBuckets } =
        given.PublicAccessBlockConfiguration ?? {};
      const block = {
        BlockPublicAcls: BlockPublicAcls ?? true,
        IgnorePublicAcls: IgnorePublicAcls ?? true,
        BlockPublicPolicy: BlockPublicPolicy ?? true,
        RestrictPublicBuckets: RestrictPublicBuckets ?? true,
      };
      const wanted = { account, name, bucket, bucketOwner, block, record: request.record };
      const row = await createAccessPoint(ctx, wanted);
      return { AccessPointArn: accessPointArn(row), Alias: row.alias };
    },
  },
);

export const GetAccessPoint = action('GetAccessPoint', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointResult,
  async run(ctx, request, given) {
    const { row } = await openAccessPoint(ctx, readAccount(request, given), given.Name);
    return {
      ...(await accessPointFields(ctx, row)),
      PublicAccessBlockConfiguration: row.block,
      CreationDate: isoTime(row.created),
    };
  },
});

async function accessPointFields(ctx: Pick<Context, 'metadata'>, row: AccessPointRow) {
  return {
    Name: row.name,
    Bucket: row.bucket,
    NetworkOrigin: networkOrigin,
    Alias: row.alias,
    AccessPointArn: accessPointArn(row),
    BucketAccountId: await readBucketOwner(ctx, row),
  };
}

/** Operators may have given the bucket to another account since; a bucket that is gone had the owner of the row. */
async function readBucketOwner(ctx: Pick<Context, 'metadata'>, row: AccessPointRow): Promise<string> {
  const bucket = await lookUpBucket(ctx, row.bucket);
  return bucket?.id === row.bucketId ? bucket.owner : row.bucketOwner;
}

/** Buckets that ListAccessPoints reads at the same time. */
const readsMax = 8;

export const DeleteAccessPoint = action('DeleteAccessPoint', named, {
  resource: formatResource,
  facts: readFacts,
  status: 204,
  async run(ctx, request, given) {
    const account = readAccount(request, given);
    await deleteAccessPoint(ctx, { account, name: given.Name, record: request.record });
  },
});

export const ListAccessPoints = action(
  'ListAccessPoints',
  {
    ...accountId,
    Bucket: optional(bucketName),
    NextToken: optional(text({ max: 1024 })),
    MaxResults: optional(integer({ min: 0, max: 2 ** 31 - 1 })),
  },
  {
    resource: () => '*',
    result: listAccessPointsResult,
    async run(ctx, request, given) {
      const { Bucket: bucket, NextToken, MaxResults = accessPointsMax } = given;
      const { items, next } = await listAccessPoints(ctx, readAccount(request, given), {
        bucket,
        after: readToken(NextToken)?.after,
        max: Math.min(Math.max(MaxResults, 1), accessPointsMax),
      });
      return {
        AccessPointList: await inParallel(readsMax, items, (row) => accessPointFields(ctx, row)),
        ...(next === undefined ? {} : { NextToken: writeToken({ after: next }) }),
      };
    },
  },
);
