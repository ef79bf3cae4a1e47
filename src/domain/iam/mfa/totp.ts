/** One-time codes of virtual MFA devices (RFC 6238: SHA-1, 30 seconds and six digits, as authenticator apps use). */
import type { Hasher } from '../../../ports/crypto/hasher.ts';

const stepMs = 30_000;
export const seedBytes = 20;

export const stepAt = (now: number): number => Math.floor(now / stepMs);

/** RFC 4226, section 5.3. */
export function codeAt(hasher: Pick<Hasher, 'hmacSha1'>, seed: Uint8Array, step: number): string {
  const counter = new Uint8Array(8);
  new DataView(counter.buffer).setBigUint64(0, BigInt(step));
  const mac = hasher.hmacSha1(seed, counter);
  const at = (mac.at(-1) ?? 0) & 0x0f;
  const truncated = new DataView(mac.buffer, mac.byteOffset + at, 4).getUint32(0) & 0x7fff_ffff;
  return String(truncated % 1_000_000).padStart(6, '0');
}

export interface Shown {
  /** One code, or codes of consecutive steps. */
  readonly codes: readonly string[];
  /** How many steps the device's clock may be off in each direction. */
  readonly drift: number;
  readonly now: number;
  /** The step of the last accepted code. That code and all earlier ones are no longer valid. */
  readonly after: number;
}

/** The step of the last code; undefined when the codes do not match. */
export function matchCodes(
  hasher: Pick<Hasher, 'hmacSha1'>,
  seed: Uint8Array,
  { codes, drift, now, after }: Shown,
): number | undefined {
  const current = stepAt(now);
  let found: number | undefined;
  // Compute all of them, even after a match, so that the time taken reveals nothing.
  for (let last = current - drift; last <= current + drift; last += 1) {
    const first = last - codes.length + 1;
    const isGood = codes
      .map((code, index) => codeAt(hasher, seed, first + index) === code)
      .every((isSame) => isSame);
    if (isGood && first > after) found = last;
  }
  return found;
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Base32 of RFC 4648 without padding, for lengths that are multiples of five bits. */
export function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += letters[(held >>> (bits - 5)) & 31];
    held &= (1 << bits) - 1;
  }
  return text;
}
