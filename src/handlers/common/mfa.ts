/** The `mfa` header: the serial number of a device and the code that it shows, with a space between. */
import { verifyMfaHeader } from '../../auth/session/mfa.ts';
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';
import { header } from './own-headers.ts';

/**
 * Whether the caller has shown the MFA of the bucket's owner, whose root it must be. Ask only where it matters: a code
 * is good once.
 * @throws AccessDenied for a header that does not prove it
 */
export async function hasShownMfa(ctx: Context, request: AuthorizedInBucket): Promise<boolean> {
  const { bucket, identity } = request;
  const given = header(request, 'mfa');
  if (given === undefined) return false;
  const isOwner = identity?.root === true && identity.owner === bucket.owner;
  if (!isOwner || !(await verifyMfaHeader(ctx, identity, given))) throw fail('AccessDenied');
  return true;
}
