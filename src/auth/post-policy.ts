/**
 * The policy of a form (public API "POST Policy") restricts the fields that the form may send. A condition must cover every
 * field, including the bucket; otherwise a form could add fields that its signer did not allow.
 */

import { fail, Refusal, type RefusalDetails } from '../base/errors.ts';
import { fromBase64 } from '../base/text/base64.ts';
import { areEqual, equalsHex } from '../base/text/hex.ts';
import { type Json, type JsonObject, readStrictJson } from '../base/text/strict-json.ts';
import { decodeDocument } from '../base/text/utf8.ts';
import { amz, type Dialect, dialects } from '../protocol/dialect.ts';
import { parseIsoTime, parseTimestamp } from '../protocol/formats/iso-time.ts';
import { deriveSigningKey } from '../signing/signing-key.ts';
import { twoMechanisms } from './authenticate.ts';
import { acceptedServices, checkRegion, checkScopeDate, parseCredential } from './claim.ts';
import type { AuthenticationContext, AuthenticationOptions } from './context.ts';
import type { Identity, Renew, Signed } from './identity.ts';
import { findKnownKey, identityOf, type KnownKey } from './session/credentials.ts';
import { assertSigV2, decodeSignature, refuseBucketSecrets } from './sigv2.ts';
import { mismatch, proveCaller, withSecrets } from './verify-signature.ts';

type Fields = ReadonlyMap<string, string>;

interface Match {
  readonly kind: 'eq' | 'starts-with';
  /** In lower case. */
  readonly field: string;
  readonly value: string;
  /** As a refusal shows it. */
  readonly text: string;
}

/** Bytes of the file, both ends included. */
export interface LengthRange {
  readonly min: number;
  readonly max: number;
}

interface PostPolicy {
  /** In ms since the epoch. */
  readonly expiration: number;
  readonly matches: readonly Match[];
  readonly lengths: LengthRange;
}

/** In UTC; Python's `isoformat` writes it as an offset. */
const endsInUtc = /(?:Z|\+00:00)$/;

/** @param encoded base64 of its JSON @throws InvalidPolicyDocument */
export function parsePostPolicy(encoded: string): PostPolicy {
  const document = decode(encoded);
  const expiration = document.get('expiration');
  const conditions = document.get('conditions');
  if (expiration === undefined) throw invalid('Policy missing expiration.');
  const expiresAt =
    typeof expiration === 'string' && endsInUtc.test(expiration) ? parseIsoTime(expiration) : undefined;
  if (expiresAt === undefined) throw invalid(`Invalid 'expiration' value: '${String(expiration)}'`);
  if (!Array.isArray(conditions)) throw invalid('Policy missing conditions.');
  const matches: Match[] = [];
  let lengths: LengthRange = { min: 0, max: Number.MAX_SAFE_INTEGER };
  for (const condition of conditions as readonly Json[]) {
    const read = readCondition(condition);
    if ('field' in read) matches.push(read);
    else lengths = { min: Math.max(lengths.min, read.min), max: Math.min(lengths.max, read.max) };
  }
  return { expiration: expiresAt, matches, lengths };
}

function decode(encoded: string): JsonObject {
  const document = readStrictJson(decodeText(encoded), {
    refuse: (path, problem) => invalid(`Invalid JSON: ${path === '' ? 'the document' : path} ${problem}.`),
  });
  if (document instanceof Map) return document as JsonObject;
  throw invalid('Invalid JSON: the document must be an object.');
}

function decodeText(encoded: string): string {
  try {
    return decodeDocument(fromBase64(encoded));
  } catch {
    throw invalid('Invalid JSON: the document must be UTF-8 in base64.');
  }
}

function readCondition(condition: Json): Match | LengthRange {
  if (Array.isArray(condition)) return readList(condition as readonly Json[]);
  const pairs = condition instanceof Map ? [...(condition as JsonObject)] : [];
  const [field, value] = pairs[0] ?? [];
  if (field === undefined || pairs.length > 1)
    throw invalid('Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.');
  if (typeof value !== 'string') throw invalid('Invalid Simple-Condition: value must be a string.');
  const name = field.toLowerCase();
  // The public service writes such a condition with blanks, and a list without.
  const text = `["eq", ${JSON.stringify(`$${name}`)}, ${JSON.stringify(value)}]`;
  return { kind: 'eq', field: name, value, text };
}

