/**
 * Whether the role of a replication rule exists, trusts the service, and allows what a delivery does (public API
 * "Setting up permissions").
 */
import { BoundedCache } from '../base/bounded-cache.ts';
import { fail } from '../base/errors.ts';
import type { KeyUser } from '../domain/content/provider-key.ts';
import { ofOneState } from '../domain/iam/account.ts';
import { findNamed } from '../domain/iam/entities.ts';
import { readTrust } from '../domain/iam/roles.ts';
import type { AskRole, RoleAnswer, RoleAsk } from '../domain/replication/authorize-delivery.ts';
import { iamRevision, type RoleRecord } from '../metadata/iam.ts';
import { parseArn, roleArn } from '../protocol/arns.ts';
import { type AuthorizationContext, evaluatePolicies } from './authorize.ts';
import type { Identity } from './identity.ts';
import { decideTrust } from './policy/decision.ts';
import { parsePolicy } from './policy/document.ts';
import { actingFor, serviceFacts, servicePrincipal } from './service-write.ts';
import { roleCaller } from './session/account-keys.ts';

/** The service that a role must trust. */
export const replicationService = 's3.amazonaws.com';
const sessionName = 's3-replication';

interface FoundRole {
  readonly identity: NonNullable<Identity>;
  readonly trust: string;
}

/** Roles as they were at a revision of their account, so that a delivery costs one read, and obeys every change that was answered. */
class Roles {
  readonly found = new BoundedCache<{
    readonly role: FoundRole | undefined;
    readonly revision: string | undefined;
  }>({
    name: 'replication-roles',
    entriesMax: 1_024,
  });
}

const isExplained = (why: string): RoleAnswer => ({ is: 'refused', why });

export const roleAsker =
  (ctx: AuthorizationContext): AskRole =>
  async ({ account, bucket, role: arn, asks }) => {
    const role = await findRole(ctx, account, arn);
    if (role === undefined) return { is: 'absent' };
    if (!isTrusting(ctx, role, { account, bucket, arn }))
      return isExplained(`the role ${arn} does not trust ${replicationService}: allow it sts:AssumeRole`);
    for (const ask of asks) {
      if (await isAllowed(ctx, role, ask)) continue;
      return isExplained(`the role ${arn} may not do ${ask.action} on ${ask.resource}`);
    }
    return { is: 'allowed', user: keyUser(ctx, role) };
  };

async function findRole(
  ctx: AuthorizationContext,
  account: string,
  arn: string,
): Promise<FoundRole | undefined> {
  const { found } = ctx.caches.of(Roles);
  const name = `${account} ${arn}`;
  const parsed = parseArn(arn);
  if (parsed?.kind !== 'role' || parsed.account !== account) return undefined;
  const now = await iamRevision(ctx.metadata, account);
  const known = found.get(name);
  if (known !== undefined && known.revision === now) return known.role;
  const { revision, value } = await ofOneState(ctx, account, async () => {
    const record = await findNamed(ctx, account, { kind: 'role', name: parsed.name });
    if (record === undefined || roleArn(account, record) !== arn) return undefined;
    return { record, trust: await readTrust(ctx, account, record) };
  });
  const role = value === undefined || revision === undefined ? undefined : toRole(account, revision, value);
  found.set(name, { role, revision });
  return role;
}

function toRole(
  account: string,
  revision: string,
  { record, trust }: { readonly record: RoleRecord; readonly trust: string },
): FoundRole {
  const identity = {
    accessKey: '',
    owner: account,
    displayName: account,
    root: false,
    operator: false,
    caller: roleCaller(account, record, { name: sessionName, tags: [] }),
    iam: { id: record.id, revision },
  };
  return { identity, trust };
}

function isTrusting(
  ctx: AuthorizationContext,
  { trust: text }: FoundRole,
  { account, bucket, arn }: { readonly account: string; readonly bucket: string; readonly arn: string },
): boolean {
  const trust = {
    name: 'trust policy',
    document: parsePolicy(text, { kind: 'trust', isStored: true }),
  };
  const context = serviceFacts(ctx, {}, actingFor({ bucket, account }));
  const principal = servicePrincipal(replicationService);
  const request = { principal, action: 'sts:AssumeRole', resource: arn, context };
  // A service has no identity policies, which could allow it less.
  return decideTrust({ request, identity: [], trust, account: principal.account }).allowed;
}

async function isAllowed(
  ctx: AuthorizationContext,
  { identity }: FoundRole,
  { action, resource, of }: RoleAsk,
): Promise<boolean> {
  const { bucket, key = '', target } = of ?? {};
  const named =
    target === undefined ? [] : ([['s3:VersionId', target.isNull ? 'null' : target.version]] as const);
  const verdict = await evaluatePolicies(
    ctx,
    identity,
    { action, resource, bucket, bucketName: bucket?.name ?? '', key, target },
    { facts: serviceFacts(ctx, { bucket, target }, named) },
  );
  return verdict.allowed;
}

/** The role decrypts what it sends: a key must name its account, and its policies must allow kms:Decrypt. */
const keyUser = (ctx: AuthorizationContext, role: FoundRole): KeyUser => ({
  account: role.identity.owner,
  async assertMayUse(action, { keyId, encryptsFor, decryptsFor }) {
    const { owner } = role.identity;
    const accounts = action === 'kms:Decrypt' ? decryptsFor : encryptsFor;
    const isKeys = accounts === 'reader' || accounts === 'every' || accounts.has(owner);
    const resource = keyId.startsWith('arn:')
      ? keyId
      : `arn:aws:kms:${ctx.config.SVC_REGION}:${owner}:key/${keyId}`;
    if (isKeys && (await isAllowed(ctx, role, { action, resource }))) return;
    throw fail('AccessDenied', `The role of the rule may not do ${action} on ${resource}.`);
  },
});
