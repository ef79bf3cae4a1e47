/**
 * The hash of a body that its sender did not declare. IAM and STS clients sign it and leave it out of the headers, so it is computed
 * before the signature can be verified. The body is read into memory for a caller that is not authenticated yet, so the limit is
 * small.
 */
import { gather } from '../../base/gather.ts';
import { tap } from '../../base/tap.ts';
import { toHex } from '../../base/text/hex.ts';
import { fail } from '../../errors/refusal.ts';
import type { BodyMemory } from '../../ports/storage/body-memory.ts';
import { formBytesMax } from '../../protocol/request/action-query.ts';
import { type Incoming, withBody } from '../../protocol/request/wire.ts';
import type { AuthenticationContext } from '../context.ts';
import type { Claim, OpenClaim } from '../signature/claim.ts';

export const hasBodyHash = (claim: OpenClaim): claim is Claim => claim.payloadHash !== undefined;

interface Claimed {
  readonly claim: Claim;
  /** The request with its body still to be read. */
  readonly incoming: Incoming;
}

/** Reads the body to complete a claim whose request did not declare the hash. */
export async function withBodyHash(
  { hasher, bodyMemory }: Pick<AuthenticationContext, 'hasher' | 'bodyMemory'>,
  incoming: Incoming,
  claim: OpenClaim,
): Promise<Claimed> {
  const { body } = incoming;
  const whole = body === undefined ? new Uint8Array(0) : await readWhole(bodyMemory, body);
  const payloadHash = toHex(hasher.once('sha256', whole));
  const read = body === undefined ? undefined : once(whole);
  return { claim: { ...claim, payloadHash }, incoming: withBody(incoming, read) };
}

/** Releases the reserved memory when it returns, because the later reader of the body reserves the same amount. */
async function readWhole(memory: BodyMemory, body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let taken = 0;
  const charged = tap(body, {
    see({ length }) {
      if (!memory.take(length)) throw fail('SlowDown', 'Too many large requests are being read.');
      taken += length;
    },
  });
  try {
    return await gather(charged, { max: formBytesMax, tooLong });
  } finally {
    memory.give(taken);
  }
}

const tooLong = () => fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: formBytesMax } });

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
