/**
 * The first step of every request: finds out how it is signed, verifies the signature, and records the caller. Nothing here rewrites
 * the host or the path, because signatures cover both as they were sent.
 */

import { gather } from '../base/concurrency.ts';
import { fail } from '../base/errors.ts';
import { type SharedBudget, sharedBudget, soleHolderPart } from '../base/shared-budget.ts';
import { tap } from '../base/tap.ts';
import { toHex } from '../base/text/hex.ts';
import { toNetwork } from '../base/text/ip-address.ts';
import { type Dialect, dialects } from '../protocol/dialect.ts';
import { parseTimestamp } from '../protocol/formats/iso-time.ts';
import { formBytesMax, type Incoming, type Query, type Wire, withBody } from '../protocol/wire.ts';
import {
  acceptedServices,
  type Claim,
  checkRegion,
  headerClaim,
  type OpenClaim,
  refuseUnsignedHeaders,
} from './claim.ts';
import type { AuthenticationContext, AuthenticationOptions, ParsedTarget } from './context.ts';
import type { Authenticated } from './identity.ts';
import { anonymousPayload, signedPayload } from './payload.ts';
import { presignedClaim } from './presigned.ts';
import { findKnownKey, identityOf } from './session/credentials.ts';
import { verifySigV2 } from './sigv2.ts';
import { proveCaller, sessionToken, verifySignature, withSecrets } from './verify-signature.ts';

export type { AuthenticationContext, AuthenticationOptions, ParsedTarget } from './context.ts';

const isSigV2 = (query: Query): boolean => query.has('AWSAccessKeyId') || query.has('Signature');

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
    const { credential, renew, dialect, hoisted } = await verifySigV2(ctx, wire, parsed, options);
    const payload = signedPayload({ hasher: ctx.hasher, incoming, dialect, declared: undefined });
    const signed = { type: 'REST-QUERY-STRING', version: 'AWS' } as const;
    return { identity: identityOf(credential), renew, signed, dialect: dialect.name, payload, hoisted };
  }
  const services = acceptedServices({ isActionQuery: options.isActionQuery === true });
  let open: OpenClaim;
  if (authorization !== undefined) open = headerClaim(wire, authorization, { clock: ctx.clock, services });
  else if (presigned !== undefined)
    open = presignedClaim(wire, parsed.query, { dialect: presigned, clock: ctx.clock, services });
  else return anonymousCaller(ctx, incoming);
  refuseUnsignedHeaders(wire, open);
  // An empty access key is handled like an unknown one, so that the answers do not differ.
  const signer = await findKnownKey(ctx, open.accessKey, sessionToken(wire, parsed.query, open));
  checkRegion(ctx.settings, open, malformedCode(authorization));
  const { claim, incoming: rest } = hasBodyHash(open)
    ? { claim: open, incoming }
    : await withBodyHash(ctx, incoming, { claim: open, account: signer.credential.owner });
  const { key, secret } = await withSecrets(signer, options, (secrets) =>
    verifySignature(ctx, { wire, path: parsed.path, claim, secrets }),
  );
  const { identity, renew } = proveCaller(ctx, signer, { secret, use: claim });
  const payload = signedPayload({
    hasher: ctx.hasher,
    incoming: rest,
    dialect: claim.dialect,
    declared: claim.payloadHash,
    // The holder of a presigned URL has no key, so cannot sign chunks.
    chain: authorization === undefined ? undefined : { ...claim, key },
  });
  const type = authorization === undefined ? 'REST-QUERY-STRING' : 'REST-HEADER';
  const signed = { type, version: 'AWS4-HMAC-SHA256', at: parseTimestamp(claim.timestamp) } as const;
  return { identity, renew, signed, dialect: claim.dialect.name, payload };
}

/** A signature that is in no header is in the query. */
const malformedCode = (authorization: string | undefined) =>
  authorization === undefined ? 'AuthorizationQueryParametersError' : 'AuthorizationHeaderMalformed';

function soleAuthorization(wire: Wire): string | undefined {
  const values = wire.headers.all('authorization');
  if (values.length > 1) throw twoMechanisms();
  return values[0];
}

