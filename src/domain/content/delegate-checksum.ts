/**
 * Lets the store compare a content with the checksum that the client sent, where the store verifies it anyway. The content is then
 * hashed once instead of twice.
 */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { type ClaimedDigests, ContentMismatch } from '../../ports/storage/object-bytes.ts';
import { type Claims, wrongMd5 } from './digests.ts';

/** A hash that the content must match: verified as it flows by, unless another component verifies it. */
export interface SignedHash {
  /** SHA-256 in lower-case hexadecimal. */
  readonly hex: string;
  /** The caller takes over the comparison. Call it before reading the source. */
  entrust(): void;
}

/** The length and digests that the client sent for a content. */
export interface Claimed {
  /** In bytes; undefined when the client did not state it. */
  readonly length: number | undefined;
  readonly claims: Claims;
  /** Absent when the signature does not cover a hash of the content, or when the source compares the hash itself. */
  readonly sha256?: SignedHash | undefined;
}

/** The hash that the store is to verify; undefined when the gateway verifies the content as it streams. */
export async function entrusted(
  { bytes }: Pick<Context, 'bytes'>,
  { sha256, length, claims }: Claimed,
  { cluster, isEncrypted }: { readonly cluster: string; readonly isEncrypted: boolean },
): Promise<ClaimedDigests | undefined> {
  // The store gets ciphertext when the content is encrypted, so it cannot compare the hash of the plaintext.
  if (sha256 === undefined || length === undefined || isEncrypted) return undefined;
  if (!(await bytes.verifies?.(cluster, length))) return undefined;
  sha256.entrust();
  return { sha256: sha256.hex, md5: claims.md5 };
}

/** The refusal for a client whose content has another checksum than it declared. */
export function toMismatch(cause: unknown, claimed: ClaimedDigests | undefined): unknown {
  if (!(cause instanceof ContentMismatch) || claimed === undefined) return cause;
  if (cause.digest === 'md5') return wrongMd5({ ExpectedDigest: claimed.md5 ?? '' });
  return fail('XAmzContentSHA256Mismatch', {
    cause,
    elements: { ClientComputedContentSHA256: claimed.sha256 },
  });
}
