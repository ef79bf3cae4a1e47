/** The code of an MFA device in a request for temporary credentials. */
import { verifyMfa } from '../../../auth/session/mfa.ts';
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { optional } from '../../../protocol/operations/parameters.ts';
import type { ActionRequest } from '../action-request.ts';
import { mfaCode, serialNumber } from '../fields.ts';

export const codeParameters = { SerialNumber: optional(serialNumber), TokenCode: optional(mfaCode) };

/**
 * The time of a valid code (now), or undefined without a code.
 * @throws AccessDenied for an invalid code
 */
export async function shownAt(
  ctx: Context,
  { identity }: ActionRequest,
  given: { readonly SerialNumber: string | undefined; readonly TokenCode: string | undefined },
): Promise<number | undefined> {
  const { SerialNumber: serial, TokenCode: code } = given;
  if (serial === undefined && code === undefined) return undefined;
  if (serial === undefined || code === undefined)
    throw fail('ValidationError', 'SerialNumber and TokenCode come together.');
  if (await verifyMfa(ctx, identity, { serial, code })) return ctx.clock.now();
  throw fail('AccessDenied', 'MultiFactorAuthentication failed with invalid MFA one time pass code.');
}
