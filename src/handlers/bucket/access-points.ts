/** Parameters that the operations on access points share, and the access point that they are about. */

import { accessPointFacts, networkOrigin } from '../../auth/bucket-policy.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import { isPublicPolicy } from '../../auth/policy/public-status.ts';
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  accessPointArn,
  createAccessPoint,
  deleteAccessPoint,
  listAccessPoints,
  openAccessPoint,
  setAccessPointPolicy,
} from '../../domain/access/access-points.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import { findAccessPoint } from '../../metadata/buckets/access-points.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { flag, integer, optional, structure, text } from '../../protocol/operations/parameters.ts';
import {
  accessPointsMax,
  createAccessPointResult,
  getAccessPointPolicyResult,
  getAccessPointPolicyStatusResult,
  getAccessPointResult,
  listAccessPointsResult,
} from '../../protocol/schemas/access.ts';
import { readToken, writeToken } from '../../request/parameters.ts';
import { storeAccessPointPolicy } from '../common/access-point-policy.ts';
import { type Asking, action } from '../iam/action.ts';
import type { ActionRequest } from '../iam/fields.ts';

const account = text({ max: 128 });
const accessPointName = text({
  min: 3,
  max: 50,
  pattern: /^[a-z0-9][a-z0-9-]{1,48}[a-z0-9](?<!-s3alias|--ol-s3|--xa-s3)$/,
  must: 'lower-case letters, digits and hyphens, none of these at either end, and no ending that aliases have',
});
const bucketName = text({ max: 255 });
const accountId = { AccountId: optional(account) };
const bucketAccountId = optional(account);
const named = { ...accountId, Name: accessPointName };
const policyText = text({ max: 65_536 });

/** For a new access point each setting is true unless the request says otherwise (public API). */
const blockFields = optional(
  structure({
    BlockPublicAcls: optional(flag),
    IgnorePublicAcls: optional(flag),
    BlockPublicPolicy: optional(flag),
    RestrictPublicBuckets: optional(flag),
  }),
);

/** Refuses to show access points of another account. @throws AccessDenied */
function readAccount(
  { identity }: ActionRequest,
  { AccountId }: { readonly AccountId: string | undefined },
): string {
  if (AccountId !== undefined && AccountId !== identity.owner) throw fail('AccessDenied');
  return identity.owner;
}

// The permission that an operation on an access point requires, and the facts for its conditions.

interface Named {
  readonly AccountId: string | undefined;
  readonly Name: string;
}

/** For an access point that is about to be created, the parameters name it. */
async function namedPoint({ metadata, config }: Context, request: ActionRequest, input: Named) {
  const account = readAccount(request, input);
  const found = await findAccessPoint(metadata, account, input.Name);
  return { account, name: input.Name, region: found?.row.region ?? config.SVC_REGION };
}

const formatResource = async (ctx: Context, request: ActionRequest, input: Named): Promise<string> =>
  accessPointArn(await namedPoint(ctx, request, input));

const readFacts = async (input: Named, { ctx, request }: Asking): Promise<ReadonlyMap<string, string>> =>
  accessPointFacts(await namedPoint(ctx, request, input));

// CreateAccessPoint, GetAccessPoint, DeleteAccessPoint and ListAccessPoints.

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
    async run(ctx, request, input) {
      const account = readAccount(request, input);
      const { Name: name, Bucket: bucket, BucketAccountId: bucketOwner = account } = input;
      const { BlockPublicAcls, IgnorePublicAcls, BlockPublicPolicy, RestrictPublicBuckets } =
        input.PublicAccessBlockConfiguration ?? {};
      const block = {
        BlockPublicAcls: BlockPublicAcls ?? true,
        IgnorePublicAcls: IgnorePublicAcls ?? true,
        BlockPublicPolicy: BlockPublicPolicy ?? true,
        RestrictPublicBuckets: RestrictPublicBuckets ?? true,
      };
      const requested = { account, name, bucket, bucketOwner, block, record: request.record };
      const row = await createAccessPoint(ctx, requested);
      return { AccessPointArn: accessPointArn(row), Alias: row.alias };
    },
  },
);

export const GetAccessPoint = action('GetAccessPoint', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointResult,
  async run(ctx, request, input) {
    const { row } = await openAccessPoint(ctx, readAccount(request, input), input.Name);
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
  async run(ctx, request, input) {
    const account = readAccount(request, input);
    await deleteAccessPoint(ctx, { account, name: input.Name, record: request.record });
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
    async run(ctx, request, input) {
      const { Bucket: bucket, NextToken, MaxResults = accessPointsMax } = input;
      const { items, next } = await listAccessPoints(ctx, readAccount(request, input), {
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

// The policy of an access point: Put, Get, Delete, and whether it is public.

export const PutAccessPointPolicy = action(
  'PutAccessPointPolicy',
  { ...named, Policy: policyText },
  {
    resource: formatResource,
    facts: readFacts,
    async run(ctx, request, input) {
      const account = readAccount(request, input);
      const { Name: name, Policy: text } = input;
      await storeAccessPointPolicy(ctx, { account, name, text, record: request.record });
    },
  },
);

async function readAccessPointPolicy(ctx: Context, request: ActionRequest, input: Named): Promise<string> {
  const { row } = await openAccessPoint(ctx, readAccount(request, input), input.Name);
  if (row.policy !== undefined) return row.policy.text;
  throw fail('NoSuchAccessPointPolicy', { elements: { AccessPointName: input.Name } });
}

export const GetAccessPointPolicy = action('GetAccessPointPolicy', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointPolicyResult,
  run: async (ctx, request, input) => ({ Policy: await readAccessPointPolicy(ctx, request, input) }),
});

export const DeleteAccessPointPolicy = action('DeleteAccessPointPolicy', named, {
  resource: formatResource,
  facts: readFacts,
  status: 204,
  async run(ctx, request, input) {
    const account = readAccount(request, input);
    await setAccessPointPolicy(
      ctx,
      { account, name: input.Name, record: request.record },
      { text: undefined },
    );
  },
});

export const GetAccessPointPolicyStatus = action('GetAccessPointPolicyStatus', named, {
  resource: formatResource,
  facts: readFacts,
  result: getAccessPointPolicyStatusResult,
  async run(ctx, request, input) {
    const document = parsePolicy(await readAccessPointPolicy(ctx, request, input), {
      kind: 'access-point',
      isStored: true,
    });
    return { PolicyStatus: { IsPublic: isPublicPolicy(document) } };
  },
});
