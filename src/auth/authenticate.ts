/**
 * The first step of every request: decides how it is signed, verifies that, and stamps who calls (spec
 * "Authentication", "Service" 6.1). Nothing here rewrites anything: signatures cover the host and the path
 * as they were sent.
 */
import { fail } from '../errors/refusal.ts';
import type { Clock } from '../ports/clock.ts';
import type { Credential, Credentials } from '../ports/credentials.ts';
import type { Hasher } from '../ports/hasher.ts';
import { type Dialect, dialects } from '../protocol/dialect.ts';
import type { Incoming, Query, Wire } from '../protocol/wire.ts';
import { headerClaim } from './authorization-header.ts';
import { canonicalRequest, encodePath } from './canonical-request.ts';
import { type Claim, checkRegion, refuseUnsignedHeaders } from './claim.ts';
import type { Authenticated, Identity } from './identity.ts';
import { mismatch } from './mismatch.ts';
import { anonymousPayload, signedPayload } from './payload.ts';
import { presignedClaim } from './presigned.ts';
import { isSignature, SigningKeys } from './signing-key.ts';
import { isSigV2, verifySigV2 } from './sigv2-presigned.ts';

export interface AuthenticationContext {
  readonly credentials: Credentials;
  readonly clock: Pick<Clock, 'now'>;
  readonly hasher: Hasher;
  readonly settings: {
    readonly region: string;
    /** Refuses signatures for any other region. */
    readonly regionStrict: boolean;
    /** Accepts version-2 presigned queries. */
    readonly sigV2Presign: boolean;
  };
}

export interface ParsedTarget {
  /** The raw path of the request line. */
  readonly path: string;
  readonly query: Query;
}

export interface AuthenticationOptions {
  /**
   * The secret that this request must be signed with, where it is not the access key's own: a bucket with a
   * key of its own (spec "Authentication" 6). Whatever it throws refuses the request: there is no fall-back.
   */
  readonly secretFor?: ((credential: Credential) => Promise<string>) | undefined;
  /** The bucket that a virtual host names; version-2 signatures cover it in front of the path. */
  readonly virtualBucket?: string | undefined;
}

export async function authenticate(
  ctx: AuthenticationContext,
  incoming: Incoming,
  parsed: ParsedTarget,
  options: AuthenticationOptions = {},
): Promise<Authenticated> {
  const { wire } = incoming;
  const authorization = soleAuthorization(wire);
  const presigned = presignedDialect(parsed.query);
  const sigV2 = isSigV2(parsed.query);
  if (Number(authorization !== undefined) + Number(presigned !== undefined) + Number(sigV2) > 1)
    throw twoMechanisms();
  if (sigV2) {
    const { credential, dialect } = await verifySigV2(ctx, wire, parsed, options);
    const payload = signedPayload({ hasher: ctx.hasher, incoming, dialect, declared: undefined });
    return { identity: identityOf(credential), dialect: dialect.name, payload };
  }
  let claim: Claim;
  if (authorization !== undefined) claim = headerClaim(wire, authorization, ctx.clock);
  else if (presigned !== undefined) claim = presignedClaim(wire, parsed.query, presigned, ctx.clock);
  else return anonymousCaller(ctx, incoming);
  const { credential, key } = await verify(ctx, wire, parsed, { claim, secretFor: options.secretFor });
  const payload = signedPayload({
    hasher: ctx.hasher,
    incoming,
    dialect: claim.dialect,
    declared: claim.payloadHash,
    // A presigned URL is used by whoever holds it, who cannot sign chunks.
    chain: authorization === undefined ? undefined : { ...claim, key },
  });
  return { identity: identityOf(credential), dialect: claim.dialect.name, payload };
}

function soleAuthorization(wire: Wire): string | undefined {
  const values = wire.headers.all('authorization');
  if (values.length > 1) throw twoMechanisms();
  return values[0];
}

const twoMechanisms = () =>
  fail('InvalidArgument', {
    message:
      'Only one auth mechanism allowed; only one of the signing query parameters, the Signature query string parameter or one Authorization header should be specified',
    elements: { ArgumentName: 'Authorization' },
  });