function readList(condition: readonly Json[]): Match | LengthRange {
  const [operator, left, right] = condition;
  const kind = typeof operator === 'string' ? operator.toLowerCase() : undefined;
  if (condition.length === 3 && kind === 'content-length-range') {
    const [min, max] = [readLength(left), readLength(right)];
    if (min !== undefined && max !== undefined) return { min, max };
  }
  const isMatch = kind === 'eq' || kind === 'starts-with';
  if (
    condition.length === 3 &&
    isMatch &&
    typeof left === 'string' &&
    left.startsWith('$') &&
    typeof right === 'string'
  ) {
    const field = left.slice(1).toLowerCase();
    return { kind, field, value: right, text: JSON.stringify([kind, `$${field}`, right]) };
  }
  throw invalid(`Invalid condition: ${JSON.stringify(condition).slice(0, 200)}`);
}

/** Many signers write the length as a text. */
function readLength(value: unknown): number | undefined {
  const length = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(length) && (length as number) >= 0 ? (length as number) : undefined;
}

const invalid = (problem: string): Refusal => fail('InvalidPolicyDocument', `Invalid Policy: ${problem}`);

interface PolicyCase {
  /** Fields by lower-case name, with the final key and the bucket of the address. */
  readonly fields: Fields;
  /** Fields of the signature itself, which need no condition. */
  readonly exempt: ReadonlySet<string>;
  readonly now: number;
}

/** @throws AccessDenied for a form that is expired, violates a condition, or has fields that the policy does not mention */
export function checkPostPolicy(policy: PostPolicy, { fields, exempt, now }: PolicyCase): void {
  if (now > policy.expiration) throw denied('Policy expired.');
  for (const match of policy.matches) {
    if (!holds(match, fields.get(match.field) ?? '')) throw denied(`Policy Condition failed: ${match.text}`);
  }
  const covered = new Set(policy.matches.map(({ field }) => field));
  const extra = [...fields.keys()].filter(
    (name) => !covered.has(name) && !exempt.has(name) && !name.startsWith('x-ignore-'),
  );
  if (extra.length > 0) throw denied(`Extra input fields: ${extra.sort().join(', ')}`);
}

const denied = (problem: string): Refusal => fail('AccessDenied', `Invalid according to Policy: ${problem}`);

/** Fields that a condition must name exactly (public API): `starts-with` never holds for them. */
const isExact = (field: string): boolean =>
  field === 'bucket' || /^x-(amz|store)-(algorithm|credential|date|security-token)$/.test(field);

function holds({ kind, field, value }: Match, input: string): boolean {
  if (kind === 'eq') return input === value;
  if (isExact(field)) return false;
  // A list of types must be allowed in every member.
  const members = field === 'content-type' ? input.split(',').map((type) => type.trim()) : [input];
  return members.every((member) => member.startsWith(value));
}

// Verifies the signature of a form (public API "Browser-based uploads using POST"), which covers the text of its policy.

interface SignedForm {
  readonly identity: Identity;
  readonly renew: Renew;
  readonly signed: Signed;
  readonly dialect: Dialect;
  /** The policy as it was sent. */
  readonly policy: string;
  /** Fields of the signature, which the policy need not cover. */
  readonly exempt: ReadonlySet<string>;
}

/** A form has no header and no query that could be malformed (public API). */
const code = 'InvalidArgument';
const version2 = { accessKey: 'awsaccesskeyid', signature: 'signature' } as const;
const marks = (dialect: Dialect): string[] =>
  ['algorithm', 'credential', 'date', 'signature'].map((name) => dialect.headerPrefix + name);

/**
 * @param fields by lower-case name
 * @returns undefined for a form without a signature
 */
export async function authenticateForm(
  ctx: AuthenticationContext,
  fields: Fields,
  options: Pick<AuthenticationOptions, 'secrets'> = {},
): Promise<SignedForm | undefined> {
  const present = dialects.filter((dialect) => marks(dialect).some((name) => fields.has(name)));
  const isVersion2 = Object.values(version2).some((name) => fields.has(name));
  if (present.length + Number(isVersion2) > 1) throw twoMechanisms();
  const [dialect] = present;
  if (dialect !== undefined) return verifyVersion4(ctx, fields, { dialect, ...options });
  if (isVersion2 || fields.has('policy')) return verifyVersion2(ctx, fields, options);
  return undefined;
}

