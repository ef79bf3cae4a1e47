/** Reads a signature from the `Authorization` header. */
import { fail } from '../base/errors.ts';
import type { SigningClock } from '../ports/clock.ts';
import { amz, type Dialect, dialects } from '../protocol/dialect.ts';
import type { Wire } from '../protocol/wire.ts';
import { isoSeconds, parseTimestamp, toTimestamp } from '../signing/timestamp.ts';
import {
  checkScopeDate,
  checkSignedHeaders,
  type OpenClaim,
  parseCredential,
  type Service,
} from './claim.ts';

const code = 'AuthorizationHeaderMalformed';
/** The largest difference between a client's clock and this server's. */
export const skewMsMax = 15 * 60 * 1000;

export function headerClaim(
  wire: Wire,
  authorization: string,
  { clock, services }: { readonly clock: SigningClock; readonly services: readonly Service[] },
): OpenClaim {
  const dialect = detectDialect(authorization);
  const { credential, signedHeaders, signature } = parseAuthorization(dialect, authorization);
  const { accessKey, scope, date, region, service } = parseCredential(dialect, credential, {
    code,
    services,
  });
  checkSignedHeaders(signedHeaders, code);
  const timestamp = requestTimestamp(wire, dialect);
  checkScopeDate(date, timestamp, code);
  checkSkew(timestamp, clock.now());
  const payloadHash = wire.headers.get(`${dialect.headerPrefix}content-sha256`);
  if (payloadHash === undefined && service === 's3')
    throw fail(
      'InvalidRequest',
      `Missing required header for this request: ${dialect.headerPrefix}content-sha256`,
    );
  return {
    dialect,
    accessKey,
    scope,
    region,
    service,
    timestamp,
    signedHeaders,
    signature,
    leaveOut: undefined,
    payloadHash,
  };
}

function detectDialect(authorization: string): Dialect {
  for (const dialect of dialects)
    if (authorization.startsWith(dialect.algorithm) && authorization[dialect.algorithm.length] === ' ')
      return dialect;
  // Version 2 in a header, SigV4A, or another scheme of the vendor.
  if (dialects.some(({ secretPrefix }) => authorization.startsWith(secretPrefix.slice(0, -1))))
    throw fail(
      'InvalidRequest',
      `The authorization mechanism you have provided is not supported. Please use ${amz.algorithm}.`,
    );
  throw fail('InvalidArgument', {
    message: 'Unsupported Authorization Type',
    elements: { ArgumentName: 'Authorization' },
  });
}

/** `<algorithm> Credential=…, SignedHeaders=…, Signature=…`, in any order, each exactly once. */
function parseAuthorization(dialect: Dialect, authorization: string) {
  let credential: string | undefined;
  let signedHeaders: string | undefined;
  let signature: string | undefined;
  for (let from = dialect.algorithm.length + 1; from <= authorization.length; ) {
    let to = authorization.indexOf(',', from);
    if (to < 0) to = authorization.length;
    const equals = authorization.indexOf('=', from);
    if (equals < 0 || equals > to) throw malformed();
    const name = authorization.slice(from, equals).trim();
    const value = authorization.slice(equals + 1, to).trim();
    if (name === 'Credential' && credential === undefined) credential = value;
    else if (name === 'SignedHeaders' && signedHeaders === undefined) signedHeaders = value;
    else if (name === 'Signature' && signature === undefined) signature = value;
    else throw malformed();
    from = to + 1;
  }
  if (credential === undefined || signedHeaders === undefined || !signature) throw malformed();
  return { credential, signedHeaders, signature };
}

const malformed = () =>
  fail(
    code,
    'The authorization header is malformed; it must hold Credential, SignedHeaders and Signature, each once.',
  );

function requestTimestamp(wire: Wire, dialect: Dialect): string {
  const name = `${dialect.headerPrefix}date`;
  const timestamp = toTimestamp(wire.headers.get(name) ?? wire.headers.get('date') ?? '');
  if (timestamp !== undefined) return timestamp;
  throw fail('AccessDenied', `A signed request requires a valid Date or ${name} header`);
}

function checkSkew(timestamp: string, now: number): void {
  const at = parseTimestamp(timestamp);
  if (at !== undefined && Math.abs(at - now) <= skewMsMax) return;
  throw fail('RequestTimeTooSkewed', {
    elements: {
      RequestTime: timestamp,
      ServerTime: isoSeconds(now),
      MaxAllowedSkewMilliseconds: skewMsMax,
    },
  });
}
