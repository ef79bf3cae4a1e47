/**
 * Session tokens: everything about temporary credentials, sealed under the master key, so that nothing is stored for
 * them and nothing can be read from them.
 */
import { fail } from '../../errors/refusal.ts';
import type { Session } from '../../ports/crypto/credentials.ts';
import type { Sealer } from '../../ports/crypto/sealer.ts';

/** The identity that a session acts for: a role with a session name, a user, or the owner of a configured key. */
export type SessionHolder =
  | { readonly role: string; readonly name: string }
  | { readonly user: string }
  | { readonly configured: string };

export interface SessionClaims extends Session {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly account: string;
  readonly of: SessionHolder;
  /** The id of the log-in that the session ends with. */
  readonly login?: string;
  /** The session's own tags. */
  readonly tags?: readonly (readonly [string, string])[];
}

/** Bounded because the token must fit into the headers of a request, beside all others. */
const claimsBytesMax = 4_096;
/** An upper bound for the sealed claims in base64. */
const tokenLengthMax = 6_144;

const place = 'session token';
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** How much of the claims' size limit is used, in percent. */
export const packedPercent = (claims: SessionClaims): number =>
  Math.ceil((encoder.encode(JSON.stringify(claims)).length * 100) / claimsBytesMax);

/** @throws PackedPolicyTooLarge */
export async function sealToken(sealer: Sealer, claims: SessionClaims): Promise<string> {
  const plain = encoder.encode(JSON.stringify(claims));
  if (plain.length > claimsBytesMax)
    throw fail(
      'PackedPolicyTooLarge',
      `Packed size of session policies and tags consumes ${packedPercent(claims)}% of allotted space.`,
    );
  return btoa(String.fromCharCode(...(await sealer.seal(plain, place))));
}

/** @throws InvalidToken for anything but an unaltered token of this service */
export async function openToken(sealer: Sealer, token: string): Promise<SessionClaims> {
  const sealed = token.length > tokenLengthMax ? undefined : fromBase64(token);
  const plain = sealed === undefined ? undefined : await sealer.open(sealed, place);
  if (plain === undefined) throw fail('InvalidToken');
  // The cast is safe: only texts that `sealToken` sealed can be opened.
  return JSON.parse(decoder.decode(plain)) as SessionClaims;
}

function fromBase64(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}
