/**
 * Verifies version-2 presigned queries, which boto3 and s3cmd still create by default. `sigv2-reading.ts` reads the text that
 * they cover.
 */
import { areEqual } from '../../base/text/hex.ts';
import { fail } from '../../errors/refusal.ts';
import { amz, type Dialect } from '../../protocol/dialect.ts';
import type { Query, Wire } from '../../protocol/request/wire.ts';
import { isoSeconds } from '../../signing/timestamp.ts';
import type { AuthenticationContext, AuthenticationOptions, ParsedTarget } from '../context.ts';
import { findKnownKey, type KnownKey } from '../session/credentials.ts';
import { encodePath } from './canonical-request.ts';
import { mismatch } from './mismatch.ts';
import { readSigV2, type SigV2Reading } from './sigv2-reading.ts';
import { secretsOf } from './verify-signature.ts';

export const isSigV2 = (query: Query): boolean => query.has('AWSAccessKeyId') || query.has('Signature');

export async function verifySigV2(
  ctx: AuthenticationContext,
  wire: Wire,
  parsed: ParsedTarget,
  options: AuthenticationOptions,
): Promise<KnownKey & Pick<SigV2Reading, 'hoisted'> & { readonly dialect: Dialect }> {
  assertSigV2(ctx.settings);
  const accessKey = only(parsed.query, 'AWSAccessKeyId');
  const signature = only(parsed.query, 'Signature');
  const expires = only(parsed.query, 'Expires');
  checkExpires(expires, ctx.clock.now());
  if (options.isActionQuery === true)
    throw fail('AccessDenied', 'A version 2 signature does not cover the action that a form asks for');
  const reading = readSigV2(wire, parsed.query);
  const known = await findKnownKey(ctx, accessKey, sessionToken(wire, parsed.query));
  const { credential } = known;
  await refuseBucketSecrets(known, options);
  const provided = fromBase64(signature);
  const verifies = (path: string): boolean => {
    const text = reading.stringToSign(expires, path);
    return areEqual(ctx.hasher.hmacSha1(utf8.encode(credential.secretKey), text), provided);
  };
  const paths = signedPaths(parsed.path, options);
  if (!paths.some(verifies))
    throw mismatch({
      accessKey,
      signature,
      stringToSign: new TextDecoder().decode(reading.stringToSign(expires, paths[0] ?? parsed.path)),
    });
  ctx.credentials.used?.(credential, { service: 's3', region: ctx.settings.region });
  return { ...known, dialect: amz, hoisted: reading.hoisted };
}

/**
 * The paths that a client may have signed: some clients include the prefix under which the endpoint is mounted, others leave it
 * out. A shortened path that itself begins with the prefix is not accepted, because it would be valid for two addresses. With a
 * virtual host the prefix is always left out.
 */
function signedPaths(path: string, { virtualBucket, mountedPath }: AuthenticationOptions): readonly string[] {
  const mount = mountedPath === undefined ? '' : path.slice(0, path.length - mountedPath.length);
  const bucket = virtualBucket === undefined ? '' : `/${virtualBucket}`;
  const whole = mount === '' ? bucket + path : path;
  const encoded = encodePath(path);
  const paths =
    mount === '' || bucket === ''
      ? [whole, ...(encoded === undefined ? [] : [mount === '' ? bucket + encoded : encoded])]
      : [];
  if (mount === '' || mountedPath === undefined) return paths;
  const short = bucket + mountedPath;
  return short === mount || short.startsWith(`${mount}/`) ? paths : [...paths, short];
}

/** The token of temporary credentials, in a header or the query; it is signed like the vendor's headers. */
function sessionToken(wire: Wire, query: Query): string | undefined {
  const name = `${amz.headerPrefix}security-token`;
  const inQuery = query.pairs.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
  const all = [...wire.headers.all(name), ...inQuery];
  if (all.length > 1) throw fail('InvalidToken');
  return all[0];
}

/** @throws AccessDenied for a bucket with a signing key of its own */
export async function refuseBucketSecrets(
  known: KnownKey,
  options: Pick<AuthenticationOptions, 'findSecrets'>,
): Promise<void> {
  const secrets = await secretsOf(known, options);
  if (secrets.some(({ secret }) => secret !== known.credential.secretKey))
    throw fail('AccessDenied', 'A bucket with its own signing key does not accept version 2 signatures');
}

/** @throws InvalidRequest when SVC_SIGV2_PRESIGN is off */
export function assertSigV2({ sigV2Presign }: AuthenticationContext['settings']): void {
  if (sigV2Presign) return;
  throw fail(
    'InvalidRequest',
    `The authorization mechanism you have provided is not supported. Please use ${amz.algorithm}.`,
  );
}

const utf8 = new TextEncoder();

function only(query: Query, name: string): string {
  const values = query.pairs.filter(([known]) => known === name);
  if (values.length === 1) return (values[0] as readonly [string, string])[1];
  throw fail(
    'AccessDenied',
    'Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters, each once',
  );
}

function checkExpires(expires: string, now: number): void {
  if (!/^\d{1,15}$/.test(expires))
    throw fail('AccessDenied', `Invalid date (should be seconds since epoch): ${expires}`);
  const until = Number(expires) * 1000;
  if (now <= until) return;
  throw fail('AccessDenied', {
    message: 'Request has expired',
    elements: { Expires: isoSeconds(until), ServerTime: isoSeconds(now) },
  });
}

/** Reads a space as `+`, because a `+` that was not encoded arrives as a space. Text that is not base64 matches no signature. */
export function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text.replaceAll(' ', '+')), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