async function verifyVersion4(
  ctx: AuthenticationContext,
  fields: Fields,
  { dialect, secrets: finder }: { readonly dialect: Dialect } & Pick<AuthenticationOptions, 'secrets'>,
): Promise<SignedForm> {
  const name = (bare: string): string => dialect.headerPrefix + bare;
  const policy = required(fields, 'policy');
  const signature = required(fields, name('signature'));
  const algorithm = required(fields, name('algorithm'));
  if (algorithm !== dialect.algorithm)
    throw malformed(`${dialect.queryPrefix}Algorithm`, algorithm, {
      message: `${dialect.queryPrefix}Algorithm only supports "${dialect.algorithm}"`,
    });
  const credential = required(fields, name('credential'));
  const ofCredential = <T>(read: () => T): T => withFieldName(name('credential'), credential, read);
  const services = acceptedServices({ isActionQuery: false });
  const claim = {
    dialect,
    ...ofCredential(() => parseCredential(dialect, credential, { code, services })),
  };
  const timestamp = required(fields, name('date'));
  const at = parseTimestamp(timestamp);
  if (at === undefined)
    throw malformed(`${dialect.queryPrefix}Date`, timestamp, {
      message: `${dialect.queryPrefix}Date must be in the ISO8601 Long Format "yyyyMMdd'T'HHmmss'Z'"`,
    });
  ofCredential(() => checkScopeDate(claim.date, timestamp, code));
  const { accessKey } = claim;
  const known = await findCredential(ctx, fields, { accessKey, dialect });
  ofCredential(() => checkRegion(ctx.settings, claim, code));
  const secret = await withSecrets(known, { secrets: finder }, (secrets) => {
    const found = secrets.find((each) =>
      equalsHex(ctx.hasher.hmacSha256(deriveSigningKey(ctx.hasher, each.secret, claim), policy), signature),
    );
    if (found === undefined) throw mismatch({ accessKey, signature, stringToSign: policy });
    return found;
  });
  return {
    ...proveCaller(ctx, known, { secret, use: claim }),
    signed: { type: 'POST', version: 'AWS4-HMAC-SHA256', at },
    dialect,
    policy,
    exempt: new Set(['policy', name('signature')]),
  };
}

const malformed = (name: string, value: string, { message, elements }: RefusalDetails): Refusal =>
  fail(code, {
    ...(message === undefined ? {} : { message }),
    elements: { ...elements, ArgumentName: name, ArgumentValue: value.slice(0, 256) },
  });

/** Runs a check of a field, whose refusal names the field (public API). */
function withFieldName<T>(name: string, value: string, check: () => T): T {
  try {
    return check();
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === code) throw malformed(name, value, cause.details);
    throw cause;
  }
}

const encoder = new TextEncoder();

async function verifyVersion2(
  ctx: AuthenticationContext,
  fields: Fields,
  options: Pick<AuthenticationOptions, 'secrets'>,
): Promise<SignedForm> {
  assertSigV2(ctx.settings);
  const accessKey = required(fields, version2.accessKey);
  const policy = required(fields, 'policy');
  const signature = required(fields, version2.signature);
  const known = await findCredential(ctx, fields, { accessKey, dialect: amz });
  await refuseBucketSecrets(known, options);
  const { credential, renew } = known;
  const expected = ctx.hasher.hmacSha1(encoder.encode(credential.secretKey), policy);
  if (!areEqual(expected, decodeSignature(signature)))
    throw mismatch({ accessKey, signature, stringToSign: policy });
  ctx.credentials.used?.(credential, { service: 's3', region: ctx.settings.region });
  return {
    identity: identityOf(credential),
    renew,
    signed: { type: 'POST', version: 'AWS' },
    dialect: amz,
    policy,
    exempt: new Set(['policy', version2.accessKey, version2.signature]),
  };
}

function findCredential(
  ctx: AuthenticationContext,
  fields: Fields,
  { accessKey, dialect }: { readonly accessKey: string; readonly dialect: Dialect },
): Promise<KnownKey> {
  // Forms carry the token of temporary credentials in a field, which their policy must allow like any other.
  const token = fields.get(`${dialect.headerPrefix}security-token`);
  return findKnownKey(ctx, accessKey, token);
}

/** @throws InvalidArgument, as the public API words it */
function required(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value !== undefined) return value;
  throw fail('InvalidArgument', {
    message: `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`,
    elements: { ArgumentName: name, ArgumentValue: '' },
  });
}
