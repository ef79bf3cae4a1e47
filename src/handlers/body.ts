/** Bodies that are read whole: bounded, verified to their last byte, before a handler sees them (attacks 2). */
import type { Context } from '../context.ts';
import { digesting } from '../domain/digests.ts';
import { fail } from '../errors/refusal.ts';
import { bodyMaxDefault, type Operation } from '../protocol/operations.ts';
import type { Call } from './call.ts';
import { claimsOf } from './claims.ts';

const nothing = new Uint8Array(0);

/**
 * The body of an operation that does not stream.
 * @throws MaxMessageLengthExceeded, BadDigest, or what the signature of the payload is refused with
 */
export async function readBody(
  ctx: Pick<Context, 'hasher'>,
  call: Pick<Call, 'wire' | 'own' | 'payload'>,
  { hasBody, row }: { readonly hasBody: boolean; readonly row: Operation },
): Promise<Uint8Array> {
  const { payload } = call;
  if (row.streams || (!hasBody && payload.sha256 === undefined)) return nothing;
  const claims = claimsOf(call);
  // The signature's own hash of nothing has been compared; most requests claim no more about the body they lack.
  if (!hasBody && claims.md5 === undefined && claims.checksum === undefined) return nothing;
  const max = row.bodyMax ?? bodyMaxDefault;
  if (payload.length !== undefined && payload.length > max) throw tooLong(max);
  const digests = digesting(ctx, payload.content, {
    claims: claimsOf(call, { isBodyHeader: row.checksumOf !== 'object' }),
    sizeMax: Number.MAX_SAFE_INTEGER,
  });
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of digests.content) {
    size += piece.length;
    if (size > max) throw tooLong(max);
    pieces.push(piece.slice());
  }
  digests.finish();
  return join(pieces, size);
}

const tooLong = (max: number) =>
  fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: max } });

function join(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  const body = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.length;
  }
  return body;
}
