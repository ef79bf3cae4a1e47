/**
 * The body of a request: what the request claims about it, and bodies that are read whole: bounded, and verified to the last byte before a
 * handler sees them. The `mfa` header is read here too.
 */
import { verifyMfaHeader } from '../auth/session/mfa.ts';
import { gather } from '../base/concurrency.ts';
import { fail } from '../base/errors.ts';
import type { MemoryHolder } from '../base/shared-budget.ts';
import { tap } from '../base/tap.ts';
import type { Context } from '../context.ts';
import { type ChecksumAlgorithm, type Claims, checksumFacts, digesting } from '../domain/content/digests.ts';
import { type Content, contentMax } from '../domain/content/store-bytes.ts';
import { dialects } from '../protocol/dialect.ts';
import { bodyMaxDefault, isChecksumHeader, type Operation } from '../protocol/operations/operations.ts';
import { checksumNames } from '../protocol/schemas/common.ts';
import { defined, header, type Tags } from './parameters.ts';
import type { Authorized, AuthorizedInBucket, BufferCounter, RequestContext } from './request.ts';

export const emptyBody = new Uint8Array(0);

/**
 * The body of an operation that does not stream; undefined where there is none to read or to verify.
 * @throws MaxMessageLengthExceeded, BadDigest, SlowDown where bodies hold all the memory that they may, or what the
 *   signature of the payload is refused with
 */
export function readBody(
  ctx: Pick<Context, 'hasher' | 'bodyMemory'>,
  request: Pick<Authorized, 'wire' | 'own' | 'payload' | 'identity'> & HolderFacts,
  {
    hasBody,
    row,
    countedIn,
  }: {
    readonly hasBody: boolean;
    readonly row: Pick<Operation, 'streams' | 'bodyMax' | 'checksumOf'>;
    readonly countedIn: BufferCounter;
  },
): Promise<Uint8Array> | undefined {
  const { payload } = request;
  if (row.streams || (!hasBody && payload.sha256 === undefined)) return undefined;
  const claims = readClaims(request);
  // The signature's own hash of nothing has been compared; most requests claim no more about the body they lack.
  if (!hasBody && claims.md5 === undefined && claims.checksum === undefined) return undefined;
  const max = row.bodyMax ?? bodyMaxDefault;
  if (payload.length !== undefined && payload.length > max) throw tooLong(max);
  const digests = digesting(ctx, payload.content, {
    claims: readClaims(request, { isBodyHeader: row.checksumOf !== 'object' }),
    sizeMax: Number.MAX_SAFE_INTEGER,
  });
  countedIn.bufferedFor = findMemoryHolder(request);
  const charged = tap(digests.content, { see: ({ length }) => reserveBuffered(ctx, countedIn, length) });
  return gather(charged, { max, tooLong: () => tooLong(max) });
}

type Memory = Pick<Context, 'bodyMemory'>;

/** Reserves more memory for a body, until the request is answered. @throws SlowDown where it does not fit */
export function reserveBuffered({ bodyMemory }: Memory, request: BufferCounter, bytes: number): void {
  const { bufferedFor: holder } = request;
  if (holder === undefined) throw new Error('bufferedFor must be set before memory is reserved');
  if (bodyMemory.take(bytes, holder)) {
    request.bufferedBytes += bytes;
    return;
  }
  // Release the memory immediately, so that other requests can use it.
  bodyMemory.give(request.bufferedBytes, holder);
  request.bufferedBytes = 0;
  throw fail('SlowDown', 'Too many large requests are being read.');
}

/** Reserves the memory of a body for the present caller, who was not known when it was read. @throws SlowDown where it does not fit */
export function moveBuffered(ctx: Memory, request: BufferCounter & HolderFacts): void {
  const { bufferedBytes, bufferedFor } = request;
  if (bufferedFor === undefined) return;
  ctx.bodyMemory.give(bufferedBytes, bufferedFor);
  request.bufferedBytes = 0;
  request.bufferedFor = findMemoryHolder(request);
  reserveBuffered(ctx, request, bufferedBytes);
}

