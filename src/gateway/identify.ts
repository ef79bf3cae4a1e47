/** The second stage: finds out who sent the request. */
import { type AuthenticationContext, authenticate } from '../auth/authenticate.ts';
import type { Authenticated } from '../auth/identity.ts';
import { authenticateLogin } from '../auth/session/logins.ts';
import type { Context } from '../context.ts';
import { splitAddress } from '../protocol/address.ts';
import { amz, store } from '../protocol/dialect.ts';
import { ownHeaders } from '../request/parameters.ts';
import { establish, type Identified, type Located } from '../request/request.ts';
import { type BucketKey, openBucketKey } from './find-bucket.ts';

/** @throws what a wrong signature is refused with, and InvalidURI */
export async function identify(ctx: Context, request: Located): Promise<Identified> {
  const bucketKey = openBucketKey(ctx, request);
  const who = await authenticated(ctx, request, bucketKey);
  const { hoisted, dialect: signedIn } = who;
  const dialect = signedIn === undefined ? undefined : signedIn === 'amz' ? amz : store;
  // Set here, so that a refusal has it too.
  const { query, local, virtual, area } = establish(request, { dialect });
  const wire =
    hoisted === undefined || hoisted.length === 0
      ? request.wire
      : { ...request.wire, headers: request.wire.headers.with(hoisted) };
  const { scope, bucket, key } = area === undefined ? splitAddress(local, virtual) : atArea;
  return establish(request, {
    wire,
    identity: who.identity,
    signed: who.signed,
    renew: who.renew,
    payload: who.payload,
    own: ownHeaders(wire, query, dialect),
    scope,
    addressedName: bucket,
    bucketName: bucket,
    key,
    reached: bucketKey?.reached,
    signedWith: bucketKey?.signedWith,
  });
}

const atArea = { scope: 'service', bucket: '', key: '' } as const;

/**
 * A bearer token is no signature; only areas accept it. A preflight is not signed, whatever its query contains: a signature there
 * belongs to the request that may follow. A website is public.
 */
function authenticated(
  ctx: Context,
  request: Located,
  bucketKey: BucketKey | undefined,
): Promise<Authenticated> {
  const { incoming, area, isSite } = request;
  const { method, headers } = incoming.wire;
  const isBearer = area !== undefined && headers.get('authorization')?.toLowerCase().startsWith('bearer ');
  if (isBearer || isSite || method === 'OPTIONS') return unsigned();
  // Only browsers send the cookie; a header with a signature takes precedence.
  return area === 'admin' && headers.has('cookie') && !headers.has('authorization')
    ? authenticatedByCookie(ctx, request)
    : authenticatedBySignature(ctx, request, bucketKey);
}

const unsigned = async (): Promise<Authenticated> => ({
  identity: undefined,
  dialect: undefined,
  payload: { length: undefined, content: empty(), trailers: new Map(), announced: [], sha256: undefined },
});

const authenticatedByCookie = async (ctx: Context, request: Located): Promise<Authenticated> =>
  (await authenticateLogin(ctx, request.incoming, request.wire)) ??
  authenticatedBySignature(ctx, request, undefined);

const authenticatedBySignature = (
  ctx: Context,
  { incoming, path, query, local, virtual, isAction }: Located,
  bucketKey: BucketKey | undefined,
): Promise<Authenticated> =>
  authenticate(
    authenticationContext(ctx),
    incoming,
    { path, query },
    {
      virtualBucket: virtual,
      mountedPath: local,
      isActionQuery: isAction,
      secrets: bucketKey,
    },
  );

export function authenticationContext({
  config,
  caches,
  credentials,
  metadata,
  clock: ownClock,
  signingClock: clock = ownClock,
  hasher,
}: Context): AuthenticationContext {
  const { SVC_REGION, SVC_REGION_STRICT, SVC_SIGV2_PRESIGN } = config;
  const settings = { region: SVC_REGION, regionStrict: SVC_REGION_STRICT, sigV2Presign: SVC_SIGV2_PRESIGN };
  return { caches, credentials, metadata, clock, hasher, settings };
}

async function* empty(): AsyncGenerator<Uint8Array> {}
