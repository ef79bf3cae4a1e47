/** Bodies that are read whole: bounded, and verified to the last byte before a handler sees them. */
import { gather } from '../base/concurrency.ts';
import { fail } from '../base/errors.ts';
import { tap } from '../base/tap.ts';
import type { Context } from '../context.ts';
import { digesting } from '../domain/content/digests.ts';
import { bodyMaxDefault, type Operation } from '../protocol/operations/operations.ts';
import { readClaims } from './claims.ts';
import type { Authorized, BufferCounter } from './request.ts';
import type { Tags } from './tags.ts';

export const emptyBody = new Uint8Array(0);

/**
 * The body of an operation that does not stream; undefined where there is none to read or to verify.
 * @throws MaxMessageLengthExceeded, BadDigest, SlowDown where bodies hold all the memory that they may, or what the signature of the payload is refused with
 */
export function readBody(
  ctx: Pick<Context, 'hasher' | 'bodyMemory'>,
  request: Pick<Authorized, 'wire' | 'own' | 'payload'>,
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
  const charged = tap(digests.content, {
    see({ length }) {
      if (ctx.bodyMemory.take(length)) {
        countedIn.bufferedBytes += length;
        return;
      }
      // Release the memory immediately, so that other requests can use it.
      ctx.bodyMemory.give(countedIn.bufferedBytes);
      countedIn.bufferedBytes = 0;
      throw fail('SlowDown', 'Too many large requests are being read.');
    },
  });
  return gather(charged, { max, tooLong: () => tooLong(max) });
}

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