const presignMarks = dialects.map(
  (dialect) =>
    [
      dialect,
      new Set(['Algorithm', 'Credential', 'Signature'].map((name) => dialect.queryPrefix + name)),
    ] as const,
);

function presignedDialect(query: Query): Dialect | undefined {
  let found: Dialect | undefined;
  for (const [name] of query.pairs) {
    for (const [dialect, marks] of presignMarks) {
      if (!marks.has(name)) continue;
      if (found !== undefined && found !== dialect) throw twoMechanisms();
      found = dialect;
    }
  }
  return found;
}

/** One store of signing keys for each store of secrets, and as long-lived. */
const signingKeys = new WeakMap<Credentials, SigningKeys>();

function signingKeysOf(credentials: Credentials): SigningKeys {
  let keys = signingKeys.get(credentials);
  if (keys === undefined) {
    keys = new SigningKeys();
    signingKeys.set(credentials, keys);
  }
  return keys;
}

async function verify(
  ctx: AuthenticationContext,
  wire: Wire,
  parsed: ParsedTarget,
  { claim, secretFor }: { claim: Claim; secretFor: AuthenticationOptions['secretFor'] },
) {
  const code =
    claim.leaveOut === undefined ? 'AuthorizationHeaderMalformed' : 'AuthorizationQueryParametersError';
  refuseUnsignedHeaders(wire, claim);
  // A blank access key takes the way of an unknown one, so nothing tells them apart.
  const credential = await ctx.credentials.find(claim.accessKey);
  if (credential === undefined)
    throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: claim.accessKey } });
  refuseSessionToken(wire, parsed.query, claim.dialect);
  checkRegion(ctx.settings, claim.region, code);
  const secret = secretFor === undefined ? credential.secretKey : await secretFor(credential);
  const keys = signingKeysOf(ctx.credentials);
  const key = keys.find(ctx.hasher, secret, claim);
  const canonical = canonicalRequest(wire, parsed.path, claim);
  if (!isSigned(ctx.hasher, key, claim, canonical)) {
    const encoded = encodePath(parsed.path);
    const other = encoded === undefined ? undefined : canonicalRequest(wire, encoded, claim);
    if (other === undefined || !isSigned(ctx.hasher, key, claim, other))
      throw mismatch({
        accessKey: claim.accessKey,
        signature: claim.signature,
        stringToSign: stringToSign(ctx.hasher, claim, canonical),
        canonicalRequest: canonical,
      });
  }
  keys.remember(secret, claim, key);
  return { credential, key };
}

const stringToSign = (hasher: Hasher, claim: Claim, canonical: string): string =>
  `${claim.dialect.algorithm}\n${claim.timestamp}\n${claim.scope}\n${hasher.sha256Hex(canonical)}`;

const isSigned = (hasher: Hasher, key: Uint8Array, claim: Claim, canonical: string): boolean =>
  isSignature(hasher.hmacSha256(key, stringToSign(hasher, claim, canonical)), claim.signature);

/** The seam for temporary credentials: until there are any, a session token can only be foreign or expired. */
function refuseSessionToken(wire: Wire, query: Query, dialect: Dialect): void {
  if (
    wire.headers.has(`${dialect.headerPrefix}security-token`) ||
    query.has(`${dialect.queryPrefix}Security-Token`)
  )
    throw fail('InvalidToken');
}

/** The secret stays behind: what travels with the request may end in a log. */
function identityOf({ secretKey: _, ...identity }: Credential): Identity {
  return identity;
}

function anonymousCaller(ctx: AuthenticationContext, incoming: Incoming): Authenticated {
  const shown = dialects.filter(({ headerPrefix }) => {
    for (const name of incoming.wire.headers.names()) if (name.startsWith(headerPrefix)) return true;
    return false;
  });
  const dialect = shown.length === 1 ? shown[0] : undefined;
  const payload = anonymousPayload(ctx.hasher, incoming);
  return { identity: undefined, dialect: dialect?.name, payload };
}
