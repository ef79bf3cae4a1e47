/** The last stage: the bucket, may the caller, the body; then the handler of the operation. */
import { explainRefusal, isCharged, mayCharge, resourceArn } from '../auth/authorize.ts';
import { fail, Refusal } from '../base/errors.ts';
import { tap } from '../base/tap.ts';
import type { Context } from '../context.ts';
import type { Reached } from '../domain/access/access-points.ts';
import { signingKeyIdentity } from '../domain/common/buckets.ts';
import { bucketWebsite } from '../domain/configurations/families.ts';
import { factsReader, handlerOf, needsBucket } from '../handlers/handler.ts';
import { handlers } from '../handlers/table.ts';
import type { BucketRow } from '../metadata/tables.ts';
import { StorageFull } from '../ports/chunk-store.ts';
import { accessPointMethods } from '../protocol/operations/operations.ts';
import type { Reply } from '../protocol/reply.ts';
import { emptyBody, moveBuffered, readBody } from '../request/body.ts';
import {
  type Authorized,
  admitToBucket,
  establish,
  type Identified,
  type InBucket,
  type RequestContext,
  type Selected,
} from '../request/request.ts';
import { type BucketReader, findBucket, openBucketReader } from './find-bucket.ts';
import { assertMayAsk, limitedContent, permit } from './permit.ts';
import { showIndex } from './site.ts';
import { assertUnsentFits, PacedBody, reserveStreamed } from './traffic.ts';

export async function serve(context: Context, selected: Selected): Promise<Reply> {
  const { row, operation, incoming, isAction } = selected;
  const reader = openBucketReader(context, selected);
  const { ctx } = reader;
  ctx.trace?.stage('bucket');
  const request = needsBucket(row) ? await located(reader, selected) : selected;
  if (operation === 'PostObject') moveBuffered(ctx, request);
  if (needsIndex(request)) {
    const index = await showIndex(ctx, request);
    if (index !== undefined) return index;
  }
  // A decision that needs the body waits for it, unless the caller is refused in any case.
  const needsBody = !isAction && factsReader(handlers[operation]) !== undefined;
  ctx.trace?.stage('authorize');
  if (needsBody) await assertMayAskFresh(ctx, request);
  if (!needsBody) {
    await authorizeFresh(ctx, request);
    if (row.adds) assertSpace(ctx);
  }
  const hasBody = incoming.body !== undefined;
  if (hasBody && !row.streams) ctx.trace?.stage('body');
  if (row.streams && incoming.body instanceof PacedBody) incoming.body.stream();
  // The body of an action has been read, because its parameters are in it.
  const reading = isAction ? undefined : readBody(ctx, request, { hasBody, row, countedIn: request });
  const complete = establish(request, { body: reading === undefined ? emptyBody : await reading });
  // Policies and the caller's key may have changed while the body arrived: judge by their present state.
  if (reading !== undefined) await renew(ctx, complete);
  if (reading !== undefined || needsBody) await authorizeRequest(ctx, complete);
  if (needsBody && row.adds) assertSpace(ctx);
  // Where the handler authorizes each object that it accesses, it admits the request once one is allowed.
  const admitting = row.authorization === 'each' ? undefined : admitToBucket(ctx, complete);
  if (admitting !== undefined) await admitting;
  if (row.streams && hasBody) {
    const { payload } = complete;
    const content = authorizedAtItsEnd(ctx, complete, payload.content);
    establish(complete, { payload: { ...payload, content } });
    establish(complete, { payload: limitedContent(ctx, complete) ?? complete.payload });
  }
  if (row.copies)
    establish(complete, { stillAuthorized: (content) => authorizedAtItsEnd(ctx, complete, content) });
  if (row.answersEach || (isAction && hasBody)) assertUnsentFits(ctx, complete);
  const release = row.streams && hasBody ? reserveStreamed(ctx, complete) : undefined;
  ctx.trace?.stage('handle');
  let reply: Reply;
  try {
    reply = await handlerOf(handlers[operation])(ctx, complete);
  } catch (cause) {
    reply = await handleAgain(ctx, complete, cause);
  } finally {
    release?.();
  }
  const { requesterPays }: RequestContext = complete;
  return requesterPays === true
    ? { ...reply, headers: [...reply.headers, ['*-request-charged', 'requester']] }
    : reply;
}

/** The index of the bucket, or of a directory in it, for requests to the storage address that a browser makes as to a website. */
const asksForIndex = (
  { wire, identity, query, key }: Identified,
  { documents }: Pick<BucketRow, 'documents'>,
): boolean =>
  bucketWebsite.name in documents &&
  identity === undefined &&
  wire.method === 'GET' &&
  query.pairs.length === 0 &&
  (key === '' || key.endsWith('/'));

const needsIndex = (request: Authorizing): request is Selected & InBucket =>
  request.bucket !== undefined && request.accessPoint === undefined && asksForIndex(request, request.bucket);

/** @throws NoSuchBucket, NoSuchAccessPoint, MethodNotAllowed for what access points do not serve */
async function located({ ctx, cached }: BucketReader, selected: Selected): Promise<Selected & InBucket> {
  const bucket = cached === undefined ? undefined : await cached();
  // An index document has another key than the one that was requested beforehand.
  if (bucket !== undefined && !asksForIndex(selected, bucket))
    return establish(selected, { bucket, bucketName: bucket.name, isCached: true });
  // A form may have arrived slowly, so its bucket is read again.
  const reached = selected.operation === 'PostObject' ? undefined : selected.reached;
  if (reached instanceof Refusal) throw reached;
  return establish(selected, found(selected, reached ?? (await findBucket(ctx, selected))));
}

