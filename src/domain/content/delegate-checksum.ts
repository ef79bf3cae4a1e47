/**
 * Leaving it to the store to compare a content with what its sender said of it, where the store does that anyway: a
 * content that flows through is then hashed once, and not in both places.
 */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { type ClaimedDigests, ContentMismatch } from '../../ports/storage/object-bytes.ts';
import { type Claims, wrongMd5 } from './digests.ts';

/** A hash that the content must match: verified as it flows by, unless another component verifies it. */
export interface SignedHash {
  /** Of SHA-256, in lower case. */
  readonly hex: string;
  /** The caller takes over the comparison; call it before the source is read. */
  entrust(): void;
}

/** What the sender of a content said of it. */
export interface Claimed {
  /** In bytes; undefined where the client did not say it. */
  readonly length: number | undefined;
  readonly claims: Claims;
  /** Absent: the content is not signed by its hash, or its source compares it whatever happens. */
  readonly sha256?: SignedHash | undefined;
}

/** What the store is to compare; undefined where the content is compared here, as it flows by. */
export async function entrusted(
  { bytes }: Pick<Context, 'bytes'>,
  { sha256, length, claims }: Claimed,
  { cluster, isEncrypted }: { readonly cluster: string; readonly isEncrypted: boolean },
): Promise<ClaimedDigests | undefined> {
  // What is encrypted is another content for the store.
  if (sha256 === undefined || length === undefined || isEncrypted) return undefined;
  if (!(await bytes.verifies?.(cluster, length))) return undefined;
  sha256.entrust();
  return { sha256: sha256.hex, md5: claims.md5 };
}

/** The refusal for a client whose content has another checksum than it declared. */
export function mismatchOf(cause: unknown, claimed: ClaimedDigests | undefined): unknown {
  if (!(cause instanceof ContentMismatch) || claimed === undefined) return cause;
  if (cause.digest === 'md5') return wrongMd5({ ExpectedDigest: claimed.md5 ?? '' });
  return fail('XAmzContentSHA256Mismatch', {
    cause,
    elements: { ClientComputedContentSHA256: claimed.sha256 },
  });
}
