/** Bodies that are read whole: bounded, verified to their last byte, before a handler sees them (attacks 2). */
import type { Context } from '../context.ts';
import { digesting } from '../domain/digests.ts';
import { gather } from '../domain/gather.ts';
import { fail } from '../errors/refusal.ts';
import { bodyMaxDefault, type Operation } from '../protocol/operations.ts';
import type { Call } from './call.ts';
import { claimsOf } from './claims.ts';

export const noBody = new Uint8Array(0);

/**
 * The body of an operation that does not stream.
 * @throws MaxMessageLengthExceeded, BadDigest, or what the signature of the payload is refused with
 */
export async function readBody(
  ctx: Pick<Context, 'hasher'>,
  call: Pick<Call, 'wire' | 'own' | 'payload'>,
  {
    hasBody,
    row,
  }: { readonly hasBody: boolean; readonly row: Pick<Operation, 'streams' | 'bodyMax' | 'checksumOf'> },
): Promise<Uint8Array> {
  const { payload } = call;
  if (row.streams || (!hasBody && payload.sha256 === undefined)) return noBody;
  const claims = claimsOf(call);
  // The signature's own hash of nothing has been compared; most requests claim no more about the body they lack.
  if (!hasBody && claims.md5 === undefined && claims.checksum === undefined) return noBody;
  const max = row.bodyMax ?? bodyMaxDefault;
  if (payload.length !== undefined && payload.length > max) throw tooLong(max);
  const digests = digesting(ctx, payload.content, {
    claims: claimsOf(call, { isBodyHeader: row.checksumOf !== 'object' }),
    sizeMax: Number.MAX_SAFE_INTEGER,
  });
  const body = await gather(digests.content, { max, tooLong: () => tooLong(max) });
  digests.finish();
  return body;
}

const tooLong = (max: number) =>
  fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: max } });
