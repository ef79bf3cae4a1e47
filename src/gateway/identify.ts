/** The first step: who calls, established over what arrived (spec "Authentication" 1). */
import { type AuthenticationContext, authenticate } from '../auth/authenticate.ts';
import type { Authenticated } from '../auth/identity.ts';
import type { Context } from '../context.ts';
import type { Incoming, Query } from '../protocol/wire.ts';

export interface Arrival {
  readonly path: string;
  /** The path without the mount point. */
  readonly local: string;
  readonly query: Query;
  readonly virtual: string | undefined;
  readonly area: string | undefined;
  /** IAM and STS are asked, in their own words. */
  readonly isAction: boolean;
  readonly isSite: boolean;
}

/**
 * Who calls. A bearer token, which only areas understand, is no signature; a preflight has none, whatever its
 * query says: that is signed for the request that may follow it; and a website is there for everybody alike.
 */
export function identify(
  ctx: Context,
  incoming: Incoming,
  { path, local, query, virtual, area, isAction, isSite }: Arrival,
): Promise<Authenticated> {
  const { method, headers } = incoming.wire;
  const isBearer = area !== undefined && headers.get('authorization')?.toLowerCase().startsWith('bearer ');
  if (isBearer || isSite || method === 'OPTIONS') {
    const payload = {
      length: undefined,
      content: empty(),
      trailers: new Map(),
      announced: [],
      sha256: undefined,
    };
    return Promise.resolve({ identity: undefined, dialect: undefined, payload });
  }
  return authenticate(
    authenticationContext(ctx),
    incoming,
    { path, query },
    { virtualBucket: virtual, mountedPath: local, isActionQuery: isAction },
  );
}

export function authenticationContext({
  config,
  credentials,
  clock,
  hasher,
  bodyMemory,
}: Context): AuthenticationContext {
  const { SVC_REGION, SVC_REGION_STRICT, SVC_SIGV2_PRESIGN } = config;
  const settings = { region: SVC_REGION, regionStrict: SVC_REGION_STRICT, sigV2Presign: SVC_SIGV2_PRESIGN };
  return { credentials, clock, hasher, bodyMemory, settings };
}

async function* empty(): AsyncGenerator<Uint8Array> {}