export const twoMechanisms = () =>
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

function anonymousCaller(ctx: AuthenticationContext, incoming: Incoming): Authenticated {
  const present = dialects.filter(({ headerPrefix }) => {
    for (const name of incoming.wire.headers.names()) if (name.startsWith(headerPrefix)) return true;
    return false;
  });
  const dialect = present.length === 1 ? present[0] : undefined;
  const payload = anonymousPayload(ctx.hasher, incoming);
  return { identity: undefined, dialect: dialect?.name, payload };
}

// The hash of a body that its sender did not declare. IAM and STS clients sign it and leave it out of the headers, so it is computed
// before the signature can be verified. The body is read into memory for a caller that is not authenticated yet, so the limit is
// small.

const hasBodyHash = (claim: OpenClaim): claim is Claim => claim.payloadHash !== undefined;

interface Claimed {
  readonly claim: Claim;
  /** The request with its body still to be read. */
  readonly incoming: Incoming;
}

/** Reads the body to complete a claim whose request did not declare the hash. */
async function withBodyHash(
  { hasher, caches }: Pick<AuthenticationContext, 'hasher' | 'caches'>,
  incoming: Incoming,
  { claim, account }: { readonly claim: OpenClaim; readonly account: string },
): Promise<Claimed> {
  const { body, wire } = incoming;
  const memory = caches.of(UnverifiedBodies);
  const sender = { account, network: toNetwork(wire.remote) };
  const whole = body === undefined ? new Uint8Array(0) : await readWhole(body, { memory, sender });
  const payloadHash = toHex(hasher.once('sha256', whole));
  const read = body === undefined ? undefined : once(whole);
  return { claim: { ...claim, payloadHash }, incoming: withBody(incoming, read) };
}

interface Sender {
  /** Of the access key that the request names. */
  readonly account: string;
  readonly network: string;
}

/**
 * Limits the memory of bodies whose signature is not verified yet. It is separate from all other memory, because such a sender needs to
 * know only an access key. The accounts of these keys share the whole; the networks of the senders share the part of an account. So a
 * network that uses the access key of another account cannot block that account elsewhere, and many such networks cannot block other
 * accounts.
 */
class UnverifiedBodies {
  readonly #all = sharedBudget(unverifiedBytesMax);
  readonly #byAccount = new Map<string, SharedBudget>();

  /** Reserves more bytes until `give` returns them. @returns false where they do not fit */
  take(bytes: number, { account, network }: Sender): boolean {
    const ofAccount = this.#byAccount.get(account) ?? sharedBudget(unverifiedBytesMax * soleHolderPart);
    if (!this.#all.hasSpace(bytes, account) || !ofAccount.hasSpace(bytes, network)) return false;
    this.#all.add(bytes, account);
    ofAccount.add(bytes, network);
    this.#byAccount.set(account, ofAccount);
    return true;
  }

  give(bytes: number, { account, network }: Sender): void {
    const ofAccount = this.#byAccount.get(account);
    this.#all.give(bytes, account);
    ofAccount?.give(bytes, network);
    if (ofAccount?.usedBytes === 0) this.#byAccount.delete(account);
  }
}

const unverifiedBytesMax = 64 * formBytesMax;

/**
 * Releases the reserved memory when it returns, because the later reader of the body reserves the same amount. Nothing is stored for each
 * piece: a body may arrive in pieces of one byte.
 */
async function readWhole(
  body: AsyncIterable<Uint8Array>,
  { memory, sender }: { readonly memory: UnverifiedBodies; readonly sender: Sender },
): Promise<Uint8Array> {
  let reservedBytes = 0;
  const charged = tap(body, {
    see({ length }) {
      if (!memory.take(length, sender)) throw fail('SlowDown', 'Too many large requests are being read.');
      reservedBytes += length;
    },
  });
  try {
    return await gather(charged, { max: formBytesMax, tooLong });
  } finally {
    memory.give(reservedBytes, sender);
  }
}

const tooLong = () => fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: formBytesMax } });

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
