/**
 * The compiled policies of a caller: of the user and its groups, or of the role. They are cached for one revision of the
 * account's records, so they cost no read until a record of the account changes.
 */
import { BoundedCache, type Caches } from '../base/bounded-cache.ts';
import { ofOneState } from '../domain/iam/account.ts';
import { managed, type PolicyText, readPolicyTexts } from '../domain/iam/attachments.ts';
import type { IamIdentity, Session } from '../ports/credentials.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Identity, Permission } from './identity.ts';
import { type Access, decide } from './policy/decision.ts';
import { type PolicyKind, parsePolicy } from './policy/document.ts';
import { type Policy, policyBytes, type TraceEntry } from './policy/evaluate.ts';
import type { Principal } from './policy/request.ts';

export type BroughtPolicies = Pick<Access, 'identity' | 'session' | 'boundary'>;

const none: BroughtPolicies = { identity: [] };
const onEverything = (name: string, effect: 'Allow' | 'Deny'): BroughtPolicies => ({
  identity: [
    {
      name,
      document: parsePolicy(
        `{"Version":"2012-10-17","Statement":[{"Effect":"${effect}","Action":"*","Resource":"*"}]}`,
        { kind: 'identity' },
      ),
    },
  ],
});
/** Configured credentials that are not their account's root may do what the account may, because no policy is attached to them. */
const everything = onEverything('configured credentials', 'Allow');
/** The answers of an application for one permission. A refusal is an explicit one: no policy of a bucket allows more. */
const granted = onEverything('authorize of the application', 'Allow');
const refused = onEverything('authorize of the application', 'Deny');

interface Cached<T> {
  readonly revision: string | undefined;
  readonly value: T;
}

const mebibyte = 1024 * 1024;
const entriesMax = 4_096;
const callerBytes = 500;

/** A policy that several callers have counts for each of them, because it stays in memory as long as one of them is cached. */
const countBytes = ({ identity, boundary = [], session = [] }: BroughtPolicies): number =>
  [...identity, ...boundary, ...session].reduce((sum, policy) => sum + policyBytes(policy), callerBytes);

/** The caches of a process: callers by id, and documents, which stay valid when other records change. */
class Memory {
  readonly callers = new BoundedCache<Cached<BroughtPolicies>>({
    name: 'caller-policies',
    entriesMax,
    bytes: { max: 16 * mebibyte, sizeOf: ({ value }) => countBytes(value) },
  });
  readonly sessions = new BoundedCache<Cached<readonly Policy[]>>({
    name: 'session-policies',
    entriesMax,
    bytes: { max: 8 * mebibyte, sizeOf: ({ value }) => countBytes({ identity: value }) },
  });
  readonly compiled = new BoundedCache<Policy>({
    name: 'identity-policies',
    entriesMax,
    bytes: { max: 16 * mebibyte, sizeOf: policyBytes },
  });
}

interface Ctx {
  readonly caches: Caches;
  readonly metadata: MetadataStore;
}

/** Stored documents were checked when they were put. A smaller size limit that came later does not apply to them. */
const anySize = 128 * 1024;

const compile = (
  { compiled }: Memory,
  { name, text, key }: PolicyText,
  kind: PolicyKind = 'identity',
): Policy =>
  compiled.find(`${kind} ${name} ${key}`, () => ({
    name,
    document: parsePolicy(text, { kind, sizeMax: anySize, isStored: true }),
  }));

/** @param permission that is asked for; absent: a caller whose permissions the application grants one by one has none */
export async function readPolicies(
  ctx: Ctx,
  identity: Identity,
  permission?: Permission,
): Promise<BroughtPolicies> {
  if (identity === undefined) return none;
  if (identity.permits !== undefined)
    return permission !== undefined && (await identity.permits(permission)) ? granted : refused;
  const { iam, owner, root, session, accessKey } = identity;
  if (iam === undefined) {
    const brought = root ? none : everything;
    if (session?.inline === undefined) return brought;
    const policy = { name: 'session policy', text: session.inline, key: accessKey };
    return { ...brought, session: [compile(ctx.caches.of(Memory), policy, 'session')] };
  }
  const brought = await ofIam(ctx, owner, iam);
  if (session?.inline === undefined && session?.managed === undefined) return brought;
  return { ...brought, session: await ofSession(ctx, identity, { iam, session }) };
}

/** The same with another document, wherever the policy of its name stands; an identity policy more, where none has its name. */
export function withPolicy(
  { identity, boundary, session }: BroughtPolicies,
  policy: Policy,
): BroughtPolicies {
  const replace = (all: readonly Policy[]) => all.map((each) => (each.name === policy.name ? policy : each));
  const isLocked = hasPolicy({ identity, boundary, session }, policy.name);
  return {
    identity: isLocked ? replace(identity) : [...identity, policy],
    ...(boundary === undefined ? {} : { boundary: replace(boundary) }),
    ...(session === undefined ? {} : { session: replace(session) }),
  };
}