function found({ operation, row, scope }: Selected, { bucket, accessPoint }: Reached) {
  if (accessPoint !== undefined && scope !== 'object' && !row.accessPoints)
    throw fail('MethodNotAllowed', {
      message: `${operation} is not an operation of access points.`,
      headers: { Allow: accessPointMethods(operation) },
    });
  return { bucket, bucketName: bucket.name, accessPoint, isCached: false };
}

/** Refuses a write on a full disk. It runs after authorization, so that strangers learn nothing about the disk. */
function assertSpace({ diskSpace: space }: Pick<Context, 'diskSpace'>): void {
  const warning = space?.warning();
  if (warning !== undefined) throw new StorageFull(warning);
}

type Authorizing = Selected & Partial<InBucket> & Pick<Authorized, 'accessPoint'>;

/** @throws AccessDenied, and what else the caller is refused with */
async function authorizeRequest(ctx: Context, request: Authorizing): Promise<void> {
  const { row, bucket } = request;
  const target = await permit(ctx, request);
  const isChargeable = bucket !== undefined && row.authorization !== 'none' && mayCharge(bucket);
  establish(request, { target, requesterPays: isChargeable && (await isCharged(ctx, request, bucket)) });
}

/** Replaces the cached row of the bucket. @throws NoSuchBucket */
async function takeStored(ctx: Context, request: Authorizing): Promise<void> {
  establish(request, found(request, await findBucket(ctx, request)));
}

/** Before a body is read: a refusal by a cached row of the bucket is repeated with a fresh one. @throws AccessDenied */
async function assertMayAskFresh(ctx: Context, request: Authorizing): Promise<void> {
  if (!request.isCached) return assertMayAsk(request);
  try {
    assertMayAsk(request);
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause;
    await takeStored(ctx, request);
    assertMayAsk(request);
  }
}

/** As `authorizeRequest`, but a refusal by a cached row of the bucket, which may be stale, is repeated with a fresh row. */
const authorizeFresh = (ctx: Context, request: Authorizing): Promise<void> =>
  request.isCached ? authorizeTwice(ctx, request) : authorizeRequest(ctx, request);

async function authorizeTwice(ctx: Context, request: Authorizing): Promise<void> {
  try {
    await authorizeRequest(ctx, request);
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause;
    await takeStored(ctx, request);
    await authorizeRequest(ctx, request);
  }
}

/**
 * Reads the caller and the bucket again after the body has arrived.
 * @throws InvalidAccessKeyId for a key that was made inactive, NoSuchBucket where the bucket was deleted or replaced
 */
async function renew(ctx: Context, request: Authorizing): Promise<void> {
  const { bucket } = request;
  establish(request, { identity: (await request.renew?.()) ?? request.identity });
  if (bucket === undefined) return;
  const now = await findBucket(ctx, request);
  if (now.bucket.id !== bucket.id) throw fail('NoSuchBucket', { elements: { BucketName: bucket.name } });
  if (request.signed !== undefined && signingKeyIdentity(now.bucket.signingKey) !== request.signedWith)
    throw fail('AccessDenied', 'The signing key of the bucket was replaced while the request arrived.');
  establish(request, found(request, now));
}

/** A content that is streamed for less than this is stored under the authorization at its first byte. */
const authorizedMs = 1_000;

/** Authorizes a slow content again at its end, by the present caller and bucket; nothing is committed if that refuses it. */
function authorizedAtItsEnd(
  ctx: Context,
  request: Authorizing,
  content: AsyncIterable<Uint8Array>,
): AsyncIterable<Uint8Array> {
  const authorizedAt = ctx.clock.elapsed();
  return tap(content, {
    see() {},
    async end() {
      if (ctx.clock.elapsed() - authorizedAt < authorizedMs) return;
      // A copy, because the handler works with the request that was authorized first.
      const again = { ...request };
      await renew(ctx, again);
      await authorizeRequest(ctx, again);
    },
  });
}

/** After a handler threw: what refuses by a cached row of the bucket is repeated with the stored row, if that is another one. */
async function handleAgain(
  ctx: Context,
  request: Authorized & Partial<InBucket>,
  cause: unknown,
): Promise<Reply> {
  if (request.isCached !== true || !(cause instanceof Refusal)) throw addDetails(request, cause);
  const cached = JSON.stringify(request.bucket);
  await takeStored(ctx, request);
  if (JSON.stringify(request.bucket) === cached) throw addDetails(request, cause);
  await authorizeRequest(ctx, request);
  try {
    return await handlerOf(handlers[request.operation])(ctx, request);
  } catch (again) {
    throw addDetails(request, again);
  }
}

/** What a handler threw, with the details that this caller may see. */
function addDetails(request: Authorized & Partial<InBucket>, cause: unknown): unknown {
  const { row, identity, bucket } = request;
  const { action } = row;
  const resource = `"${resourceArn({ ...request, action })}"`;
  return explainRefusal(cause, { identity, owner: bucket?.owner, action, resource });
}
