/** HeadBucket, DeleteBucket, GetBucketLocation, the preflight of CORS, request payment, and the site of a replica. */

import { authorize } from '../../auth/authorization/authorize.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { assertUnattached } from '../../domain/access/access-points.ts';
import { deleteBucket } from '../../domain/buckets/delete-bucket.ts';
import { lookUpBucket } from '../../domain/common/buckets.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { bucketCors, requestPayment } from '../../domain/configurations/families.ts';
import { findSite } from '../../metadata/site.ts';
import type { Reply } from '../../protocol/reply/reply.ts';
import { locationConstraint, requestPaymentConfiguration } from '../../protocol/schemas/bucket.ts';
import type { Authorized } from '../../request/request.ts';
import { allowingHeaders, matchCors, readCrossOrigin, varyHeader } from '../common/cross-origin.ts';
import { document } from '../common/document.ts';
import { emptyReply, xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

// HeadBucket, DeleteBucket, GetBucketLocation.

export const HeadBucket: HandlerOf<'HeadBucket'> = async (_ctx, { bucket, accessPoint }) =>
  emptyReply(200, [
    ['*-bucket-region', bucket.region],
    ['*-access-point-alias', String(accessPoint !== undefined)],
    ['Content-Type', 'application/xml'],
  ]);

export const DeleteBucket: HandlerOf<'DeleteBucket'> = async (ctx, { bucket, record, requestId }) => {
  await deleteBucket(ctx, bucket, { record, requestId, assertUnused: () => assertUnattached(ctx, bucket) });
  return emptyReply(204);
};

/** Shown as empty: the region called `default` (specification), and the one that the public API shows so. */
const unnamed = ['default', 'us-east-1'];
export const GetBucketLocation: HandlerOf<'GetBucketLocation'> = async (_ctx, { bucket }) =>
  xmlReply(locationConstraint, 'LocationConstraint', unnamed.includes(bucket.region) ? '' : bucket.region);

// GetReplicaSite: tells another site that this service takes replicas with their version ids.

/** The version of the requests between sites. */
const protocol = 1;

export const GetReplicaSite: HandlerOf<'GetReplicaSite'> = async (ctx, request) => {
  const { bucket } = request;
  // A policy about replicas names the objects of the bucket.
  await authorize(ctx, request, { bucket, bucketName: bucket.name, key: '*', action: 's3:ReplicateObject' });
  const { versioning, objectLock, owner } = bucket;
  return {
    status: 200,
    headers: [['Content-Type', 'application/json']],
    body: JSON.stringify({ protocol, site: await findSite(ctx), versioning, objectLock, owner }),
  };
};

// OptionsBucket and OptionsObject: a browser asks whether a page may send a request. The caller is neither authenticated nor
// authorized, and the key need not exist. The texts are those of the public API.

/** The methods that a rule can allow. */
const corsMethods: ReadonlySet<string> = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD']);

async function preflight(ctx: Context, { wire, bucketName, key }: Authorized): Promise<Reply> {
  const asked = readCrossOrigin(wire);
  if (asked === undefined)
    throw fail('BadRequest', 'Insufficient information. Origin request header needed.');
  const refuse = (message: string, resource: 'BUCKET' | 'OBJECT') =>
    fail('AccessForbidden', {
      message: `CORSResponse: ${message}`,
      elements: { Method: asked.method, ResourceType: resource },
    });
  const bucket = await lookUpBucket(ctx, bucketName);
  if (bucket === undefined) throw refuse('Bucket not found', 'BUCKET');
  const cors = await readDocument(ctx, bucket, bucketCors);
  if (cors === undefined) throw refuse('CORS is not enabled for this bucket.', 'BUCKET');
  const method = wire.headers.get('access-control-request-method');
  if (method === undefined || !corsMethods.has(method))
    throw fail('BadRequest', `Invalid Access-Control-Request-Method: ${method ?? 'null'}`);
  const rule = matchCors(cors, asked);
  if (rule === undefined) {
    throw refuse(
      "This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
      key === '' ? 'BUCKET' : 'OBJECT',
    );
  }
  return emptyReply(200, [...allowingHeaders(rule, asked), varyHeader]);
}

export const OptionsBucket = preflight;
export const OptionsObject = preflight;

// GetBucketRequestPayment, PutBucketRequestPayment; what they mean for requests is in `auth/authorization/authorize.ts`.

const configuration = document({
  family: requestPayment,
  root: 'RequestPaymentConfiguration',
  schema: requestPaymentConfiguration,
  unset: { Payer: 'BucketOwner' },
});

export const requestPayer = configuration.configuration;
export const GetBucketRequestPayment = configuration.get;
export const PutBucketRequestPayment = configuration.put;
