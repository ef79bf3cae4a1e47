/** What a signed request claims about itself, and the checks that need no secret. */
import { fail } from '../base/errors.ts';
import type { SigningClock } from '../ports/clock.ts';
import { amz, type Dialect, dialects, store } from '../protocol/dialect.ts';
import { isoSeconds, parseTimestamp, toTimestamp } from '../protocol/formats/iso-time.ts';
import type { Wire } from '../protocol/wire.ts';

export interface Claim {
  readonly dialect: Dialect;
  readonly accessKey: string;
  /** `date/region/service/terminator`, as it was sent. */
  readonly scope: string;
  readonly region: string;
  readonly service: Service;
  /** `YYYYMMDDTHHMMSSZ`, the second line of the string to sign. */
  readonly timestamp: string;
  /** Lower-case names joined with `;`, as they were sent. */
  readonly signedHeaders: string;
  readonly signature: string;
  /** The signing query parameter that stays out of the canonical query; undefined for header signatures. */
  readonly leaveOut: string | undefined;
  /** The last line of the canonical request: the declared hash or type of the body. */
  readonly payloadHash: string;
}

/** A claim without the body's hash, which is computed when the body is read: IAM and STS clients do not send it. */
export type OpenClaim = Omit<Claim, 'payloadHash'> & { readonly payloadHash: string | undefined };

export type Service = 's3' | 'iam' | 'sts';
/** The services that an action query may be signed for; all other requests are signed for S3. */
const actionServices: readonly Service[] = ['s3', 'iam', 'sts'];
const storageServices: readonly Service[] = ['s3'];
export const acceptedServices = ({
  isActionQuery,
}: {
  readonly isActionQuery: boolean;
}): readonly Service[] => (isActionQuery ? actionServices : storageServices);

export type MalformedCode =
  | 'AuthorizationHeaderMalformed'
  | 'AuthorizationQueryParametersError'
  | 'InvalidArgument';

/** Splits `<access key>/<date>/<region>/<service>/<terminator>`; the access key may itself hold slashes. */
export function parseCredential(
  dialect: Dialect,
  credential: string,
  { code, services }: { readonly code: MalformedCode; readonly services: readonly Service[] },
) {
  const end = credential.lastIndexOf('/');
  const afterRegion = credential.lastIndexOf('/', end - 1);
  const afterDate = credential.lastIndexOf('/', afterRegion - 1);
  const afterKey = credential.lastIndexOf('/', afterDate - 1);
  if (afterKey < 0 || afterDate <= afterKey || afterRegion <= afterDate)
    throw fail(
      code,
      `The credential is malformed; expected "<access key>/YYYYMMDD/<region>/${services[0]}/${dialect.terminator}".`,
    );
  const date = credential.slice(afterKey + 1, afterDate);
  const region = credential.slice(afterDate + 1, afterRegion);
  // Clients that know no region, such as mc admin, sign for the empty one.
  if (region !== '' && !isPrintable(region))
    throw fail(code, 'The credential is malformed; its region is not text.');
  const named = credential.slice(afterRegion + 1, end);
  const service = services.find((each) => each === named);
  if (service === undefined)
    throw fail(code, `Incorrect service "${named}". This endpoint belongs to "${services.join('", "')}".`);
  const terminator = credential.slice(end + 1);
  if (terminator !== dialect.terminator)
    throw fail(code, `Incorrect terminator "${terminator}". This endpoint uses "${dialect.terminator}".`);
  const scope = credential.slice(afterKey + 1);
  return { accessKey: credential.slice(0, afterKey), scope, date, region, service };
}

/** The date of the scope must be the date of the request, because a signing key is valid for one day. */
export function checkScopeDate(date: string, timestamp: string, code: MalformedCode): void {
  if (timestamp.startsWith(date) && date.length === 8) return;
  throw fail(
    code,
    `Invalid credential date "${date}". This date is not the same as that of the request: "${timestamp.slice(0, 8)}".`,
  );
}

export function checkRegion(
  settings: { readonly region: string; readonly regionStrict: boolean },
  { region, service }: Pick<Claim, 'region' | 'service'>,
  code: MalformedCode,
): void {
  // IAM and STS have one endpoint for all regions, and clients sign with the region of that endpoint.
  if (!settings.regionStrict || region === settings.region || service !== 's3') return;
  // GetBucketLocation shows the region `default` as empty, which clients of the public API read as us-east-1.
  if (settings.region === 'default' && region === 'us-east-1') return;
  throw fail(code, {
    message: `The region '${region}' is wrong; expecting '${settings.region}'.`,
    elements: { Region: settings.region },
  });
}

/** Refuses header names with capitals, blanks or control characters, because they would make the canonical text ambiguous. */
export function checkSignedHeaders(names: string, code: MalformedCode): void {
  if (isPrintable(names) && names === names.toLowerCase()) return;
  throw fail(code, 'SignedHeaders must be lower-case header names joined with ";".');
}

function isPrintable(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x20 || code > 0x7e) return false;
  }
  return text !== '';
}

/**
 * Dialect headers that may stay unsigned, by bare name. The signature covers `date` and `content-sha256` in other ways
 * (the string to sign, the last line of the canonical request). The others have no effect here, and browsers and proxies
 * add them after signing. Any other header could change the effect of a request: an ACL, a copy source, a lock
 * (GHSA-g8w9, GHSA-xm99).
 */
const free = new Set(['date', 'content-sha256', 'user-agent', 'cf-id']);
const x = 'x'.charCodeAt(0);

/** Refuses headers of either dialect that the signature does not cover, and a `host` that it does not. */
export function refuseUnsignedHeaders(wire: Wire, claim: Pick<Claim, 'dialect' | 'signedHeaders'>): void {
  const signed = `;${claim.signedHeaders};`;
  let missing = signed.includes(';host;') ? '' : 'host';
  for (const name of wire.headers.names()) {
    if (name.charCodeAt(0) !== x) continue;
    const otherDialect = claim.dialect === amz ? store : amz;
    const own = name.startsWith(claim.dialect.headerPrefix);
    if (!own && !name.startsWith(otherDialect.headerPrefix)) continue;
    if (signed.includes(`;${name};`)) continue;
    if (own && free.has(name.slice(claim.dialect.headerPrefix.length))) continue;
    missing = missing === '' ? name : `${missing}, ${name}`;
  }
  if (missing === '') return;
  throw fail('AccessDenied', {
    message: 'There were headers present in the request which were not signed',
    elements: { HeadersNotSigned: missing },
  });
}

// Reads a signature from the `Authorization` header.

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