type HolderFacts = Pick<RequestContext, 'identity' | 'bucket'>;

/**
 * The account for whose requests memory is reserved, and whose turns of the event loop they take. Anonymous callers
 * count for the account of the bucket, because it lets them in and could have twice as much otherwise.
 */
export const findHolder = ({ identity, bucket }: HolderFacts): string =>
  identity?.owner ?? bucket?.owner ?? '';

/** The same account, and whether the caller is anonymous: such callers may not hold all that is left to it. */
export const findMemoryHolder = (request: HolderFacts): MemoryHolder => ({
  account: findHolder(request),
  isAnonymous: request.identity === undefined,
});

const tooLong = (max: number) =>
  fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: max } });

// Facts in a request's body that its authorization needs: tags and locks that it sets, the region of a new bucket.

export interface BodyFacts {
  readonly requestTags?: Tags;
  /** By condition key. */
  readonly named?: ReadonlyMap<string, string | readonly string[]>;
  /** Further actions that the caller must be allowed. */
  readonly along?: readonly string[];
  /** Count in place of the request's own headers of these bare names. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export type ReadFacts = (body: Uint8Array) => BodyFacts;

// What a request declares about its content: `Content-MD5` and the checksum headers or trailers (public API "Checking object integrity").

type Request = Pick<Authorized, 'wire' | 'own' | 'payload'>;

interface ClaimRules {
  /** The algorithm to compute when the request names none. */
  readonly fallback?: ChecksumAlgorithm | undefined;
  /** False where the checksum header is about something other than the body; a trailer is always about the body. */
  readonly isBodyHeader?: boolean;
}

export function readClaims(request: Request, { fallback, isBodyHeader = true }: ClaimRules = {}): Claims {
  const md5 = request.wire.headers.get('content-md5');
  if (md5 !== undefined && !isDigest(md5, 16)) {
    throw fail('InvalidDigest', {
      message: 'The Content-MD5 you specified is not the base64 of 16 bytes.',
      elements: { 'Content-MD5': md5 },
    });
  }
  const checksum =
    readChecksum(request, isBodyHeader) ?? (fallback && { algorithm: fallback, value: () => undefined });
  return md5 === undefined && checksum === undefined ? {} : defined({ md5, checksum });
}

function readChecksum(request: Request, isBodyHeader: boolean): Claims['checksum'] {
  const input = claimedChecksum(request);
  const trailed = request.payload.announced.map((name) => ({ algorithm: algorithmOfTrailer(name), name }));
  if ((input === undefined ? 0 : 1) + trailed.length > 1) {
    throw fail(
      'InvalidRequest',
      'Expecting a single checksum header or trailer. Multiple checksum types are not allowed.',
    );
  }
  const [trailer] = trailed;
  const declared = header(request, 'sdk-checksum-algorithm')?.toUpperCase();
  if (declared !== undefined && declared !== (trailer ?? input)?.algorithm) {
    throw fail(
      'InvalidRequest',
      `The sdk-checksum-algorithm header names ${declared}, but no corresponding checksum header or trailer was found.`,
    );
  }
  if (trailer !== undefined) {
    return {
      algorithm: trailer.algorithm,
      value: () => {
        const value = request.payload.trailers.get(trailer.name);
        return value === undefined ? undefined : valid(value, trailer.algorithm);
      },
    };
  }
  return isBodyHeader && input !== undefined
    ? { algorithm: input.algorithm, value: () => input.value }
    : undefined;
}

/** By bare header name. */
const algorithms: ReadonlyMap<string, ChecksumAlgorithm> = new Map(
  checksumNames.map((algorithm) => [`checksum-${algorithm.toLowerCase()}`, algorithm]),
);

