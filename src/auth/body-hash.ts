/**
 * The hash of a body that its sender did not declare: IAM and STS clients sign it and leave it out of the headers, so
 * it is computed before the signature can be checked (spec "Authentication" 2.3). Such a body is read whole by
 * somebody who has proved nothing yet but the name of a key, so it is bounded closely.
 */
import { gather } from '../domain/gather.ts';
import { fail } from '../errors/refusal.ts';
import type { Hasher } from '../ports/hasher.ts';
import { formBytesMax } from '../protocol/action-query.ts';
import type { Incoming } from '../protocol/wire.ts';
import type { Claim, OpenClaim } from './claim.ts';
import { toHex } from './signing-key.ts';

const isComplete = (claim: OpenClaim): claim is Claim => claim.payloadHash !== undefined;

/** The claim with the body's hash, and the request with its body still to be read. */
export async function withBodyHash(
  hasher: Hasher,
  incoming: Incoming,
  claim: OpenClaim,
): Promise<{ readonly claim: Claim; readonly incoming: Incoming }> {
  if (isComplete(claim)) return { claim, incoming };
  const { body } = incoming;
  const whole = body === undefined ? new Uint8Array(0) : await gather(body, { max: formBytesMax, tooLong });
  const payloadHash = toHex(hasher.once('sha256', whole));
  const read = body === undefined ? undefined : once(whole);
  return { claim: { ...claim, payloadHash }, incoming: { ...incoming, body: read } };
}

const tooLong = () => fail('MaxMessageLengthExceeded', { elements: { MaxMessageLengthBytes: formBytesMax } });

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
