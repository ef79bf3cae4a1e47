/** The refusal by a public access block: it names the setting to callers of the account that owns the resource. */
import { fail, Refusal } from '../errors/refusal.ts';
import { blockText } from './authorization/denial.ts';
import type { Identity } from './identity.ts';
import { principalOf } from './session/principal.ts';

export interface Blocked {
  readonly identity: Identity;
  /** The account of the bucket or access point that has the block. */
  readonly owner: string | undefined;
  readonly action: string;
  readonly resource: string;
}

/** @returns the refusal with its text, or the same cause */
export function explainBlock(cause: unknown, { identity, owner, action, resource }: Blocked): unknown {
  if (!(cause instanceof Refusal) || cause.details.blockedBy === undefined) return cause;
  if (identity === undefined || identity.owner !== owner) return cause;
  const asked = { principal: principalOf(identity), action, resource };
  return fail(cause.code, { ...cause.details, message: blockText(asked, cause.details.blockedBy) });
}
