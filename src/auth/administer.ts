/**
 * Who may use the operator API: configured operator keys, and IAM users and roles of an operators' account whose policies allow the
 * action. An operators' account is one whose root key is an operator key. Other accounts cannot grant these actions: their own
 * administrators write their policies, and would make themselves operators. What is open to every account about its own things is decided
 * by its own policies.
 */
import { fail, type Refusal } from '../base/errors.ts';
import type { Credentials } from '../ports/credentials.ts';
import type { ResourceRule } from '../protocol/admin/row.ts';
import {
  type AuthorizationContext,
  type Caller,
  denialText,
  operatorText,
  tenantText,
  verdictOn,
} from './authorize.ts';
import type { Identity } from './identity.ts';
import { callerOf, principalOf } from './principal.ts';

export interface AdminQuestion {
  /** Such as `admin:DrainCluster`. */
  readonly action: string;
  /** The path below the prefix of the operator API, such as `clusters/b/drain`; it is the resource in policies. */
  readonly path: string;
  /** Further resources that the request names. */
  readonly named?: readonly AdminResource[] | undefined;
  /**
   * Of an operation that is open to every account (`AdminOperation.tenants`): whether the request is about something of
   * the caller's own.
   */
  readonly isOwn?: boolean | undefined;
}

/** A resource that a request names beside its path, with what policies must say about it (`ResourceRule`). */
export interface AdminResource {
  readonly path: string;
  readonly rule: ResourceRule;
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
  { action, path, named = [], isOwn }: AdminQuestion,
): Promise<Refusal | undefined> {
  const unknown = isOwn === true ? undefined : await ungrantable(ctx, caller, { action, path, isOwn });
  if (unknown !== undefined || caller.identity?.operator === true) return unknown;
  const own = await findRefusal(ctx, caller, { action, path });
  if (own?.isDenied === true) return own.refusal;
  const found: (AdminResource & { readonly answer: Answer | undefined })[] = [];
  for (const each of named) {
    const answer = await findRefusal(ctx, caller, { action, path: each.path });
    if (answer?.isDenied === true) return answer.refusal;
    found.push({ ...each, answer });
  }
  const required = found.filter(({ rule }) => rule === 'scope' || rule === 'part');
  const missing = required.find(({ answer }) => answer !== undefined);
  if (missing !== undefined) return missing.answer?.refusal;
  const isCovered = found.some(
    ({ rule, answer }) => rule === 'scope' || (rule === 'alias' && answer === undefined),
  );
  return isCovered ? undefined : own?.refusal;
}

/** The refusal of an explicit Deny of the resource; undefined for operators by their key, whom no policy binds. */
export async function findDenial(
  ctx: AdminContext,
  caller: Caller,
  question: Pick<AdminQuestion, 'action' | 'path'>,
): Promise<Refusal | undefined> {
  if (caller.identity?.operator === true) return undefined;
  const refusal = await findRefusal(ctx, caller, question);
  return refusal?.isDenied === true ? refusal.refusal : undefined;
}

/** Why no policy can allow the caller anything here; undefined where policies decide, and for operators. */
export async function ungrantable(
  ctx: AdminContext,
  { identity }: Caller,
  { action, path, isOwn }: Pick<AdminQuestion, 'action' | 'path' | 'isOwn'>,
): Promise<Refusal | undefined> {
  if (identity === undefined) return fail('AccessDenied');
  if (await isGrantable(ctx, identity)) return undefined;
  const asked = { principal: principalOf(identity), action, resource: `"${adminArn(path)}"` };
  return fail('AccessDenied', isOwn === undefined ? operatorText(asked) : tenantText(asked));
}

const adminArn = (path: string): string => `arn:aws:admin:::${path}`;

interface Answer {
  readonly refusal: Refusal;
  readonly isDenied: boolean;
}

/** What the policies of the caller say about one resource; undefined where they allow it. */
async function findRefusal(
  ctx: AdminContext,
  caller: Caller,
  { action, path }: Pick<AdminQuestion, 'action' | 'path'>,
): Promise<Answer | undefined> {
  const resource = adminArn(path);
  // No access point leads to the operator API, and no bucket policy allows it.
  const asker = { ...caller, accessPoint: undefined };
  const verdict = await verdictOn(ctx, asker, { action, bucketName: '', key: '', resource });
  if (verdict.allowed) return undefined;
  const asked = { principal: principalOf(caller.identity), action, resource: `"${resource}"` };
  return {
    refusal: fail('AccessDenied', denialText({ ...asked, verdict })),
    isDenied: verdict.reason === 'explicit-deny',
  };
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

// What callers of every account may do about themselves in the operator API: what IAM allows them, without a permission
// for the operator API.

type OwnPrincipal = ReturnType<typeof callerOf>;

/**
 * @param things what the caller asks about @throws AccessDenied for temporary credentials: they end by themselves, and
 * must not leave anything that does not
 */
export function ownPrincipal({ identity }: Pick<Caller, 'identity'>, things: string): OwnPrincipal {
  if (identity === undefined) throw fail('AccessDenied');
  const principal = callerOf(identity);
  if (principal.kind === 'session' || identity.session !== undefined)
    throw fail('AccessDenied', `Temporary credentials have no ${things} of their own.`);
  return principal;
}

interface OwnQuestion {
  /** An action of IAM. */
  readonly action: string;
  readonly resource: string;
}

/** Why IAM does not allow it to the caller; undefined where it does. */
export async function ownRefusal(
  ctx: AuthorizationContext,
  caller: Caller,
  { action, resource }: OwnQuestion,
): Promise<Refusal | undefined> {
  const verdict = await verdictOn(ctx, caller, { action, bucketName: '', key: '', resource });
  if (verdict.allowed) return undefined;
  return fail(
    'AccessDenied',
    denialText({ principal: principalOf(caller.identity), action, resource, verdict }),
  );
}

/** @throws AccessDenied */
export async function assertOwnAllowed(
  ctx: AuthorizationContext,
  caller: Caller,
  question: OwnQuestion,
): Promise<void> {
  const refusal = await ownRefusal(ctx, caller, question);
  if (refusal !== undefined) throw refusal;
}
