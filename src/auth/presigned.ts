/** Reads a signature from the query of a presigned URL. */
import { fail, type Refusal } from '../base/errors.ts';
import type { SigningClock } from '../ports/clock.ts';
import { type Dialect, unsignedPayload } from '../protocol/dialect.ts';
import { isoSeconds, parseTimestamp } from '../protocol/formats/iso-time.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import {
  checkScopeDate,
  checkSignedHeaders,
  type OpenClaim,
  parseCredential,
  type Service,
  skewMsMax,
} from './claim.ts';

const code = 'AuthorizationQueryParametersError';
/** A presigned URL lives for a week at most. */
const expiresSecondsMax = 604_800;
/** The lifetime of a presigned URL for a service other than S3 whose query has no Expires: that of a signature in a header. */
const expiresSecondsDefault = skewMsMax / 1000;
const named = ['Algorithm', 'Credential', 'Date', 'Expires', 'SignedHeaders', 'Signature'] as const;
const required = named.filter((name) => name !== 'Expires');
const contentSha256 = 'content-sha256';

export interface PresignedRules {
  readonly dialect: Dialect;
  readonly clock: SigningClock;
  readonly services: readonly Service[];
}

export function presignedClaim(
  wire: Wire,
  query: Query,
  { dialect, clock, services }: PresignedRules,
): OpenClaim {
  const input = signingParameters(query, dialect);
  const [algorithm, credential, timestamp, signedHeaders, signature] = required.map((name) =>
    input.get(name),
  ) as [string, string, string, string, string];
  if (algorithm !== dialect.algorithm)
    throw fail(code, `${dialect.queryPrefix}Algorithm only supports "${dialect.algorithm}"`);
  const { accessKey, scope, date, region, service } = parseCredential(dialect, credential, {
    code,
    services,
  });
  const expires = input.get('Expires') ?? (service === 's3' ? undefined : String(expiresSecondsDefault));
  if (expires === undefined) throw missingParameter(dialect);
  checkSignedHeaders(signedHeaders, code);
  checkExpiry({ dialect, timestamp, expires, clock });
  checkScopeDate(date, timestamp, code);
  return {
    dialect,
    accessKey,
    scope,
    region,
    service,
    timestamp,
    signedHeaders,
    signature,
    leaveOut: `${dialect.queryPrefix}Signature`,
    payloadHash: declaredHash(wire, input.get(contentSha256), { dialect, service }),
  };
}

/** The signing parameters by bare name. Each must occur exactly once, because two readers could choose different values. */
function signingParameters(query: Query, dialect: Dialect): Map<string, string> {
  const input = new Map<string, string>();
  const hashName = dialect.headerPrefix + contentSha256;
  for (const [name, value] of query.pairs) {
    const bare = name.startsWith(dialect.queryPrefix) ? name.slice(dialect.queryPrefix.length) : '';
    // Signers move this header to the query, some with its capitals and some without.
    const known = name.toLowerCase() === hashName ? contentSha256 : bare;
    if (known !== contentSha256 && !(named as readonly string[]).includes(known)) continue;
    if (input.has(known)) throw fail(code, `The query parameter ${name} was given more than once`);
    input.set(known, value);
  }
  if (required.every((name) => input.has(name))) return input;
  throw missingParameter(dialect);
}

function missingParameter(dialect: Dialect): Refusal {
  const names = named.map((name) => dialect.queryPrefix + name).join(', ');
  return fail(code, `Query-string authentication version 4 requires the ${names} parameters`);
}

function checkExpiry(claim: {
  readonly dialect: Dialect;
  readonly timestamp: string;
  readonly expires: string;
  readonly clock: SigningClock;
}): void {
  const { dialect, timestamp, expires, clock } = claim;
  const signedAt = parseTimestamp(timestamp);
  if (signedAt === undefined)
    throw fail(code, `${dialect.queryPrefix}Date must be in the ISO8601 Long Format "yyyyMMdd'T'HHmmss'Z'"`);
  const now = clock.now(signedAt);
  const name = `${dialect.queryPrefix}Expires`;
  if (!/^-?\d{1,20}$/.test(expires)) throw fail(code, `${name} should be a number`);
  const seconds = Number(expires);
  if (seconds < 1) throw fail(code, `${name} must be at least 1 second`);
  if (seconds > expiresSecondsMax)
    throw fail(
      code,
      `${name} must be less than a week (in seconds); that is, the given ${name} must be less than ${expiresSecondsMax} seconds`,
    );
  if (signedAt - now > skewMsMax)
    throw fail('AccessDenied', {
      message: 'Request is not yet valid',
      elements: { [`${dialect.queryPrefix}Date`]: timestamp, ServerTime: isoSeconds(now) },
    });
  const until = signedAt + seconds * 1000;
  if (now > until)
    throw fail('AccessDenied', {
      message: 'Request has expired',
      elements: { [name]: expires, Expires: isoSeconds(until), ServerTime: isoSeconds(now) },
    });
}

/**
 * The declared hash of the body, which is the last line of the signed text: the header, or the query parameter in its place. Without
 * either, the body of an S3 request is not covered, and that of another service is covered by its hash. A header that is added after
 * signing changes the signed text, so the signature does not match.
 */
function declaredHash(
  wire: Wire,
  moved: string | undefined,
  { dialect, service }: Pick<OpenClaim, 'dialect' | 'service'>,
): string | undefined {
  const sent = wire.headers.get(dialect.headerPrefix + contentSha256);
  return sent ?? moved ?? (service === 's3' ? unsignedPayload : undefined);
}
