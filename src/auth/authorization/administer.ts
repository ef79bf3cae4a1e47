/**
 * Who may use the operator API: configured operator keys, and IAM users and roles of an operators' account whose policies allow the
 * action. An operators' account is one whose root key is an operator key. Other accounts cannot grant these actions: their own
 * administrators write their policies, and would make themselves operators.
 */
import { fail, type Refusal } from '../../errors/refusal.ts';
import type { Credentials } from '../../ports/crypto/credentials.ts';
import type { Identity } from '../identity.ts';
import { principalOf } from '../session/principal.ts';
import { type AuthorizationContext, type Caller, verdictOn } from './authorize.ts';
import { denialText, operatorText } from './denial.ts';

export interface AdminQuestion {
  /** Such as `admin:DrainCluster`. */
  readonly action: string;
  /** The path below the prefix of the operator API, such as `clusters/b/drain`; it is the resource in policies. */
  readonly path: string;
}

export interface AdminContext extends AuthorizationContext {
  readonly credentials: Pick<Credentials, 'account'>;
}

/** @throws AccessDenied; its text is for callers with a valid signature */
export async function authorizeAdmin(
  ctx: AdminContext,
  caller: Caller,
  question: AdminQuestion,
): Promise<NonNullable<Identity>> {
  const refusal = await adminRefusal(ctx, caller, question);
  if (refusal !== undefined) throw refusal;
  if (caller.identity === undefined) throw fail('AccessDenied');
  return caller.identity;
}

/** Why the caller may not do it; undefined where it may. */
export async function adminRefusal(
  ctx: AdminContext,
  caller: Caller,
  { action, path }: AdminQuestion,
): Promise<Refusal | undefined> {
  const { identity } = caller;
  if (identity === undefined) return fail('AccessDenied');
  if (identity.operator) return undefined;
  const principal = principalOf(identity);
  const resource = `arn:aws:admin:::${path}`;
  const asked = { principal, action, resource: `"${resource}"` };
  if (!(await isGrantable(ctx, identity))) return fail('AccessDenied', operatorText(asked));
  // No access point leads to the operator API, and no bucket policy allows it.
  const asker = { ...caller, accessPoint: undefined };
  const verdict = await verdictOn(ctx, asker, { action, bucketName: '', key: '', resource });
  return verdict.allowed ? undefined : fail('AccessDenied', denialText({ ...asked, verdict }));
}

/**
 * Whether the caller is an operator or policies can allow it operations of the operator API. Settings alone decide about configured keys,
 * so that `operator` is never implied by another field of an entry.
 */
export async function isGrantable(
  { credentials }: Pick<AdminContext, 'credentials'>,
  { operator, iam, owner }: NonNullable<Identity>,
): Promise<boolean> {
  return operator || (iam !== undefined && (await credentials.account({ owner }))?.isOperators === true);
}
