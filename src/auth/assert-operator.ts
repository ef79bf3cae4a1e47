/** Refuses callers that are not operators. Policies cannot override this. */
import { fail } from '../errors/refusal.ts';
import { operatorText } from './authorization/denial.ts';
import type { Identity } from './identity.ts';
import { principalOf } from './session/principal.ts';

/** @throws AccessDenied; its text is for callers with a valid signature */
export function assertOperator(
  identity: Identity,
  asked: { readonly action: string; readonly resource: string },
): asserts identity is NonNullable<Identity> {
  if (identity === undefined) throw fail('AccessDenied');
  if (!identity.operator)
    throw fail('AccessDenied', operatorText({ principal: principalOf(identity), ...asked }));
}
