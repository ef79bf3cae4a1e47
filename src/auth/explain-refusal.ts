/** Refusals with details that only callers of the account of the resource get. */
import { fail, Refusal } from '../base/errors.ts';
import { blockText } from './authorize.ts';
import type { Identity } from './identity.ts';
import { principalOf } from './session/principal.ts';

export interface Refused {
  readonly identity: Identity;
  /** The account of the bucket or access point that has the block. */
  readonly owner: string | undefined;
  readonly action: string;
  readonly resource: string;
}

/** @returns the refusal with its details, or the same cause */
export function explainRefusal(cause: unknown, { identity, owner, action, resource }: Refused): unknown {
  if (!(cause instanceof Refusal) || identity === undefined) return cause;
  const { blockedBy, forAccount, ...details } = cause.details;
  if (forAccount !== undefined && (forAccount.account === identity.owner || identity.operator))
    return fail(cause.code, {
      ...details,
      message: forAccount.message,
      elements: { ...details.elements, ...forAccount.elements },
    });
  // The setting of a public access block.
  if (blockedBy === undefined || identity.owner !== owner) return cause;
  const asked = { principal: principalOf(identity), action, resource };
  return fail(cause.code, { ...cause.details, message: blockText(asked, blockedBy) });
}
