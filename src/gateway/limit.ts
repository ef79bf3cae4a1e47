/**
 * Rate limits: an account, or the source of an anonymous request, takes its place once the signature is verified; a bucket once the caller
 * is authorized, so that refused strangers use up nothing of its limit.
 */
import type { Context } from '../context.ts';
import { type Admission, RateLimiter, type Scope } from '../domain/quotas/rate-limiter.ts';
import type { Reply } from '../protocol/reply.ts';
import { establish, type Identified, type RequestContext } from '../request/request.ts';
import { countedBody, receivedBytesOf } from './traffic.ts';

/** @throws SlowDown */
export const limitCaller = (ctx: Context, request: Identified): Promise<void> | undefined => {
  const { identity, wire } = request;
  return limit(ctx, request, () =>
    identity === undefined
      ? { kind: 'anonymous', id: sourceOf(wire.remote) }
      : { kind: 'account', id: identity.owner },
  );
};

/** @throws SlowDown */
export const limitBucket = (ctx: Context, request: RequestContext): Promise<void> | undefined => {
  const { bucket } = request;
  return bucket === undefined ? undefined : limit(ctx, request, () => ({ kind: 'bucket', id: bucket.id }));
};

function limit(ctx: Context, request: RequestContext, scope: () => Scope): Promise<void> | undefined {
  const limiter = ctx.caches.of(RateLimiter);
  const admit = (): void => {
    establish(request, { admission: limiter.admit(ctx, request.admission, scope()) });
  };
  if (!limiter.isReady(ctx)) return limiter.open(ctx).then(admit);
  if (limiter.hasLimits) admit();
  return undefined;
}

/** An IPv6 client has a network of its own: its first 64 bits. */
function sourceOf(remote: string): string {
  if (!remote.includes(':') || remote.toLowerCase().startsWith('::ffff:')) return remote;
  const [head = '', tail] = remote.split('::');
  const groups = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const missing = tail === undefined ? 0 : Math.max(0, 8 - groups.length - after.length);
  return [...groups, ...Array<string>(missing).fill('0'), ...after].slice(0, 4).join(':');
}

/** The body of a request, which waits where a limit of bytes says so. */
export const limitedContent = (ctx: Context, request: RequestContext): typeof request.payload => {
  const { admission, payload, signal } = request;
  if (payload === undefined || admission?.hasByteLimit !== true) return payload;
  return { ...payload, content: passing(ctx, payload.content, { admission, signal }) };
};

/** The reply of a request, which ends its places under the limits at its end. */
export function endLimits(ctx: Context, request: RequestContext, reply: Reply): Reply {
  const { admission, signal, incoming, row } = request;
  if (admission === undefined) return reply;
  const { body } = reply;
  if (row?.streams !== true) admission.count(receivedBytesOf(incoming));
  if (typeof body !== 'object' || !(Symbol.asyncIterator in body) || incoming.wire.method === 'HEAD') {
    if (body instanceof Uint8Array || typeof body === 'string') admission.count(body.length);
    admission.end();
    return reply;
  }
  const content = admission.hasByteLimit ? passing(ctx, body, { admission, signal }) : body;
  return { ...reply, body: countedBody(content, () => admission.end()) };
}

async function* passing(
  ctx: Context,
  body: AsyncIterable<Uint8Array>,
  { admission, signal }: { readonly admission: Admission; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    await admission.pass(ctx, piece.length, signal);
    yield piece;
  }
}