/** The checksum in a header, if any. @throws InvalidRequest when malformed or more than one */
export function claimedChecksum(
  request: Pick<Authorized, 'own'>,
): { readonly algorithm: ChecksumAlgorithm; readonly value: string } | undefined {
  let names: string[] | undefined;
  for (const name of request.own.keys()) if (isChecksumHeader(name)) names = [...(names ?? []), name];
  if (names === undefined) return undefined;
  for (const name of names)
    if (!algorithms.has(name))
      throw fail(
        'InvalidRequest',
        `The header ${name} is not a checksum that this service verifies: ${checksumNames.join(', ')}.`,
      );
  const found = names.map((name) => {
    const algorithm = algorithms.get(name) as ChecksumAlgorithm;
    return { algorithm, value: valid(request.own.get(name) as string, algorithm) };
  });
  if (found.length > 1) {
    throw fail(
      'InvalidRequest',
      'Expecting a single checksum header. Multiple checksum types are not allowed.',
    );
  }
  return found[0];
}

function valid(value: string, algorithm: ChecksumAlgorithm): string {
  // A completed composite checksum may carry `-<parts>`.
  if (isDigest(value.replace(/-\d{1,5}$/, ''), checksumFacts[algorithm].bytes)) return value;
  throw fail('InvalidRequest', `Value for the checksum-${algorithm.toLowerCase()} header is invalid.`);
}

/** By the name of the trailer, of both dialects. */
const trailerAlgorithms: ReadonlyMap<string, ChecksumAlgorithm> = new Map(
  dialects.flatMap(({ headerPrefix }) =>
    checksumNames.map(
      (algorithm) => [`${headerPrefix}checksum-${algorithm.toLowerCase()}`, algorithm] as const,
    ),
  ),
);

/** @throws InvalidRequest for an algorithm that this service cannot verify */
function algorithmOfTrailer(name: string): ChecksumAlgorithm {
  const found = trailerAlgorithms.get(name);
  if (found !== undefined) return found;
  throw fail('InvalidRequest', `The trailer ${name} is not a checksum of ${checksumNames.join(', ')}.`);
}

/** Whether a text is the base64 of exactly `bytes` bytes. */
const isDigest = (text: string, bytes: number): boolean =>
  text.length === Math.ceil(bytes / 3) * 4 &&
  /^[A-Za-z0-9+/]+={0,2}$/.test(text) &&
  atobLength(text) === bytes;
const atobLength = (text: string): number =>
  (text.length / 4) * 3 - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);

/** The algorithm named by a header such as `checksum-algorithm`. */
export function parseAlgorithm(raw: string | undefined, name: string): ChecksumAlgorithm | undefined {
  if (raw === undefined) return undefined;
  const found = checksumNames.find((algorithm) => algorithm === raw.toUpperCase());
  if (found === undefined)
    throw fail('InvalidRequest', `${name} must be one of ${checksumNames.join(', ')}, not "${raw}"`);
  return found;
}

/**
 * The content of an upload.
 * @throws MissingContentLength, EntityTooLarge, or what the claims' own syntax is refused with
 */
export function readContent(request: Authorized, fallback?: ChecksumAlgorithm): Content {
  const { length } = request.payload;
  const isChunked = request.wire.headers.get('transfer-encoding') !== undefined;
  if (length === undefined && !isChunked) throw fail('MissingContentLength');
  if (length !== undefined && length > contentMax) {
    throw fail('EntityTooLarge', { elements: { ProposedSize: length, MaxSizeAllowed: contentMax } });
  }
  const { content: source, sha256 } = request.payload;
  return { source, length, sha256, claims: readClaims(request, { fallback }) };
}

// The `mfa` header: the serial number of a device and the code that it shows, with a space between.

/**
 * Whether the caller is the root of the bucket's account and has sent a valid code of its MFA device. Call it only where it
 * matters, because a code is valid once.
 * @throws AccessDenied for an invalid header
 */
export async function hasVerifiedMfa(
  ctx: Context,
  request: Pick<AuthorizedInBucket, 'bucket' | 'identity' | 'own'>,
): Promise<boolean> {
  const { bucket, identity } = request;
  const input = header(request, 'mfa');
  if (input === undefined) return false;
  const isOwner = identity?.root === true && identity.owner === bucket.owner;
  if (!isOwner || !(await verifyMfaHeader(ctx, identity, input))) throw fail('AccessDenied');
  return true;
}
