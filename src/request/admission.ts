/**
 * The places of a request under rate limits. A bucket's is taken once the caller is allowed what it asks: what is refused takes no place
 * under the limit of a bucket, and is on no bill of it.
 */

import type { Context } from '../context.ts';
import { RateLimiter, type Scope } from '../domain/quotas/rate-limiter.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { establish, type RequestContext } from './request.ts';

/** @throws SlowDown */
export function admit(ctx: Context, request: RequestContext, scope: () => Scope): Promise<void> | undefined {
  const limiter = ctx.caches.of(RateLimiter);
  const take = (): void => {
    establish(request, { admission: limiter.admit(ctx, request.admission, scope()) });
  };
  if (!limiter.isReady(ctx)) return limiter.open(ctx).then(take);
  if (limiter.hasLimits) take();
  return undefined;
}

const admitTo = (ctx: Context, request: RequestContext, { id }: BucketRow): Promise<void> | undefined =>
  admit(ctx, request, () => ({ kind: 'bucket', id }));

/** For a request that the caller may make; further calls change nothing. @throws SlowDown */
export function admitToBucket(ctx: Context, request: RequestContext): Promise<void> | undefined {
  const { bucket, isPermitted } = request;
  if (isPermitted === true) return undefined;
  const permitted = (): void => {
    establish(request, { isPermitted: true });
  };
  const admitting = bucket === undefined ? undefined : admitTo(ctx, request, bucket);
  if (admitting !== undefined) return admitting.then(permitted);
  permitted();
  return undefined;
}

/** For a copy that may read its source. @throws SlowDown */
export async function admitToSource(ctx: Context, request: RequestContext, source: BucketRow): Promise<void> {
  if (source.id !== request.bucket?.id) await admitTo(ctx, request, source);
}