export const hasPolicy = (
  { identity, boundary = [], session = [] }: BroughtPolicies,
  name: string,
): boolean => [...identity, ...boundary, ...session].some((each) => each.name === name);

async function ofIam(ctx: Ctx, account: string, iam: IamIdentity): Promise<BroughtPolicies> {
  const { callers } = ctx.caches.of(Memory);
  const place = `${account} ${iam.id}`;
  const cached = callers.get(place);
  if (cached?.revision === iam.revision) return cached.value;
  const found = await readHolder(ctx, account, iam.id);
  callers.set(place, found);
  return found.value;
}

/** The policies of a user, group or role. */
export const policiesOfHolder = async (ctx: Ctx, account: string, id: string): Promise<BroughtPolicies> =>
  (await readHolder(ctx, account, id)).value;

async function readHolder(ctx: Ctx, account: string, id: string): Promise<Cached<BroughtPolicies>> {
  const memory = ctx.caches.of(Memory);
  const { revision, value: texts } = await ofOneState(ctx, account, () => readPolicyTexts(ctx, account, id));
  const all = (input: readonly PolicyText[]): readonly Policy[] => input.map((text) => compile(memory, text));
  const value =
    texts === undefined
      ? none
      : { identity: all(texts.identity), boundary: texts.boundary && all(texts.boundary) };
  return { revision, value };
}

/** The session policies. A policy that was deleted allows nothing. */
async function ofSession(
  ctx: Ctx,
  { accessKey, owner }: NonNullable<Identity>,
  { iam, session }: { readonly iam: IamIdentity; readonly session: Session },
): Promise<readonly Policy[]> {
  const memory = ctx.caches.of(Memory);
  const cached = memory.sessions.get(accessKey);
  if (cached?.revision === iam.revision) return cached.value;
  const { revision, value: texts } = await ofOneState(ctx, owner, () =>
    Promise.all((session.managed ?? []).map((id) => managed(ctx, owner, id))),
  );
  const inline: readonly PolicyText[] =
    session.inline === undefined ? [] : [{ name: 'session policy', text: session.inline, key: accessKey }];
  const value = [
    ...inline.map((text) => compile(memory, text, 'session')),
    ...texts.filter((text) => text !== undefined).map((text) => compile(memory, text)),
  ];
  memory.sessions.set(accessKey, { revision, value });
  return value;
}

// Simulation: the policy engine, with its trace, over given facts instead of a request.

export interface Simulation {
  readonly principal: Principal;
  readonly identity: readonly Policy[];
  readonly boundary: readonly Policy[] | undefined;
  /** The policy of the resource, and the account that owns the resource. */
  readonly resourcePolicy: Policy | undefined;
  readonly owner: string;
  readonly facts: ReadonlyMap<string, string | readonly string[]>;
}

interface Simulated {
  readonly decision: 'allowed' | 'explicitDeny' | 'implicitDeny';
  /** Names of the policies whose statements apply. */
  readonly matched: readonly string[];
  /** Condition keys that a policy used and the simulation was not given. */
  readonly missing: readonly string[];
  /** Undefined without a permissions boundary. */
  readonly isWithinBoundary: boolean | undefined;
}

export function simulate(
  simulation: Simulation,
  { action, resource }: { readonly action: string; readonly resource: string },
): Simulated {
  const { principal, identity, boundary, resourcePolicy, owner, facts } = simulation;
  const missing = new Set<string>();
  const lookup = (key: string) => {
    const found = facts.get(key.toLowerCase());
    if (found === undefined) missing.add(key);
    return found;
  };
  const trace: TraceEntry[] = [];
  const access: Access = {
    request: { principal, action, resource, context: { lookup } },
    identity,
    boundary,
    ...(resourcePolicy === undefined
      ? {}
      : {
          bucket: {
            owner,
            policy: resourcePolicy,
            acls: { bucket: [] },
            ownership: 'BucketOwnerEnforced',
          },
        }),
  };
  const { allowed, reason } = decide(access, trace);
  const matched = trace.filter(({ outcome }) => outcome === 'applies').map(({ policy }) => policy);
  return {
    decision: allowed ? 'allowed' : reason === 'explicit-deny' ? 'explicitDeny' : 'implicitDeny',
    matched: [...new Set(matched)],
    missing: [...missing],
    isWithinBoundary: boundary === undefined ? undefined : allowed || reason !== 'permissions-boundary',
  };
}
