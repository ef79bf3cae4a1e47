/** Verifies the signature of a form (public API "Browser-based uploads using POST"), which covers the text of its policy. */
import { areEqual, equalsHex } from '../../base/text/hex.ts';
import { fail, Refusal, type RefusalDetails } from '../../errors/refusal.ts';
import { amz, type Dialect, dialects } from '../../protocol/dialect.ts';
import { deriveSigningKey } from '../../signing/signing-key.ts';
import { parseTimestamp } from '../../signing/timestamp.ts';
import { twoMechanisms } from '../authenticate.ts';
import type { AuthenticationContext, AuthenticationOptions } from '../context.ts';
import type { Identity, Renew, Signed } from '../identity.ts';
import { findKnownKey, identityOf, type KnownKey } from '../session/credentials.ts';
import { acceptedServices, checkRegion, checkScopeDate, parseCredential } from './claim.ts';
import { mismatch } from './mismatch.ts';
import { assertSigV2, fromBase64, refuseBucketSecrets } from './sigv2-presigned.ts';
import { proveCaller, secretsOf } from './verify-signature.ts';

type Fields = ReadonlyMap<string, string>;

export interface SignedForm {
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
  options: Pick<AuthenticationOptions, 'findSecrets'> = {},
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
  { dialect, findSecrets }: { readonly dialect: Dialect } & Pick<AuthenticationOptions, 'findSecrets'>,
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
  const ofCredential = <T>(read: () => T): T => naming(name('credential'), credential, read);
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
  const secret = (await secretsOf(known, { findSecrets })).find((each) =>
    equalsHex(ctx.hasher.hmacSha256(deriveSigningKey(ctx.hasher, each.secret, claim), policy), signature),
  );
  if (secret === undefined) throw mismatch({ accessKey, signature, stringToSign: policy });
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
function naming<T>(name: string, value: string, check: () => T): T {
  try {
    return check();
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === code) throw malformed(name, value, cause.details);
    throw cause;
  }
}

const utf8 = new TextEncoder();

async function verifyVersion2(
  ctx: AuthenticationContext,
  fields: Fields,
  options: Pick<AuthenticationOptions, 'findSecrets'>,
): Promise<SignedForm> {
  assertSigV2(ctx.settings);
  const accessKey = required(fields, version2.accessKey);
  const policy = required(fields, 'policy');
  const signature = required(fields, version2.signature);
  const known = await findCredential(ctx, fields, { accessKey, dialect: amz });
  await refuseBucketSecrets(known, options);
  const { credential, renew } = known;
  const expected = ctx.hasher.hmacSha1(utf8.encode(credential.secretKey), policy);
  if (!areEqual(expected, fromBase64(signature)))
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
export function required(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value !== undefined) return value;
  throw fail('InvalidArgument', {
    message: `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`,
    elements: { ArgumentName: name, ArgumentValue: '' },
  });
}
