/** The `mfa` header: the serial number of a device and the code that it shows, with a space between. */
import { verifyMfaHeader } from '../../auth/session/mfa.ts';
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';
import { header } from './own-headers.ts';

/**
 * Whether the caller is the root of the bucket's account and has sent a valid code of its MFA device. Call it only where it
 * matters, because a code is valid once.
 * @throws AccessDenied for an invalid header
 */
export async function hasShownMfa(
  ctx: Context,
  request: Pick<AuthorizedInBucket, 'bucket' | 'identity' | 'own'>,
): Promise<boolean> {
  const { bucket, identity } = request;
  const given = header(request, 'mfa');
  if (given === undefined) return false;
  const isOwner = identity?.root === true && identity.owner === bucket.owner;
  if (!isOwner || !(await verifyMfaHeader(ctx, identity, given))) throw fail('AccessDenied');
  return true;
}
