/** GetReplicaSite: tells another site that this service takes replicas with their version ids. */
import { authorize } from '../../auth/authorization/authorize.ts';
import { findSite } from '../../metadata/site.ts';
import type { HandlerOf } from '../handler.ts';

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
