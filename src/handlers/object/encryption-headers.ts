/**
 * The encryption headers of requests and replies, and the keys that they name (public API "Protecting data with
 * server-side encryption").
 */

import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { type JsonObject, readStrictJson } from '../../base/text/strict-json.ts';
import { decodeDocument } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import type { CustomerKey, ObjectKey } from '../../domain/content/extent-keys.ts';
import type { RequestedEncryption } from '../../domain/content/requested-encryption.ts';
import { assertCustomerKey, assertUploadKey, openObjectKey } from '../../domain/content/wrapped-key.ts';
import { type Encryption, encryptionNames } from '../../metadata/objects/properties.ts';
import type { BucketRow, ObjectRow, UploadSession } from '../../metadata/tables.ts';
import { cipherKeyBytes } from '../../ports/cryptography.ts';
import { arnName } from '../../ports/key-provider.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { header, readFlag, utf8Length } from '../../request/parameters.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';

type Ctx = Pick<Context, 'config' | 'hasher'>;
type Wired = Pick<Authorized, 'own' | 'wire'>;

const method = 'server-side-encryption';
const keyId = `${method}-aws-kms-key-id`;
const contextName = `${method}-context`;
const bucketKeyEnabled = `${method}-bucket-key-enabled`;
/** The length of the whole context, because it is stored in the object's row. */
const contextMax = 1024;

const byDefault: RequestedEncryption = { by: 'default' };

/** Finds out with one search whether there are such headers; most requests have none. */
function hasAny({ own }: Wired, prefix: string): boolean {
  for (const name of own.keys()) if (name.startsWith(prefix)) return true;
  return false;
}

/** Whether a request has an encryption header. */
const mentionsEncryption = (request: Wired): boolean => hasAny(request, method);

const invalid = (name: string, message: string, value?: string) =>
  fail('InvalidArgument', {
    message,
    elements: { ArgumentName: name, ...(value === undefined ? {} : { ArgumentValue: value }) },
  });

/**
 * The encryption that a write asks for.
 * @throws InvalidArgument, InvalidRequest for headers that are malformed or contradict each other
 */
export function requestedEncryption(ctx: Ctx, request: Wired): RequestedEncryption {
  if (!mentionsEncryption(request)) return byDefault;
  const asked = header(request, method);
  const customerKey = readCustomerKey(ctx, request);
  const ofProvider = [keyId, contextName].find((name) => header(request, name) !== undefined);
  if (customerKey !== undefined) {
    if (asked === undefined && ofProvider === undefined) return { by: 'customer', key: customerKey };
    throw invalid(
      method,
      'Server Side Encryption with Customer provided key is incompatible with the encryption method specified',
      asked,
    );
  }
  if (asked === encryptionNames.provider) {
    const input = {
      keyId: readKeyId(request),
      context: readEncryptionContext(request),
      bucketKey: readFlag(request, bucketKeyEnabled),
    };
    return { by: 'provider', ...input };
  }
  if (ofProvider !== undefined)
    throw invalid(
      method,
      `Server Side Encryption with AWS KMS managed key requires HTTP header ${method} : aws:kms`,
      asked,
    );
  if (asked === undefined) return { by: 'default', bucketKey: readFlag(request, bucketKeyEnabled) };
  if (asked === encryptionNames.service) return { by: 'service' };
  if (asked === 'aws:kms:dsse')
    throw fail('NotImplemented', 'Encryption in two layers (aws:kms:dsse) is not implemented.');
  throw invalid(method, 'The encryption method specified is not supported', asked);
}

function readKeyId(request: Wired): string | undefined {
  const input = header(request, keyId);
  return input === undefined ? undefined : assertKeyId(input, keyId);
}

/** @throws InvalidArgument for what no key provider could know */
export function assertKeyId(input: string, name: string): string {
  if (/^[\x21-\x7e]{1,512}$/.test(input)) return input;
  throw invalid(name, 'The key id is not 1 to 512 printable characters without spaces', input);
}

