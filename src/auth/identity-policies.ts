/**
 * The compiled policies of a caller: of the user and its groups, or of the role. They are cached for one revision of the
 * account's records, so they cost no read until a record of the account changes.
 */
import { BoundedCache, type Caches } from '../base/bounded-cache.ts';
import { openTurns } from '../domain/common/turns.ts';
import { ofOneState } from '../domain/iam/account.ts';
import { managed, type PolicyText, readPolicyTexts } from '../domain/iam/attachments.ts';
import type { Clock } from '../ports/clock.ts';
import type { IamIdentity, Session } from '../ports/credentials.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Identity, Permission } from './identity.ts';
import { type Access, decide } from './policy/decision.ts';
import { type PolicyKind, parsePolicy } from './policy/document.ts';
import { type Policy, policyBytes, type TraceEntry } from './policy/evaluate.ts';
import type { Principal } from './policy/request.ts';
import type { CompiledSize } from './policy/variables.ts';

export type BroughtPolicies = Pick<Access, 'identity' | 'session' | 'boundary'>;

const none: BroughtPolicies = { identity: [] };
/** The annotation lets a bundler leave out those that nothing asks for. */
/* @__NO_SIDE_EFFECTS__ */
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

/**
 * What stands for policies that are too large together. Each of them may have its own limit (`compiledSizeMax`), and a user may have 110:
 * without this limit no cache would hold them, and each request of the user would compile them all for a second.
 */
const tooLarge = onEverything('policies of the caller, which are too large together,', 'Deny');

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
  readonly clock: TurnClock;
  readonly metadata: MetadataStore;
}

/** What compiling many policies needs of the clock, to let others run in between. */
export type TurnClock = Pick<Clock, 'elapsed' | 'sleep' | 'hasRequestScopedTimers'>;

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

/** Of the policies of a user or role, and of those of a session: patterns as `compiledSizeMax` counts them, and bytes. */
export const togetherMax: CompiledSize = { patterns: 1_024, bytes: 6 * mebibyte };
/** Compiling so much takes some 5 ms. */
const turnBytes = 512 * 1024;

/** Compiles the policies in turns of the account. @returns undefined where they are too large together */
export async function compileTogether<T>(
  { clock, account }: { readonly clock: TurnClock; readonly account: string },
  texts: readonly T[],
  compileOne: (text: T, index: number) => Policy,
): Promise<readonly Policy[] | undefined> {
  const rest = openTurns(clock, { account });
  const compiled: Policy[] = [];
  let patterns = 0;
  let bytes = 0;
  let restedAt = 0;
  for (const [index, text] of texts.entries()) {
    if (bytes - restedAt > turnBytes) {
      await rest();
      restedAt = bytes;
    }
    const policy = compileOne(text, index);
    patterns += policy.document.size.patterns;
    bytes += policyBytes(policy);
    if (patterns > togetherMax.patterns || bytes > togetherMax.bytes) return undefined;
    compiled.push(policy);
  }
  return compiled;
}

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
  if (texts === undefined) return { revision, value: none };
  const { identity, boundary } = texts;
  const { clock } = ctx;
  const all = await compileTogether({ clock, account }, [...identity, ...(boundary ?? [])], (text) =>
    compile(memory, text),
  );
  if (all === undefined) return { revision, value: tooLarge };
  const limits = boundary && all.slice(identity.length);
  return { revision, value: { identity: all.slice(0, identity.length), boundary: limits } };
}

/** The session policies. A policy that was deleted allows nothing. */
async function ofSession(
  ctx: Ctx,
  { accessKey, owner: account }: NonNullable<Identity>,
  { iam, session }: { readonly iam: IamIdentity; readonly session: Session },
): Promise<readonly Policy[]> {
  const memory = ctx.caches.of(Memory);
  const cached = memory.sessions.get(accessKey);
  if (cached?.revision === iam.revision) return cached.value;
  const { revision, value: texts } = await ofOneState(ctx, account, () =>
    Promise.all((session.managed ?? []).map((id) => managed(ctx, account, id))),
  );
  const inline: readonly PolicyText[] =
    session.inline === undefined ? [] : [{ name: 'session policy', text: session.inline, key: accessKey }];
  const { clock } = ctx;
  const all = [...inline, ...texts.filter((text) => text !== undefined)];
  const value =
    (await compileTogether({ clock, account }, all, (text, index) =>
      compile(memory, text, index < inline.length ? 'session' : 'identity'),
    )) ?? tooLarge.identity;
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
