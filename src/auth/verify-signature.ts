/** Recomputes a version-4 signature and compares (spec "Authentication" 2.2 to 2.4). */
import { fail } from '../errors/refusal.ts';
import type { Credential, Credentials } from '../ports/credentials.ts';
import type { Hasher } from '../ports/hasher.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import { canonicalRequest, encodePath } from './canonical-request.ts';
import { type Claim, checkRegion, type OpenClaim, refuseUnsignedHeaders } from './claim.ts';
import type { AuthenticationContext, AuthenticationOptions } from './context.ts';
import { mismatch } from './mismatch.ts';
import { deriveSigningKey, isSignature, SigningKeys, signingKeyName } from './signing-key.ts';

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

/** Whose signature a claim says it is; refuses what no secret is needed for. */
export async function findSigner(
  ctx: AuthenticationContext,
  wire: Wire,
  { query, claim }: { readonly query: Query; readonly claim: OpenClaim },
): Promise<Credential> {
  const code =
    claim.leaveOut === undefined ? 'AuthorizationHeaderMalformed' : 'AuthorizationQueryParametersError';
  refuseUnsignedHeaders(wire, claim);
  // A blank access key takes the way of an unknown one, so nothing tells them apart.
  const credential = await ctx.credentials.find(claim.accessKey);
  if (credential === undefined)
    throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: claim.accessKey } });
  refuseSessionToken(wire, query, claim.dialect);
  checkRegion(ctx.settings, claim, code);
  return credential;
}

export interface Signed {
  readonly wire: Wire;
  /** The raw path of the request line. */
  readonly path: string;
  readonly claim: Claim;
  readonly credential: Credential;
}

/** Verifies a version-4 signature against the secret that it must have been made with; gives the signing key. */
export async function verifySignature(
  ctx: AuthenticationContext,
  { wire, path, claim, credential }: Signed,
  secretFor: AuthenticationOptions['secretFor'],
): Promise<Uint8Array> {
  const secret = secretFor === undefined ? credential.secretKey : await secretFor(credential);
  const keys = signingKeysOf(ctx.credentials);
  const name = signingKeyName(secret, claim);
  const known = keys.get(name);
  const key = known ?? deriveSigningKey(ctx.hasher, secret, claim);
  const canonical = canonicalRequest(wire, path, claim);
  if (!isSigned(ctx.hasher, key, claim, canonical)) {
    const encoded = encodePath(path);
    const other = encoded === undefined ? undefined : canonicalRequest(wire, encoded, claim);
    if (other === undefined || !isSigned(ctx.hasher, key, claim, other))
      throw mismatch({
        accessKey: claim.accessKey,
        signature: claim.signature,
        stringToSign: stringToSign(ctx.hasher, claim, canonical),
        canonicalRequest: canonical,
      });
  }
  if (known === undefined) keys.remember(name, key);
  return key;
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