/** Base64 of a JSON object of texts. */
function readEncryptionContext(request: Wired): Readonly<Record<string, string>> | undefined {
  const input = header(request, contextName);
  if (input === undefined) return undefined;
  const context = parseContext(input);
  if (context === undefined)
    throw invalid(
      contextName,
      `The header '${contextName}' shall be Base64-encoded UTF-8 string holding JSON which represents a string-string map`,
    );
  if (Object.hasOwn(context, arnName))
    throw invalid(contextName, `The encryption context may not name ${arnName}: the service does`);
  return context;
}

function parseContext(input: string): Readonly<Record<string, string>> | undefined {
  try {
    const text = decodeDocument(fromBase64(input));
    const parsed = readStrictJson(text, { refuse: (path, problem) => new Error(`${path} ${problem}`) });
    if (!(parsed instanceof Map)) return undefined;
    const entries = [...(parsed as JsonObject)];
    const isMap = entries.every((entry): entry is [string, string] => typeof entry[1] === 'string');
    return isMap && utf8Length(text) <= contextMax ? Object.fromEntries(entries) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The key that a client sends along.
 * @param whose of the request's own object, or of the source of a copy
 * @throws InvalidRequest over plain HTTP, InvalidArgument for one that is no key
 */
export function readCustomerKey(
  { config, hasher }: Ctx,
  request: Wired,
  whose: '' | 'copy-source-' = '',
): CustomerKey | undefined {
  const prefix = `${whose}${method}-customer-`;
  if (!hasAny(request, prefix)) return undefined;
  const [algorithm, key, md5] = ['algorithm', 'key', 'key-md5'].map((name) =>
    header(request, `${prefix}${name}`),
  );
  if (config.SVC_SSE_C_REQUIRE_TLS && !request.wire.secure)
    throw fail(
      'InvalidRequest',
      'Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.',
    );
  const required = 'Requests specifying Server Side Encryption with Customer provided keys must provide';
  if (algorithm === undefined)
    throw invalid(`${prefix}algorithm`, `${required} a valid encryption algorithm.`, algorithm);
  if (algorithm !== 'AES256')
    throw fail('InvalidEncryptionAlgorithmError', {
      elements: { ArgumentName: `${prefix}algorithm`, ArgumentValue: algorithm },
    });
  // The value of a key is never repeated.
  if (key === undefined) throw invalid(`${prefix}key`, `${required} an appropriate secret key.`);
  if (md5 === undefined)
    throw invalid(`${prefix}key-md5`, `${required} the client calculated MD5 of the secret key.`);
  const bytes = /^[A-Za-z0-9+/]{43}=$/.test(key) ? fromBase64(key) : undefined;
  if (bytes?.length !== cipherKeyBytes)
    throw invalid(`${prefix}key`, 'The secret key was invalid for the specified algorithm.');
  if (toBase64(hasher.once('md5', bytes)) !== md5)
    throw invalid(
      `${prefix}key-md5`,
      'The calculated MD5 hash of the key did not match the hash that was provided.',
      md5,
    );
  return { bytes, md5 };
}

/** Reads do not choose how the object is encrypted. @throws InvalidArgument */
function refuseChoosing(request: Wired): void {
  if (!mentionsEncryption(request)) return;
  const chosen = [method, keyId, contextName, bucketKeyEnabled].find(
    (name) => header(request, name) !== undefined,
  );
  if (chosen !== undefined)
    throw invalid(chosen, `${chosen} header is not supported for this operation.`, header(request, chosen));
}

/**
 * A part may repeat how its upload is encrypted, as a few clients do, and may not ask for anything else.
 * @param begun the headers that began the upload, because a reply may have another name of the same key
 * @throws InvalidArgument
 */
function refuseOtherEncryption(
  request: Wired,
  encryption: Encryption | undefined,
  begun: Readonly<Record<string, string>> = {},
): void {
  if (!mentionsEncryption(request)) return;
  const ofUpload = new Map(writtenEncryptionHeaders(encryption));
  for (const name of [method, keyId, bucketKeyEnabled]) {
    const asked = header(request, name);
    const named =
      ofUpload.get(`*-${name}`) ??
      (name === bucketKeyEnabled && encryption?.by === 'provider' ? 'false' : undefined);
    if (asked === undefined || asked === named || asked === begun[name]) continue;
    throw invalid(name, `${name} is not the one that the upload was begun with.`, asked);
  }
  const context = readEncryptionContext(request);
  const isSame = encryption?.by === 'provider' && isSameContext(context, encryption.context);
  if (context !== undefined && !isSame)
    throw invalid(contextName, `${contextName} is not the one that the upload was begun with.`);
}

const isSameContext = (
  a: Readonly<Record<string, string>> = {},
  b: Readonly<Record<string, string>> = {},
): boolean =>
  Object.keys(a).length === Object.keys(b).length &&
  Object.entries(a).every(([name, value]) => b[name] === value);

const none: readonly HeaderPair[] = [];

/** The reply headers about the encryption of a content. */
export function encryptionHeaders(encryption: Encryption | undefined): readonly HeaderPair[] {
  if (encryption === undefined) return none;
  switch (encryption.by) {
    case 'service':
      return [[`*-${method}`, encryptionNames.service]];
    case 'customer':
      return [
        [`*-${method}-customer-algorithm`, 'AES256'],
        [`*-${method}-customer-key-MD5`, encryption.keyMd5],
      ];
    case 'provider':
      return [
        [`*-${method}`, encryptionNames.provider],
        [`*-${keyId}`, encryption.keyId],
        ...(encryption.bucketKey ? [[`*-${bucketKeyEnabled}`, 'true'] as const] : none),
      ];
  }
}

/** The same in the reply to a write, which repeats the context too. */
export function writtenEncryptionHeaders(encryption: Encryption | undefined): readonly HeaderPair[] {
  const headers = encryptionHeaders(encryption);
  if (encryption?.by !== 'provider' || encryption.context === undefined) return headers;
  const text = new TextEncoder().encode(JSON.stringify(encryption.context));
  return [...headers, [`*-${contextName}`, toBase64(text)]];
}

// The object keys that operations need: of what they read, and of the upload that they add a part to.

/** Whether there is anything for `openDescribedKey` to check. */
export const needsDescribedKey = (request: Authorized, { encryption }: ObjectRow): boolean =>
  encryption !== undefined || mentionsEncryption(request);

/**
 * Checks the encryption headers of a read. A customer key is verified immediately, so that a caller without it learns nothing about
 * the object (public API "HeadObject").
 */
export async function openDescribedKey(
  ctx: Context,
  request: AuthorizedInBucket,
  row: ObjectRow,
): Promise<ObjectKey | undefined> {
  const { encryption } = row;
  refuseChoosing(request);
  const customerKey = readCustomerKey(ctx, request);
  assertCustomerKey(encryption, customerKey);
  if (encryption?.by !== 'customer') return undefined;
  return openObjectKey(
    ctx,
    { bucket: request.bucket, key: row.key },
    { encryption, customerKey, user: openKeyUser(ctx, request) },
  );
}

/** The key of a content that is read. A call to the key provider happens here and not before. */
export const openContentKey = async (
  ctx: Context,
  request: AuthorizedInBucket,
  { encryption, key }: ObjectRow,
): Promise<ObjectKey | undefined> =>
  encryption &&
  openObjectKey(ctx, { bucket: request.bucket, key }, { encryption, user: openKeyUser(ctx, request) });

/** The key to the source of a copy. */
export async function openSourceKey(
  ctx: Context,
  request: AuthorizedInBucket,
  { bucket, row }: { readonly bucket: BucketRow; readonly row: ObjectRow },
): Promise<ObjectKey | undefined> {
  const { encryption } = row;
  const customerKey = readCustomerKey(ctx, request, 'copy-source-');
  assertCustomerKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(ctx, { bucket, key: row.key }, { encryption, customerKey, user: openKeyUser(ctx, request) })
  );
}

/** The key of an upload, which encrypts every part; a customer sends its key with each. */
export async function openUploadKey(
  ctx: Context,
  request: AuthorizedInBucket,
  { encryption, key, begunAs }: UploadSession,
): Promise<ObjectKey | undefined> {
  refuseOtherEncryption(request, encryption, begunAs);
  const customerKey = readCustomerKey(ctx, request);
  if (encryption?.by === 'customer' && customerKey === undefined)
    throw fail(
      'InvalidRequest',
      'The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.',
    );
  assertUploadKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(
      ctx,
      { bucket: request.bucket, key },
      { encryption, customerKey, user: openKeyUser(ctx, request) },
    )
  );
}
